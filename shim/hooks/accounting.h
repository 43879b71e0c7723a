// What a hook does besides forwarding: look at the caller before, account after. Every function here opens its own
// HookScope and keeps errno; none is in progress while the real call runs.
#pragma once
#include <cstddef>
#include <cstdint>

#include "shim/hooks/block_table.h"
#include "shim/hooks/captures.h"
#include "shim/lifecycle.h"
#include "shim/pool/allocator.h"

// A function that libcuheap.so shows. Not noexcept: an exception or a cancellation of the host may pass through.
#define CUHEAP_EXPORT extern "C" __attribute__((visibility("default")))

namespace cuheap {

/// Alive addresses (unified address space: device, managed, pinned, registered, imported), arrays, physical handles.
BlockTable& blocks();
BlockTable& arrays();

/// The calling thread's situation, for the allocator.
Caller current_caller();

struct PendingAllocation {
  AllocationRequest request;
  std::uint64_t stream = 0;
  Family family = Family::None;
  bool counted = false;  // recording, and not inside our own work
};

/// Before the real call: who asks. `bytes` is what the host asked for.
[[nodiscard]] PendingAllocation before_allocation(Family family, std::size_t bytes, CUstream stream = nullptr);
/// After it. On success the block is entered and recorded under `address`; a refusal is recorded as such.
void after_allocation(const PendingAllocation& pending, CUresult result, std::uint64_t address, std::uint8_t event_flags = 0);
inline void after_allocation(const PendingAllocation& pending, CUresult result, const CUdeviceptr* out,
                             std::uint8_t event_flags = 0) {
  after_allocation(pending, result, result == CUDA_SUCCESS ? static_cast<std::uint64_t>(*out) : 0, event_flags);
}
inline void after_allocation(const PendingAllocation& pending, CUresult result, void* const* out) {
  after_allocation(pending, result, result == CUDA_SUCCESS ? reinterpret_cast<std::uint64_t>(*out) : 0);
}

constexpr int kAnyDevice = -1;
constexpr std::size_t kAnyBytes = ~std::size_t{0};  // the call does not say how much it needs

/// Asks the allocator to give memory of the device back to the driver.
bool relieve(int device, std::size_t bytes);

/// The call, and once more if the allocator could give memory back for it: a pool must not be the reason of an OOM.
template <typename Call>
CUresult with_relief(int device, std::size_t bytes, Call&& call) {
  const CUresult result = call();
  if (result != CUDA_ERROR_OUT_OF_MEMORY) [[likely]] return result;
  return relieve(device, bytes) ? call() : result;
}
template <typename Call>
CUresult with_relief(const PendingAllocation& pending, Call&& call) {
  return with_relief(pending.request.caller.device, pending.request.bytes, call);
}

struct PendingFree {
  Caller caller;
  std::uint64_t key = 0;
  std::uint64_t stream = 0;
  Block block;
  bool counted = false;
  bool known = false;
};

/// Before the real call: afterwards another thread may own the address.
[[nodiscard]] PendingFree before_free(BlockTable& table, std::uint64_t address, CUstream stream = nullptr);
[[nodiscard]] inline PendingFree before_free(CUdeviceptr address, CUstream stream = nullptr) {
  return before_free(blocks(), address, stream);
}
[[nodiscard]] inline PendingFree before_free(const void* address) {
  return before_free(blocks(), reinterpret_cast<std::uint64_t>(address));
}
void after_free(BlockTable& table, const PendingFree& pending, CUresult result);
inline void after_free(const PendingFree& pending, CUresult result) { after_free(blocks(), pending, result); }

/// The host asked for memory info and got this answer.
void note_memory_info(const Caller& caller, CUresult result, const std::size_t* free, const std::size_t* total);
/// An event without a block: Reserve, Unreserve, Map, Unmap, CaptureBegin, CaptureEnd. A zero time is the recorder's to stamp.
void note(EventKind kind, Floor floor, std::uint64_t address, std::uint64_t size, std::uint64_t extra0 = 0,
          std::uint64_t extra1 = 0, CUstream stream = nullptr, std::uint64_t time_ns = 0);

/// The open capture of a stream, before a call that may end it.
[[nodiscard]] CaptureTicket open_capture_of(CUstream stream);
/// It is over, with that graph or (null) without one. The allocator hears of it once: true for that call.
bool close_capture(CaptureTicket ticket, CUstream stream, CUgraph graph);

struct EndingContext {
  std::uint64_t context = 0;
  std::uint32_t generation = 0;
  std::uint64_t time_ns = 0;
};
/// Around a call that may end a context.
[[nodiscard]] EndingContext before_context_end(std::uint64_t context);
void after_context_end(const EndingContext& ending, bool ended);
/// All that follows from an end, once for each.
void context_has_ended(const EndingContext& ended);

/// Bytes alive on a floor, for the OutOfMemory event.
void count_live(Floor floor, int device, std::int64_t bytes);

/// Records one event of a block under a scope already held. A zero time is the recorder's to stamp.
void record_block(const HookScope& scope, EventKind kind, Floor floor, const Block& block, std::uint64_t stream, SiteId site,
                  std::uint8_t event_flags, std::uint64_t time_ns = 0);

}  // namespace cuheap
