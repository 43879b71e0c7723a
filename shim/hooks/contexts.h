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

struct MadeContext {
  CurrentContext now;
  bool has_ended_unseen = false;     // the life before this one did, and nobody has said so yet: the caller shall
  std::uint32_t ended_generation = 0;
};
/// There is such a context on that device: one that is new, or one that has come back. `id` is what the driver never gives
/// twice (cuCtxGetId; 0: it would not say): by it a life is known that ended while this one was being made.
MadeContext context_was_made(std::uint64_t context, int device, std::uint64_t id);
/// The driver is about to be asked to end it: from now on nobody may count on it. Returns the generation it ends.
std::uint32_t context_is_ending(std::uint64_t context);
/// After the call, with that generation. If the driver ended it, the next generation begins, and is over until the context is
/// made again; if not, all is as it was. True for one caller a generation: whoever is the first to know of its end.
bool context_end_is_decided(std::uint64_t context, std::uint32_t generation, bool ended);
/// The driver has just served it although we took it for ended: it came back by a way that we do not see.
void context_has_answered(std::uint64_t context, const ContextLife& life);

/// Primary contexts by device ordinal, learnt from cuDevicePrimaryCtxRetain.
void note_primary_context(CUdevice device, CUcontext context);
std::uint64_t primary_context(CUdevice device);

}  // namespace cuheap
