// Two devices: memory made before and after peer access was enabled is visible to the peer, and holds its bytes.
#include <cstring>
#include <vector>

#include "program.h"

static void check(const char* what, CUdeviceptr from, CUcontext reader) {
  std::vector<unsigned char> bytes(20170);
  cuCtxSetCurrent(reader);
  CUdeviceptr copy = allocate(bytes.size());
  say(what, cuMemcpyDtoD(copy, from, bytes.size()));
  SAY(cuMemcpyDtoH(bytes.data(), copy, bytes.size()));
  std::printf("%s bytes %u %u\n", what, bytes.front(), bytes.back());
  SAY(cuMemFree(copy));
}

int main() {
  CUdevice devices[2] = {};
  CUcontext contexts[2] = {};
  SAY(cuInit(0));
  for (int i = 0; i < 2; ++i) {
    SAY(cuDeviceGet(&devices[i], i));
    SAY(cuDevicePrimaryCtxRetain(&contexts[i], devices[i]));
  }
  int can = 0;
  SAY(cuDeviceCanAccessPeer(&can, devices[1], devices[0]));
  SAY(cuCtxSetCurrent(contexts[0]));
  CUdeviceptr before = allocate(20170);
  SAY(cuMemsetD8(before, 11, 20170));
  SAY(cuCtxSetCurrent(contexts[1]));
  SAY(cuCtxEnablePeerAccess(contexts[0], 0));
  say("twice", cuCtxEnablePeerAccess(contexts[0], 0));
  SAY(cuCtxSetCurrent(contexts[0]));
  CUdeviceptr after = allocate(20170);
  SAY(cuMemsetD8(after, 22, 20170));
  SAY(cuCtxSynchronize());
  check("before", before, contexts[1]);
  check("after", after, contexts[1]);
  SAY(cuCtxDisablePeerAccess(contexts[0]));
  say("freed from the other context", cuMemFree(before));
  SAY(cuMemFree(after));
}
