// What the tiny hosts share: they print one line a call, with nothing in it that may differ from run to run (no addresses,
// no times), so that a run under cuheap can be compared with a bare one. Sizes are distinctive: an event names its call.
#pragma once
#include <cuda.h>

#include <cstdio>
#include <cstdlib>

inline CUresult say(const char* what, CUresult result) {
  std::printf("%s %d\n", what, static_cast<int>(result));
  std::fflush(stdout);
  return result;
}
#define SAY(call) say(#call, call)

/// cuInit and the first device's primary context, current.
inline CUdevice start_cuda() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  say("cuInit", cuInit(0));
  say("cuDeviceGet", cuDeviceGet(&device, 0));
  say("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
  say("cuCtxSetCurrent", cuCtxSetCurrent(context));
  return device;
}

inline CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr address = 0;
  std::printf("cuMemAlloc %zu -> %d\n", bytes, static_cast<int>(cuMemAlloc(&address, bytes)));
  std::fflush(stdout);
  return address;
}
