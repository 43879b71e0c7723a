// What the driver refuses stays refused, with its own code: zero bytes, too much, double free, foreign and inner pointers.
#include "program.h"

int main() {
  CUdeviceptr address = 0x1234;
  say("before cuInit", cuMemAlloc(&address, 20080));
  say("free before cuInit", cuMemFree(0x7000000));
  say("null before cuInit", cuMemFree(0));
  start_cuda();
  say("zero bytes", cuMemAlloc(&address, 0));
  say("too much", cuMemAlloc(&address, size_t{1} << 46));
  std::printf("out-parameter untouched %d\n", address == 0x1234);
  CUdeviceptr block = allocate(20081);
  say("inner pointer", cuMemFree(block + 512));
  say("free", cuMemFree(block));
  say("double free", cuMemFree(block));
  say("foreign pointer", cuMemFree(0x123456789000));
  int on_stack = 0;
  say("host pointer", cuMemFreeHost(&on_stack));
  CUcontext none = nullptr;
  SAY(cuCtxSetCurrent(none));
  say("without a context", cuMemAlloc(&address, 20082));
}
