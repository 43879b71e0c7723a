// Memory is taken, on a stack seen before, while another thread holds the loader's list lock and waits for it: a callback of
// dl_iterate_phdr, or a collector that has stopped a thread inside it. Whoever asked the loader at every event would hang.
#include <link.h>

#include <atomic>
#include <thread>

#include "program.h"

static std::atomic<int> asked{0}, done{0};

static void take_when_asked() {
  for (int turn = 1; turn <= 3; ++turn) {
    while (asked.load() < turn) std::this_thread::yield();
    CUdeviceptr address = 0;
    const CUresult taken = cuMemAlloc(&address, 20270), freed = cuMemFree(address);
    std::printf("turn %d: %d %d\n", turn, taken, freed);
    done.store(turn);
  }
}

static void wait_for(int turn) {
  asked.store(turn);
  while (done.load() < turn) std::this_thread::yield();
}

int main() {
  start_cuda();
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  std::thread other([context] {
    cuCtxSetCurrent(context);
    take_when_asked();
  });
  wait_for(1);
  wait_for(2);
  dl_iterate_phdr([](dl_phdr_info*, size_t, void*) { wait_for(3); return 1; }, nullptr);
  other.join();
}
