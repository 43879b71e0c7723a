// exit() while other threads are in the middle of calls: destructors and exit handlers run beside them.
#include <atomic>
#include <thread>

#include "program.h"

static std::atomic<int> rounds{0};

int main() {
  start_cuda();
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  for (int i = 0; i < 4; ++i) {
    std::thread([context] {
      cuCtxSetCurrent(context);
      for (;; ++rounds) {
        CUdeviceptr address = 0;
        cuMemAlloc(&address, 20220);
        cuMemFree(address);
      }
    }).detach();
  }
  while (rounds < 2000) std::this_thread::yield();
  std::printf("leaving\n");
  std::exit(0);
}
