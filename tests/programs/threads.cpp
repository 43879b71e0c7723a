// Four threads, each with its own size, allocate and free; every event must be there.
#include <thread>
#include <vector>

#include "program.h"

int main() {
  const CUdevice device = start_cuda();
  CUcontext context = nullptr;
  SAY(cuDevicePrimaryCtxRetain(&context, device));
  std::vector<std::thread> threads;
  int failures[4] = {};
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      cuCtxSetCurrent(context);
      for (int i = 0; i < 500; ++i) {
        CUdeviceptr address = 0;
        if (cuMemAlloc(&address, static_cast<size_t>(20060 + number)) != CUDA_SUCCESS) ++failures[number];
        if (cuMemFree(address) != CUDA_SUCCESS) ++failures[number];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : failures) std::printf("failures %d\n", count);
}
