#include "shim/hooks/accounting.h"

#include "shim/driver/driver.h"
#include "shim/hooks/contexts.h"
#include "shim/hooks/phases.h"
#include "tracer/base/keep_errno.h"

namespace cuheap {
namespace {

// Frames of ours between capture_site's caller and the host: before_allocation or after_free, and the hook.
constexpr unsigned kOwnFrames = 2;
constexpr std::size_t kDevices = 129;  // the host first, then ordinals; higher ones share the last

constinit BlockTable block_table;
constinit BlockTable array_table;
constinit std::atomic<std::uint64_t> live_bytes[2][kDevices];  // physical, allocation

std::atomic<std::uint64_t>& live_bytes_of(Floor floor, int device) {
  const std::size_t index = static_cast<std::size_t>(device + 1);
  return live_bytes[floor == Floor::Physical ? 0 : 1][index < kDevices ? index : kDevices - 1];
}

void died(const Block& block) { count_live(Floor::Allocation, block.device, -static_cast<std::int64_t>(block.size)); }

bool is_physical(Family family) { return family == Family::Handle || family == Family::HostHandle; }
Floor floor_of(Family family) { return is_physical(family) ? Floor::Physical : Floor::Allocation; }

void record_memory_info(const Caller& caller, std::size_t free, std::size_t total) {
  Event event;
  event.kind = EventKind::MemoryInfo;
  event.floor = Floor::Physical;
  event.device = static_cast<std::int16_t>(caller.device);
  event.size = free;
  event.extra0 = total;
  event.context = caller.context;
  event.phase = current_phase();
  recorder().record(event);
}

/// The driver ends these with their context; pools, graphs and handles outlive it.
bool ends_with_context(Family family) {
  return family != Family::AsyncPool && family != Family::Graph && !is_physical(family);
}

int device_of(const PendingAllocation& pending) { return is_host_family(pending.family) ? -1 : pending.request.caller.device; }

void record_refusal(const PendingAllocation& pending, CUresult result, std::uint64_t idle) {
  Event event;
  event.kind = result == CUDA_ERROR_OUT_OF_MEMORY ? EventKind::OutOfMemory : EventKind::AllocateFailed;
  event.floor = floor_of(pending.family);
  event.family = pending.family;
  event.device = static_cast<std::int16_t>(device_of(pending));
  event.size = pending.request.bytes;
  event.stream = pending.stream;
  event.context = pending.request.caller.context;
  event.site = pending.request.site;
  event.phase = current_phase();
  event.extra0 = static_cast<std::uint64_t>(result);
  if (event.kind == EventKind::OutOfMemory) {
    event.extra0 = live_bytes_of(event.floor, event.device).load(std::memory_order_relaxed);
    event.extra1 = event.extra0 + idle;
  }
  recorder().record(event);
}

Block block_of(const PendingAllocation& pending, std::uint64_t address, std::uint8_t event_flags) {
  const Caller& caller = pending.request.caller;
  Block block;
  block.size = pending.request.bytes;
  block.identity = address;
  block.family = pending.family;
  block.device = static_cast<std::int16_t>(device_of(pending));
  if (ends_with_context(pending.family)) {
    block.context = caller.context;
    block.generation = caller.generation;
  }
  block.is_pooled = (event_flags & kEventPooled) != 0;
  return block;
}

// Free memory of a device, asked at most so often, where memory has just changed hands and the driver was called anyway:
// what no hook sees (contexts, modules, other processes) shows between two samples.
constexpr std::uint64_t kSampleEveryNs = 100'000'000;
constinit std::atomic<std::uint64_t> next_sample_ns[kDevices];

void sample_memory_info(const Caller& caller, std::uint64_t now) {
  if (caller.device < 0 || static_cast<std::size_t>(caller.device) >= kDevices || caller.capture.open) return;
  std::atomic<std::uint64_t>& next = next_sample_ns[caller.device];
  std::uint64_t due = next.load(std::memory_order_relaxed);
  if (now < due || !next.compare_exchange_strong(due, now + kSampleEveryNs, std::memory_order_relaxed)) return;
  std::size_t free = 0, total = 0;
  if (process::is_exiting() || driver().cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS) return;
  record_memory_info(caller, free, total);
}

/// The driver says this of everything once the process is on its way out: the memory is gone.
bool is_gone(CUresult result) { return result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED; }

}  // namespace

BlockTable& blocks() { return block_table; }
BlockTable& arrays() { return array_table; }

void count_live(Floor floor, int device, std::int64_t bytes) {
  live_bytes_of(floor, device).fetch_add(static_cast<std::uint64_t>(bytes), std::memory_order_relaxed);
}

Caller current_caller() {
  const CurrentContext now = current_context();
  return {now.device, now.context, now.generation, capture_view(), now.life};
}

void record_block(const HookScope&, EventKind kind, Floor floor, const Block& block, std::uint64_t stream, SiteId site,
                  std::uint8_t event_flags, std::uint64_t time_ns) {
  Event event;
  event.time_ns = time_ns;
  event.kind = kind;
  event.floor = floor;
  event.family = block.family;
  event.device = block.device;
  event.address = block.identity;
  event.size = kind == EventKind::Allocate ? block.size : 0;
  event.stream = stream;
  event.context = block.context;
  event.site = site;
  event.phase = current_phase();
  event.flags = event_flags;
  if (block.is_pooled) event.flags |= kEventPooled;
  recorder().record(event);
}

__attribute__((noinline)) PendingAllocation before_allocation(Family family, std::size_t bytes, CUstream stream) {
  PendingAllocation pending;
  pending.family = family;
  pending.stream = reinterpret_cast<std::uint64_t>(stream);
  pending.request.bytes = bytes;
  if (!is_armed()) return pending;
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) {
    recorder().count_loss(LossReason::Reentered);
    return pending;
  }
  pending.request.caller = current_caller();
  pending.counted = recorder().is_recording();
  if (!pending.counted) return pending;
  const CapturedSite site = recorder().capture_site(scope, kOwnFrames);
  pending.request.site = site.id;
  pending.request.site_bits = site.bits;
  return pending;
}

void after_allocation(const PendingAllocation& pending, CUresult result, std::uint64_t address, std::uint8_t event_flags) {
  const Caller& caller = pending.request.caller;
  if (result == CUDA_SUCCESS && ends_with_context(pending.family) && caller.life.is_over()) {
    const KeepErrno keep;
    context_has_answered(caller.context, caller.life);
    allocator().context_met(caller.context, caller.generation, caller.device, caller.life);
  }
  if (!pending.counted) return;
  const KeepErrno keep;
  // The allocator is asked outside every scope.
  const std::uint64_t idle = result == CUDA_ERROR_OUT_OF_MEMORY ? allocator().idle_bytes(device_of(pending)) : 0;
  const HookScope scope;
  if (!scope) return;
  if (result != CUDA_SUCCESS) return record_refusal(pending, result, idle);
  const Block block = block_of(pending, address, event_flags);
  BlockTable& table = pending.family == Family::Array ? array_table : block_table;
  if (!table.insert(address, block)) recorder().count_loss(LossReason::TableFull);
  count_live(Floor::Allocation, block.device, static_cast<std::int64_t>(block.size));
  if (pending.request.caller.capture.open) event_flags |= kEventCapturing;
  const std::uint64_t now = now_ns();  // one clock for both
  record_block(scope, EventKind::Allocate, floor_of(pending.family), block, pending.stream, pending.request.site, event_flags, now);
  if ((event_flags & kEventPooled) == 0) sample_memory_info(pending.request.caller, now);
}

bool relieve(int device, std::size_t bytes) {
  if (!is_armed()) return false;
  const KeepErrno keep;
  return allocator().relieve(device, bytes);
}

PendingFree before_free(BlockTable& table, std::uint64_t address, CUstream stream) {
  PendingFree pending;
  pending.key = address;
  pending.stream = reinterpret_cast<std::uint64_t>(stream);
  pending.block.identity = address;
  if (!is_armed() || address == 0) return pending;
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) {
    recorder().count_loss(LossReason::Reentered);
    return pending;
  }
  pending.caller = current_caller();
  pending.counted = recorder().is_recording();
  if (!pending.counted) return pending;
  pending.known = table.find(address, &pending.block);
  record_block(scope, EventKind::Free, Floor::Allocation, pending.block, pending.stream, 0, 0);
  return pending;
}

__attribute__((noinline)) void after_free(BlockTable& table, const PendingFree& pending, CUresult result) {
  if (!pending.counted) return;
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) return;
  if (is_gone(result)) {
    if (!pending.known) return;
    table.erase(pending.key, pending.block.serial);
    died(pending.block);
    return;
  }
  Event event;
  event.kind = EventKind::FreeFailed;
  event.floor = Floor::Allocation;
  event.family = pending.block.family;
  event.device = pending.block.device;
  event.address = pending.block.identity;
  event.context = pending.block.context;
  event.extra0 = static_cast<std::uint64_t>(result);
  event.site = recorder().capture_site(scope, kOwnFrames).id;
  event.phase = current_phase();
  recorder().record(event);
}

void note_memory_info(const Caller& caller, CUresult result, const std::size_t* free, const std::size_t* total) {
  if (result != CUDA_SUCCESS || free == nullptr || total == nullptr || !is_recording()) return;
  const KeepErrno keep;
  // The trace holds the driver's number; the host got that and what our pool could hand out.
  const std::uint64_t idle = allocator().idle_bytes(caller.device);
  const HookScope scope;
  if (!scope) return;
  record_memory_info(caller, *free > idle ? *free - idle : 0, *total);
}

void note(EventKind kind, Floor floor, std::uint64_t address, std::uint64_t size, std::uint64_t extra0, std::uint64_t extra1,
          CUstream stream, std::uint64_t time_ns) {
  if (!is_recording()) return;
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) return recorder().count_loss(LossReason::Reentered);
  Event event;
  event.kind = kind;
  event.floor = floor;
  event.time_ns = time_ns;
  event.device = static_cast<std::int16_t>(current_context().device);
  event.address = address;
  event.size = size;
  event.extra0 = extra0;
  event.extra1 = extra1;
  event.stream = reinterpret_cast<std::uint64_t>(stream);
  event.phase = current_phase();
  recorder().record(event);
}

CaptureTicket open_capture_of(CUstream stream) {
  if (!is_armed()) return {};
  const KeepErrno keep;
  const HookScope scope;
  return scope ? find_capture(scope, stream) : CaptureTicket{};
}

bool close_capture(CaptureTicket ticket, CUstream stream, CUgraph graph) {
  if (!ticket || !is_armed()) return false;
  const KeepErrno keep;
  {
    const HookScope scope;
    if (!scope || !note_capture_ended(scope, ticket)) return false;
  }
  allocator().capture_ended(stream, graph);
  return true;
}

EndingContext before_context_end(std::uint64_t context) {
  if (!is_armed() || context == 0) return {};
  const KeepErrno keep;
  return {context, context_is_ending(context), now_ns()};
}

namespace {

/// The driver ended the context's captures with it, and nobody will end them by name.
void end_captures_of(std::uint64_t context) {
  for (CUstream stream = nullptr;;) {
    {
      const HookScope scope;
      if (!scope || !note_context_capture_ended(scope, context, &stream)) return;
    }
    allocator().capture_ended(stream, nullptr);
    note(EventKind::CaptureEnd, Floor::Allocation, 0, 0, 0, 0, stream);
  }
}

/// Before all that follows from it: what is recorded later in a thread is never given an earlier time.
void record_context_end(const EndingContext& ending) {
  if (!recorder().is_recording()) return;
  const HookScope scope;
  if (!scope) return recorder().count_loss(LossReason::Reentered);
  Event event;
  event.kind = EventKind::ContextEnd;
  event.floor = Floor::Allocation;
  event.context = ending.context;
  event.time_ns = ending.time_ns;  // before the driver could hand its addresses out again
  event.phase = current_phase();
  recorder().record(event);
}

}  // namespace

void after_context_end(const EndingContext& ending, bool ended) {
  if (ending.context == 0) return;
  const KeepErrno keep;
  if (context_end_is_decided(ending.context, ending.generation, ended)) {
    context_has_ended(ending);
  } else {
    allocator().context_ended(ending.context, ending.generation, false);
  }
}

void context_has_ended(const EndingContext& ending) {
  record_context_end(ending);
  end_captures_of(ending.context);
  allocator().context_ended(ending.context, ending.generation, true);
  const HookScope scope;
  if (!scope) return;
  blocks().forget_context(ending.context, ending.generation, died);
  arrays().forget_context(ending.context, ending.generation, died);
}

}  // namespace cuheap
