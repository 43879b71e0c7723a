// contexts destroy|reset|release: memory dies with its context; the context may come back under the same number.
#include <cstring>

#include "program.h"

int main(int argc, char** argv) {
  CUdevice device = start_cuda();
  if (argc > 1 && std::strcmp(argv[1], "reset") == 0) {
    allocate(20070);
    SAY(cuDevicePrimaryCtxReset(device));
    CUcontext again = nullptr;
    SAY(cuDevicePrimaryCtxRetain(&again, device));
    SAY(cuCtxSetCurrent(again));
    SAY(cuMemFree(allocate(20071)));
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "release") == 0) {
    CUcontext again = nullptr;
    SAY(cuDevicePrimaryCtxRetain(&again, device));
    allocate(20075);
    SAY(cuDevicePrimaryCtxRelease(device));  // one holder is left
    allocate(20076);
    SAY(cuDevicePrimaryCtxRelease(device));
    SAY(cuDevicePrimaryCtxRetain(&again, device));
    SAY(cuCtxSetCurrent(again));
    SAY(cuMemFree(allocate(20077)));
    return 0;
  }
  CUcontext first = nullptr, second = nullptr;
  SAY(cuCtxCreate(&first, nullptr, 0, device));
  allocate(20072);
  CUdeviceptr dead = allocate(20073);
  SAY(cuCtxDestroy(first));
  SAY(cuCtxCreate(&second, nullptr, 0, device));
  SAY(cuMemFree(dead));
  SAY(cuMemFree(allocate(20074)));
  SAY(cuCtxDestroy(second));
}
