#include "shim/pool/device_pool.h"

namespace cuheap {
namespace {

constexpr unsigned kMaxRounds = 4;  // of growing and relieving, before an allocation is given up

}  // namespace

DevicePool::Need DevicePool::need_of(std::uint64_t bytes) const {
  return {bytes, cuheap::held_bytes(bytes, granule_), alignment_of(bytes, granule_), class_of(bytes)};
}

// ---- allocation

CUresult DevicePool::allocate(const AllocationRequest& request, CUdeviceptr* out) {
  if (request.bytes > total_) return CUDA_ERROR_OUT_OF_MEMORY;
  const Need need = need_of(request.bytes);
  {
    const PoolGuard guard(lock_);
    const FreeRange hole = find_hole(need);
    if (hole) {
      const CUresult placed = place(hole, request, out);
      if (placed != CUDA_ERROR_OUT_OF_MEMORY) return placed;
    }
  }
  return allocate_slowly(request, need, out);
}

FreeRange DevicePool::find_hole(const Need& need) {
  Space& own = space(need.size_class);
  if (need.size_class != SizeClass::Huge) return own.ready.best_fit(need.held, need.alignment);
  // One idle handle as a whole: its tail would be of no use to anybody else.
  const FreeRange idle = own.ready.next_by_size(need.held, {});
  return idle && idle.size - need.held <= need.held / kHugeSlackShare ? idle : FreeRange{};
}

CUresult DevicePool::place(FreeRange range, const AllocationRequest& request, CUdeviceptr* out) {
  // Whoever ends a context ends its life before it looks for its blocks under this lock: it finds this one, or we see that.
  if (request.caller.life.is_over()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  PoolBlock* block = blocks_.make();
  if (block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!space(class_of(request.bytes)).ready.remove(range)) {
    blocks_.drop(block);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  block->address = range.address;
  block->bytes = request.bytes;
  block->held = range.size;
  block->buffer_id = shared_->next_buffer_id.fetch_add(1, std::memory_order_relaxed);
  block->context = request.caller.context;
  block->generation = request.caller.generation;
  block->life = request.caller.life;
  if (request.caller.capture.open || shared_->captures.open()) block->capture_period = shared_->captures.period();
  block->segment = shared_->segments.find(range.address);
  block->segment->start_at(range.address) = block;
  each_granule(block->segment, range, [&](Granule* granule, std::uint64_t bytes) { granules_.use(granule, bytes); });
  enlist(&live_, block);
  ++figures_.blocks;
  figures_.live_bytes += block->bytes;
  figures_.used_bytes += block->held;
  *out = range.address;
  return CUDA_SUCCESS;
}

void DevicePool::enlist(PoolBlock** list, PoolBlock* block) {
  block->previous = nullptr;
  block->next = *list;
  if (*list != nullptr) (*list)->previous = block;
  *list = block;
}

void DevicePool::delist(PoolBlock** list, PoolBlock* block) {
  if (block->previous != nullptr) block->previous->next = block->next;
  if (block->next != nullptr) block->next->previous = block->previous;
  if (*list == block) *list = block->next;
  block->previous = block->next = nullptr;
}

CUresult DevicePool::allocate_slowly(const AllocationRequest& request, const Need& need, CUdeviceptr* out) {
  const RelaxedCapture relaxed(*shared_->driver);
  for (unsigned round = 0; round < kMaxRounds; ++round) {
    const bool settled = settle(Waiting::No);
    if (round != 0 || settled) {
      const PoolGuard guard(lock_);
      const FreeRange hole = find_hole(need);
      const CUresult placed = hole ? place(hole, request, out) : CUDA_ERROR_OUT_OF_MEMORY;
      if (placed != CUDA_ERROR_OUT_OF_MEMORY) return placed;
    }
    const CUresult result = grow(request, need, out);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
    if (!relieve(need.held)) break;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult DevicePool::grow(const AllocationRequest& request, const Need& need, CUdeviceptr* out) {
  // A huge block that finds no idle handle of its size must not let the idle ones of other sizes pile up.
  if (need.size_class == SizeClass::Huge && !shared_->is_still()) {
    std::uint64_t idle = 0;
    {
      const PoolGuard guard(lock_);
      idle = space(SizeClass::Huge).ready.bytes();
    }
    if (idle + need.held > total_ / kHugeIdleShare && idle != 0) reclaim(need.held);
  }
  const Transit transit(in_transit_);
  Plan plan;
  CUmemAccessDesc access[kMaxAccess];
  Ground here;
  unsigned version = 0;
  for (bool planned = false; !planned;) {
    {
      const PoolGuard guard(lock_);
      if (this->plan(need, &plan)) {
        if (plan.count == 0) return place(plan.block, request, out);
        if (!claim(need, &plan)) return CUDA_ERROR_OUT_OF_MEMORY;
        here = ground(access);
        version = access_version_;
        planned = true;
      }
    }
    if (planned) break;
    const CUresult result = add_segment(need);
    if (result != CUDA_SUCCESS) return result;
  }
  CUresult result = execute(here, &plan);
  const bool executed = result == CUDA_SUCCESS;
  // Before anybody else can have the new granules: their end must not be recorded before their beginning.
  record_growth(plan, request.site);
  for (bool committed = false; !committed;) {
    {
      const PoolGuard guard(lock_);
      committed = version == access_version_;
      if (committed) {
        commit(need, &plan, executed);
        if (result == CUDA_SUCCESS) result = place(plan.block, request, out);
      } else {
        here = ground(access);
        version = access_version_;
      }
    }
    if (!committed) reopen(here, plan);  // a device was met meanwhile, and what is in transit was passed over
  }
  if (result == CUDA_SUCCESS) note_tightness();
  return result;
}

bool DevicePool::plan(const Need& need, Plan* plan) {
  Space& own = space(need.size_class);
  if (need.size_class != SizeClass::Huge) {
    return plan_window(own.ready, own.unmapped, need.held, need.alignment, granule_, plan);
  }
  plan->block = own.unmapped.best_fit(need.held, granule_);
  if (!plan->block) return false;
  plan->count = 1;
  plan->moves[0] = {.to = plan->block.address, .size = need.held};
  return true;
}

CUresult DevicePool::add_segment(const Need& need) {
  std::uint64_t bytes = 0;
  {
    const PoolGuard guard(lock_);
    Space& own = space(need.size_class);
    if (own.next_segment == 0) own.next_segment = need.size_class == SizeClass::Small ? kFirstSmallSegment : kFirstLargeSegment;
    bytes = own.next_segment;
    if (own.next_segment < kMaxSegmentGrowth) own.next_segment *= 2;
  }
  const std::uint64_t least = round_up(need.held, granule_) + granule_;
  if (bytes < least) bytes = least;
  Segment segment;
  CUresult result = SegmentTable::reserve(*shared_->driver, device_, need.size_class, granule_, bytes, &segment);
  if (result != CUDA_SUCCESS && bytes > least) {  // address space may be rationed (WSL2, Jetson): only what is needed
    result = SegmentTable::reserve(*shared_->driver, device_, need.size_class, granule_, least, &segment);
  }
  if (result != CUDA_SUCCESS) return result;
  const PoolGuard guard(lock_);
  if (!space(need.size_class).unmapped.prepare(1) || shared_->segments.publish(segment) == nullptr) {
    return CUDA_ERROR_NOT_SUPPORTED;  // the address range is lost; the request goes to the driver
  }
  const bool known = space(need.size_class).unmapped.insert({segment.base, segment.size});
  return known ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

// ---- release

CUresult DevicePool::release(const Caller& caller, Segment* segment, std::uint64_t address, bool ordered) {
  const bool waits = !ordered && !shared_->ordered_free;
  PoolBlock* block = nullptr;
  bool full = false;
  {
    const PoolGuard guard(lock_);
    block = segment->start_at(address);
    if (block == nullptr || block->address != address || block->state != PoolBlock::State::Live) return CUDA_ERROR_NOT_FOUND;
    const std::uint32_t period = block->capture_period;
    const bool is_kept = period != 0 && (shared_->captures.open() || shared_->graphs.knows(period));
    if (!is_kept && waits && !shared_->is_still()) {
      block->state = PoolBlock::State::Freeing;
    } else {
      delist(&live_, block);
      figures_.live_bytes -= block->bytes;
      figures_.waiting_bytes += block->held;
      if (is_kept) {
        block->state = PoolBlock::State::Kept;
        block->free_context = caller.context;
        enlist(&kept_, block);
      } else {
        defer(block, caller);
      }
      full = open_.bytes > kFenceBatchBytes;
      block = nullptr;
    }
  }
  if (block == nullptr) {
    if (full && !shared_->is_still()) settle(Waiting::No);
    return CUDA_SUCCESS;
  }
  const CUresult result = wait_for(caller, *block);
  {
    const PoolGuard guard(lock_);
    if (is_sticky(result)) {  // as a native free: it answers the error, and nothing is freed
      block->state = PoolBlock::State::Live;
      return result;
    }
    delist(&live_, block);
    figures_.live_bytes -= block->bytes;
    if (result == CUDA_SUCCESS) {
      finish(block);
    } else {  // a capture began meanwhile, or another device is not through
      figures_.waiting_bytes += block->held;
      defer(block, caller);
    }
  }
  settle(Waiting::Native);  // what was freed during a capture
  give_back_exposed();
  if (tight_.load(std::memory_order_relaxed) && idle_bytes() != 0) reclaim(~std::uint64_t{0});
  return CUDA_SUCCESS;
}

CUresult DevicePool::wait_for(const Caller& caller, const PoolBlock& block) {
  const RelaxedCapture relaxed(*shared_->driver);
  Contexts& contexts = shared_->contexts;
  contexts.learn(block.context, block.generation, device_, block.life);
  contexts.learn(caller.context, caller.generation, caller.device, caller.life);
  ContextSet set;
  const bool room = set.add(block.context) && set.add(caller.context) && contexts.add_all(device_, &set);
  if (!room) return CUDA_ERROR_NOT_READY;  // deferred: the batch is synchronised in pieces
  Fence fence;
  CUresult result = contexts.record(shared_->captures, set, &fence);
  if (result != CUDA_SUCCESS) return result;
  result = contexts.wait(shared_->captures, fence, Waiting::Native);
  contexts.recycle(&fence);
  return result;
}

void DevicePool::defer(PoolBlock* block, const Caller& caller) {
  shared_->contexts.learn(block->context, block->generation, device_, block->life);
  shared_->contexts.learn(caller.context, caller.generation, caller.device, caller.life);
  block->state = PoolBlock::State::Deferred;
  block->free_context = caller.context;
  enlist(&open_.first, block);
  open_.bytes += block->held;
}

/// A freed block whose fence has passed: its memory is anybody's, or nobody's if the outside may still know it.
void DevicePool::finish(PoolBlock* block) {
  const FreeRange range{block->address, block->held};
  Segment* segment = block->segment;
  Space& own = space(segment->size_class);
  segment->start_at(block->address) = nullptr;
  if (block->state == PoolBlock::State::Deferred || block->state == PoolBlock::State::Kept) figures_.waiting_bytes -= block->held;
  figures_.used_bytes -= block->held;
  --figures_.blocks;
  each_granule(segment, range, [&](Granule* granule, std::uint64_t bytes) {
    if (block->exposed) {
      granules_.expose(granule, bytes);
    } else {
      granules_.unuse(granule, bytes);
    }
  });
  if (block->exposed) {
    if (!own.quarantine.insert(range)) figures_.lost_bytes += range.size;
  } else {
    give_ready(own, range);
  }
  blocks_.drop(block);
  each_granule(segment, range, [&](Granule* granule, std::uint64_t) {
    if (granule->used == 0 && granule->exposed != 0 && !granule->in_transit) claim_exposed(granule);
  });
  epoch_.fetch_add(1, std::memory_order_acq_rel);
}

// ---- what lies at an address

bool DevicePool::find(Segment* segment, std::uint64_t address, PoolBlock* out) {
  const PoolGuard guard(lock_);
  const PoolBlock* block = segment->block_at(address);
  if (block == nullptr || block->state != PoolBlock::State::Live || address - block->address >= block->bytes) return false;
  *out = *block;
  return true;
}

}  // namespace cuheap
