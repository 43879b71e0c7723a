// A runtime copy in the driver's words: shared by the copy calls and the graph's memcpy nodes.
#pragma once

#include "runtime.h"

namespace cuheap::sim::runtime {

// Positions and extents of arrays are in elements, of memory in bytes; the driver counts bytes throughout.
CUresult to_driver(const cudaMemcpy3DParms& params, CUDA_MEMCPY3D& copy);
cudaMemcpy3DParms to_runtime(const CUDA_MEMCPY3D& copy);
CUresult to_driver(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, CUDA_MEMCPY3D& copy);

// Bytes of one element of an array; 0 if the driver does not know the array.
size_t element_bytes(CUarray array);

inline CUarray to_driver(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray*>(array));
}

}  // namespace cuheap::sim::runtime
