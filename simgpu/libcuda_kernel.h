// Kernel launches, for the launch calls and for kernel nodes of graphs.
#pragma once

#include "simgpu/libcuda_entry.h"

namespace cuheap::sim {

CUresult check_kernel(CUDA_KERNEL_NODE_PARAMS& parameters, int device);
Work kernel_work(const CUDA_KERNEL_NODE_PARAMS& parameters);

}  // namespace cuheap::sim
