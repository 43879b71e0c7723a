// Phases and marks by weak symbols: the same program runs with and without the library.
#include "../../shim/annotate.h"

#include <thread>

#include "program.h"

int main() {
  CUHEAP_PHASE_BEGIN("load");
  start_cuda();
  CUcontext context = nullptr;
  SAY(cuCtxGetCurrent(&context));
  CUdeviceptr loaded = allocate(20100);
  CUHEAP_PHASE_BEGIN("inner");
  SAY(cuMemFree(allocate(20101)));
  CUHEAP_PHASE_END();
  std::thread([context] {
    cuCtxSetCurrent(context);
    SAY(cuMemFree(allocate(20102)));  // of no phase of its own: the process's
  }).join();
  CUHEAP_PHASE_END();
  CUHEAP_MARK("step");
  CUHEAP_BLOCK_ALLOC(reinterpret_cast<void*>(loaded), 20103, 0);
  CUHEAP_BLOCK_FREE(reinterpret_cast<void*>(loaded), 0);
  SAY(cuMemFree(loaded));
  CUHEAP_PHASE_END();  // one too many
}
