// libcuda.so.1 of a machine without a device; unlike simgpu's it can be unloaded.
#include <cuda.h>

CUresult cuInit(unsigned) { return CUDA_ERROR_NO_DEVICE; }
CUresult cuCtxDestroy(CUcontext) { return CUDA_ERROR_NOT_INITIALIZED; }
