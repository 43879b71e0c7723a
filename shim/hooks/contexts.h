// Whose turn it is: the current context of the calling thread, its device, and how often that context value has ended. A
// CUcontext comes back after a reset, so nothing is keyed by its value alone.
#pragma once
#include <cstdint>

#include "shim/driver/cuda_api.h"

namespace cuheap {

struct CurrentContext {
  std::uint64_t context = 0;  // 0: none
  std::uint32_t generation = 0;
  int device = -1;
};

/// Asks the driver for the current context (a thread-local read there) and the cache for the rest.
CurrentContext current_context();

std::uint32_t context_generation(std::uint64_t context);
/// The driver has ended it: the next generation begins.
void context_has_ended(std::uint64_t context);

/// Primary contexts by device ordinal, learnt from cuDevicePrimaryCtxRetain.
void note_primary_context(CUdevice device, CUcontext context);
std::uint64_t primary_context(CUdevice device);

}  // namespace cuheap
