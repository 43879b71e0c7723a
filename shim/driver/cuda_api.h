// cuda.h as an interposer needs it: every exported name stands for itself. Without __CUDA_API_VERSION_INTERNAL the header
// renames cuMemAlloc to cuMemAlloc_v2 and hides old ABIs and _ptsz twins; everything in shim/ includes this, never cuda.h.
#pragma once
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

// In the 13.1 driver, not in the 13.0 header.
extern "C" {
CUresult CUDAAPI cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                       CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                                       unsigned long long flags);
CUresult CUDAAPI cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                        CUdeviceptr memptr, size_t size, unsigned long long flags);
}
