// unloads LIBRARY: code that allocates is loaded, used and unloaded over and over, while other threads allocate: a stack may
// pass through code that is gone at the next call.
#include <dlfcn.h>

#include <atomic>
#include <thread>
#include <vector>

#include "program.h"

static std::atomic<bool> done{false};
static std::atomic<int> failures{0};

int main(int, char** argv) {
  start_cuda();
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([context] {
      cuCtxSetCurrent(context);
      while (!done) {
        CUdeviceptr address = 0;
        failures += cuMemAlloc(&address, 20270) != CUDA_SUCCESS;
        failures += cuMemFree(address) != CUDA_SUCCESS;
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    void* const library = dlopen(argv[1], RTLD_NOW);
    if (library == nullptr) return 2;
    const auto use = reinterpret_cast<int (*)(size_t)>(dlsym(library, "use_memory"));
    failures += use(20271);
    dlclose(library);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("failures %d\n", failures.load());
}
