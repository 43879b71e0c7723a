// Whose turn it is: the current context of the calling thread, its device, and how often that context value has ended. A
// CUcontext comes back after a reset, so nothing is keyed by its value alone.
#pragma once
#include <cstdint>

#include "shim/driver/cuda_api.h"
#include "shim/pool/allocator.h"

namespace cuheap {

struct CurrentContext {
  std::uint64_t context = 0;  // 0: none
  std::uint32_t generation = 0;
  int device = -1;
  ContextLife life;
};

/// Asks the driver for the current context (a thread-local read there) and the cache for the rest.
CurrentContext current_context();

/// There is such a context on that device: one that is new, or one that has come back.
CurrentContext context_was_made(std::uint64_t context, int device);
/// The driver is about to be asked to end it: from now on nobody may count on it. Returns the generation it ends.
std::uint32_t context_is_ending(std::uint64_t context);
/// After the call. If the driver did it, the next generation begins, and is over until the context is made again; if not,
/// all is as it was.
void context_end_is_decided(std::uint64_t context, bool ended);
/// The driver has just served it although we took it for ended: it came back by a way that we do not see.
void context_has_answered(std::uint64_t context, const ContextLife& life);

/// Primary contexts by device ordinal, learnt from cuDevicePrimaryCtxRetain.
void note_primary_context(CUdevice device, CUcontext context);
std::uint64_t primary_context(CUdevice device);

}  // namespace cuheap
