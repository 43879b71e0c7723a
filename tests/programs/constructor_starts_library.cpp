#include <cuda.h>

#include <cstdio>
#include <thread>

__attribute__((constructor)) static void start_elsewhere() {
  std::thread([] { std::printf("cuInit in a constructor's thread %d\n", static_cast<int>(cuInit(0))); }).join();
}
