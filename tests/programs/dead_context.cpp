// dead_context destroy|reset|race: a context that one thread ends is still current in another, which goes on asking.
#include <atomic>
#include <cstring>
#include <functional>
#include <semaphore>
#include <thread>

#include "program.h"

namespace {

/// A thread that does what it is told, one thing after the other.
class Other {
 public:
  void does(std::function<void()> work) {
    work_ = std::move(work);
    go_.release();
    done_.acquire();
  }
  ~Other() {
    work_ = nullptr;
    go_.release();
    thread_.join();
  }

 private:
  void run() {
    for (go_.acquire(); work_; go_.acquire()) {
      work_();
      done_.release();
    }
  }
  std::function<void()> work_;
  std::binary_semaphore go_{0}, done_{0};
  std::thread thread_{[this] { run(); }};
};

void ask(const char* who, CUdeviceptr earlier, CUdeviceptr others) {
  std::printf("%s\n", who);
  CUdeviceptr small = 0, large = 0;
  size_t free = 0, total = 0;
  SAY(cuMemAlloc(&small, 20190));
  SAY(cuMemAlloc(&large, 40 << 20));
  SAY(cuMemGetInfo(&free, &total));
  SAY(cuMemGetAddressRange(nullptr, &free, earlier));
  SAY(cuMemGetAddressRange(nullptr, &free, others));
  SAY(cuMemFreeAsync(earlier, nullptr));
  SAY(cuMemFree(earlier));
}

void end(bool reset, CUdevice device, CUcontext context) {
  if (reset) SAY(cuDevicePrimaryCtxReset(device));
  else SAY(cuCtxDestroy(context));
}

CUcontext make(bool reset, CUdevice device) {
  CUcontext context = nullptr;
  if (reset) SAY(cuDevicePrimaryCtxRetain(&context, device));
  else SAY(cuCtxCreate(&context, nullptr, 0, device));
  SAY(cuCtxSetCurrent(context));
  return context;
}

void tell(bool reset) {
  CUdevice device = 0;
  SAY(cuInit(0));
  CUcontext second = nullptr;
  SAY(cuCtxCreate(&second, nullptr, 0, device));
  const CUdeviceptr others = allocate(20197);
  CUcontext context = make(reset, device);
  CUdeviceptr earlier = allocate(20191);
  Other other;
  other.does([&] {
    SAY(cuCtxSetCurrent(context));
    SAY(cuMemFree(allocate(20192)));
  });
  end(reset, device, context);
  other.does([&] { ask("after the end", earlier, others); });
  context = make(reset, device);
  other.does([&] { ask("while there is another", earlier, others); });
  other.does([&] {
    SAY(cuCtxSetCurrent(context));
    SAY(cuMemFree(allocate(20193)));
  });
  SAY(cuMemFree(allocate(20194)));
}

// How many requests are in time differs from run to run. Nobody crashes, hangs or goes unserved afterwards.
void race() {
  start_cuda();
  SAY(cuMemFree(allocate(20195)));
  for (int round = 0; round < 200; ++round) {
    CUcontext context = nullptr;
    if (cuCtxCreate(&context, nullptr, 0, 0) != CUDA_SUCCESS) std::printf("no context in round %d\n", round);
    std::atomic<int> served{0};
    std::thread asker([&] {
      cuCtxSetCurrent(context);
      CUdeviceptr block = 0;
      for (size_t bytes = 1000; cuMemAlloc(&block, bytes) == CUDA_SUCCESS; bytes = bytes * 3 % (3 << 20) + 1) ++served;
    });
    while (served.load() < round % 40 + 1) std::this_thread::yield();
    cuCtxDestroy(context);
    asker.join();
  }
  SAY(cuMemFree(allocate(20196)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "race") == 0) return race(), 0;
  tell(argc > 1 && std::strcmp(argv[1], "reset") == 0);
}
