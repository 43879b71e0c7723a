// Kernels and variables that a program registered at start: host address -> name in an image, found in the driver at
// first use. Registration is a push into a table and nothing more: PyTorch registers 445 images with 21,504 kernels
// before main.
#pragma once

#include <cstddef>

#include "runtime.h"

namespace cuheap::sim::runtime {

struct Variable {
  CUdeviceptr address = 0;
  size_t bytes = 0;
};

// CUresult holds cudaErrorInvalidSymbol / cudaErrorInvalidDeviceFunction for what nobody registered.
CUresult find_variable(const void* host_address, Variable& variable);
CUresult find_kernel(const void* host_address, CUkernel& kernel);

// The image that the compiler registered this host function with; null for handles and strangers.
const void* image_of_kernel(const void* host_address);

// A kernel loaded through a library handle: from now on the handle may stand for a host function.
void remember_handle(CUkernel kernel);

// The other way: which host function names this kernel; the handle itself when it was loaded through a library.
const void* host_function(CUkernel kernel);

}  // namespace cuheap::sim::runtime
