#include <cuda.h>

extern "C" int use_memory(size_t bytes) {
  CUdeviceptr address = 0;
  int failures = cuMemAlloc(&address, bytes) != CUDA_SUCCESS;
  failures += cuMemFree(address) != CUDA_SUCCESS;
  return failures;
}

/// For a program that frees what this library made.
extern "C" CUdeviceptr make_memory(size_t bytes) {
  CUdeviceptr address = 0;
  return cuMemAlloc(&address, bytes) == CUDA_SUCCESS ? address : 0;
}
