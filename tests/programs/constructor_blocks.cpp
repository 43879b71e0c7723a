// While one thread is inside a library's constructor the loader's lock is held. Another thread allocates; its hooks must
// not ask the loader anything, or both wait for ever. The constructor ends when the other thread has its memory.
#include <dlfcn.h>

#include <atomic>
#include <thread>

#include "program.h"

extern "C" {
std::atomic<int> inside_constructor{0};
std::atomic<int> other_is_done{0};
}

int main(int, char** argv) {
  start_cuda();
  SAY(cuMemFree(allocate(20110)));
  CUcontext context = nullptr;
  SAY(cuCtxGetCurrent(&context));
  std::thread loader([path = std::string(argv[1])] { std::printf("loaded %d\n", dlopen(path.c_str(), RTLD_NOW) != nullptr); });
  while (inside_constructor.load() == 0) std::this_thread::yield();
  CUdeviceptr block = allocate(20111);
  SAY(cuMemFree(block));
  other_is_done.store(1);
  loader.join();
}
