// Memory freed where it was not made: without a current context, with another device's, with another context of the device,
// in another thread.
#include <initializer_list>
#include <thread>

#include "program.h"

int main() {
  start_cuda();
  CUcontext home = nullptr, other = nullptr, away = nullptr;
  cuCtxGetCurrent(&home);
  SAY(cuCtxCreate(&other, nullptr, 0, 0));
  SAY(cuDevicePrimaryCtxRetain(&away, 1));
  const CUcontext from[] = {home, other, away};
  for (const CUcontext maker : from) {
    for (const CUcontext ender : {home, other, away, CUcontext{nullptr}}) {
      cuCtxSetCurrent(maker);
      const CUdeviceptr block = allocate(20310);
      cuCtxSetCurrent(ender);
      CUdeviceptr base = 0;
      size_t size = 0;
      if (ender != nullptr) SAY(cuMemGetAddressRange(&base, &size, block));
      std::printf("base %d size %zu\n", base == block, size);
      SAY(cuMemFree(block));
      SAY(cuMemFree(block));
    }
    cuCtxSetCurrent(maker);
    const CUdeviceptr block = allocate(20311);
    std::thread([block] { SAY(cuMemFree(block)); }).join();
  }
}
