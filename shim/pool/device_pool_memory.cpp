// The slow half of DevicePool: fences, giving memory back, contexts.
#include <initializer_list>

#include <sched.h>

#include "shim/pool/device_pool.h"

namespace cuheap {
namespace {

constexpr int kTransitYields = 2000;  // how long an allocation that found nothing waits for what others move about

}  // namespace

// ---- freed memory and its fences

/// Moves the open batch to `out` and names the contexts that its fence must cover. False: nothing was freed, or no place.
bool DevicePool::close_batch(Batch* out) {
  if (open_.first == nullptr || fenced_count_ == kMaxOpenFences) return false;
  *out = open_;
  open_.first = nullptr;
  open_.bytes = 0;
  ContextSet set;
  bool room = shared_->contexts.add_all(device_, &set);
  for (PoolBlock** at = &out->first; *at != nullptr;) {
    PoolBlock* block = *at;
    room = room && set.add(block->context) && set.add(block->free_context);
    if (room) {
      at = &block->next;
      continue;
    }
    delist(&out->first, block);  // more contexts than a fence holds: with the next one
    out->bytes -= block->held;
    enlist(&open_.first, block);
    open_.bytes += block->held;
  }
  out->contexts = set;
  return out->first != nullptr;
}

void DevicePool::undefer(Batch* batch) {
  while (batch->first != nullptr) {
    PoolBlock* block = batch->first;
    delist(&batch->first, block);
    enlist(&open_.first, block);
    open_.bytes += block->held;
  }
}

void DevicePool::finish_all(Batch* batch) {
  while (batch->first != nullptr) {
    PoolBlock* block = batch->first;
    delist(&batch->first, block);
    finish(block);
  }
}

bool DevicePool::settle(Waiting waiting) {
  {
    const PoolGuard guard(lock_);
    if (settling_ || (open_.first == nullptr && fenced_count_ == 0) || shared_->is_still()) return false;
    settling_ = true;
    // Before 12.5 there is no fence to ask, only contexts to wait for: that is better than to grow without end.
    if (!shared_->contexts.has_events() && figures_.waiting_bytes > kFenceBatchBytes) waiting = Waiting::All;
  }
  Contexts& contexts = shared_->contexts;
  const RelaxedCapture relaxed(*shared_->driver);
  bool any = false;
  for (unsigned round = 0; round < 2 * kMaxOpenFences; ++round) {
    Batch batch;
    bool closed = false;
    {
      const PoolGuard guard(lock_);
      closed = close_batch(&batch);
    }
    if (closed) {
      const CUresult recorded = contexts.record(shared_->captures, batch.contexts, &batch.fence);
      const PoolGuard guard(lock_);
      if (recorded == CUDA_SUCCESS) {
        fenced_[(oldest_ + fenced_count_++) % kMaxOpenFences] = batch;
      } else {
        undefer(&batch);
      }
      if (recorded != CUDA_SUCCESS && fenced_count_ == 0) break;
    }
    if (fenced_count_ == 0) break;  // only the settling thread changes it
    Batch& front = fenced_[oldest_];
    if (shared_->is_still()) break;
    const CUresult passed = waiting == Waiting::No ? contexts.query(front.fence)
                                                   : contexts.wait(shared_->captures, front.fence, waiting);
    if (passed != CUDA_SUCCESS) break;
    contexts.recycle(&front.fence);
    const PoolGuard guard(lock_);
    finish_all(&front);
    front = Batch{};
    oldest_ = (oldest_ + 1) % kMaxOpenFences;
    --fenced_count_;
    any = true;
  }
  {
    const PoolGuard guard(lock_);
    settling_ = false;
  }
  if (any) give_back_exposed();
  return any;
}

bool DevicePool::release_kept(bool is_needed) {
  const PoolGuard guard(lock_);
  if (kept_ == nullptr || shared_->captures.open()) return false;
  const Periods known = shared_->graphs.known();
  bool any = false;
  for (PoolBlock *block = kept_, *next = nullptr; block != nullptr; block = next) {
    next = block->next;
    if (!is_needed && known.has(block->capture_period)) continue;
    any = true;
    delist(&kept_, block);
    block->state = PoolBlock::State::Deferred;  // the graph's last launch may still run
    shared_->contexts.learn(block->context, block->generation, device_, block->life);
    enlist(&open_.first, block);
    open_.bytes += block->held;
  }
  return any;
}

// ---- memory that goes back

void DevicePool::claim_exposed(Granule* granule) {
  Space& own = space(granule->segment->size_class);
  const FreeRange range{granule->address, granule->size};
  take_range(own.ready, range);
  take_range(own.quarantine, range);
  granule->in_transit = true;
  granule->next = leaving_;
  leaving_ = granule;
}

void DevicePool::give_back_exposed() {
  while (!shared_->is_still()) {
    Granule* leaving[kMaxVictims];
    unsigned count = 0;
    {
      const PoolGuard guard(lock_);
      while (leaving_ != nullptr && count < kMaxVictims) {
        leaving[count++] = leaving_;
        leaving_ = leaving_->next;
      }
    }
    if (count == 0) return;
    for (unsigned i = 0; i < count; ++i) leaving[i]->next = nullptr;
    const RelaxedCapture relaxed(*shared_->driver);
    const std::uint64_t bytes = give_back(leaving, count);
    if (bytes == 0) return;
  }
}

bool DevicePool::claim_victim(std::uint64_t bytes, Granule** out) {
  if (Granule* stray = granules_.take_any(); stray != nullptr) {
    *out = stray;
    return true;
  }
  // One huge handle that suffices, else the largest; then granules of the other classes.
  FreeIndex& huge = space(SizeClass::Huge).ready;
  FreeRange range = huge.next_by_size(bytes, {});
  if (!range) range = huge.largest();
  FreeIndex* from = &huge;
  if (!range) {
    from = &space(SizeClass::Large).ready;
    range = whole_granule(*from, granule_);
  }
  if (!range) {
    from = &space(SizeClass::Small).ready;
    range = whole_granule(*from, granule_);
  }
  if (!range || !from->remove(range)) return false;
  Granule* granule = shared_->segments.find(range.address)->slot_at(range.address);
  granule->in_transit = true;
  *out = granule;
  return true;
}

std::uint64_t DevicePool::give_back(Granule** granules, unsigned count) {
  const DriverTable& driver = *shared_->driver;
  bool gone[kMaxVictims] = {};
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < count; ++i) {
    const Granule& granule = *granules[i];
    record(EventKind::Free, Family::PoolGranule, granule.handle, granule.size, 0, 0);
    gone[i] = granule.address == 0 || driver.cuMemUnmap(granule.address, granule.size) == CUDA_SUCCESS;
    if (gone[i]) {
      if (granule.address != 0) record(EventKind::Unmap, Family::PoolGranule, granule.address, granule.size, 0, 0);
      driver.cuMemRelease(granule.handle);
      bytes += granule.size;
    } else {
      record(EventKind::FreeFailed, Family::PoolGranule, granule.handle, granule.size, 0, 0);
    }
  }
  if (bytes != 0) record(EventKind::PoolActivity, Family::PoolGranule, 0, bytes, static_cast<std::uint64_t>(PoolActivity::Shrink), 0);
  bool all_gone = true;
  for (unsigned i = 0; i < count; ++i) all_gone = all_gone && gone[i];
  CUmemAccessDesc access[kMaxAccess];
  Ground here;
  for (unsigned version = 0;;) {
    {
      const PoolGuard guard(lock_);
      if (all_gone || (here.driver != nullptr && version == access_version_)) {
        commit_given_back(granules, gone, count);
        return bytes;
      }
      here = ground(access);
      version = access_version_;
    }
    reopen(here, granules, gone, count);  // a device that was met meanwhile passed over what is in transit
  }
}

void DevicePool::commit_given_back(Granule** granules, const bool* gone, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    Granule* granule = granules[i];
    Segment* segment = granule->segment;
    const FreeRange range{granule->address, granule->size};
    if (!gone[i] && granule->exposed != 0) {  // to be tried again
      granule->next = leaving_;
      leaving_ = granule;
      continue;
    }
    granule->in_transit = false;
    if (!gone[i]) {
      give_ready(space(segment->size_class), range);
      continue;
    }
    if (range.address != 0) {
      for (std::uint64_t at = range.address; at < range.end(); at += granule_) segment->slot_at(at) = nullptr;
      if (!space(segment->size_class).unmapped.insert(range)) figures_.lost_bytes += range.size;
    }
    granules_.forget(granule);
  }
  epoch_.fetch_add(1, std::memory_order_acq_rel);
}

std::uint64_t DevicePool::reclaim(std::uint64_t bytes) {
  if (shared_->is_still()) return 0;
  give_back_exposed();
  const RelaxedCapture relaxed(*shared_->driver);
  const Transit transit(in_transit_);
  std::uint64_t done = 0;
  while (done < bytes) {
    Granule* victims[kMaxVictims];
    unsigned count = 0;
    {
      const PoolGuard guard(lock_);
      std::uint64_t claimed = done;
      while (count < kMaxVictims && claimed < bytes && claim_victim(bytes - claimed, &victims[count])) {
        claimed += victims[count++]->size;
      }
    }
    const std::uint64_t freed = count != 0 ? give_back(victims, count) : 0;
    if (freed == 0) break;
    done += freed;
  }
  return done;
}

bool DevicePool::relieve(std::uint64_t bytes) {
  const unsigned epoch = epoch_.load(std::memory_order_acquire);
  const bool settled = settle(Waiting::All);
  if (reclaim(bytes) != 0 || settled) return true;
  // Another thread may hold in transit what it will not be able to use; wait a moment, without any lock.
  for (int i = 0; i < kTransitYields && in_transit_.load(std::memory_order_acquire) != 0; ++i) sched_yield();
  if (epoch_.load(std::memory_order_acquire) != epoch) return true;
  // Last: memory that the host has freed, and that only a graph may still name. Natively it would be gone long since.
  return release_kept(true) && settle(Waiting::All);
}

void DevicePool::note_tightness() {
  std::size_t free = 0, total = 0;
  if (shared_->driver->cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS) return;
  const std::uint64_t least = total / kTightShare < kTightBytes ? total / kTightShare : kTightBytes;
  tight_.store(free < least, std::memory_order_relaxed);
}

// ---- contexts

void DevicePool::context_ended(std::uint64_t context, std::uint32_t generation) {
  {
    const PoolGuard guard(lock_);
    for (PoolBlock** list : {&live_, &kept_}) {
      for (PoolBlock* block = *list; block != nullptr;) {
        PoolBlock* next = block->next;
        const bool is_dead = block->context == context && block->generation == generation;
        if (is_dead && block->state != PoolBlock::State::Freeing) {
          if (block->state == PoolBlock::State::Live) figures_.live_bytes -= block->bytes;
          delist(list, block);
          finish(block);
        }
        block = next;
      }
    }
  }
  settle(Waiting::No);
  give_back_exposed();
  reclaim(~std::uint64_t{0});
}

// ---- events

void DevicePool::record(EventKind kind, Family family, std::uint64_t address, std::uint64_t size, std::uint64_t extra0,
                        std::uint32_t site) {
  Event event;
  event.kind = kind;
  event.floor = Floor::Physical;
  event.family = family;
  event.address = address;
  event.size = size;
  event.extra0 = extra0;
  event.site = site;
  event.device = static_cast<std::int16_t>(device_);
  shared_->sink->record(event);
}

/// Where a move left its granule; one that is where it was has nothing to tell.
void DevicePool::record_mapping(const Move& move) {
  const bool arrived = move.outcome == Move::Outcome::Placed || move.outcome == Move::Outcome::Stuck;
  const bool left = move.from != 0 && (arrived || move.outcome == Move::Outcome::Stray);
  if (left) record(EventKind::Unmap, Family::PoolGranule, move.from, move.size, 0, 0);
  if (arrived) record(EventKind::Map, Family::PoolGranule, move.to, move.size, move.handle, 0);
}

void DevicePool::record_growth(const Plan& plan, std::uint32_t site) {
  std::uint64_t grown = 0, stolen = 0;
  for (unsigned i = 0; i < plan.count; ++i) {
    const Move& move = plan.moves[i];
    const bool is_new = move.is_new && move.outcome != Move::Outcome::Absent;
    if (is_new) record(EventKind::Allocate, Family::PoolGranule, move.handle, move.size, 0, site);
    if (is_new) grown += move.size;
    if (move.from != 0 && move.outcome == Move::Outcome::Placed) stolen += move.size;
    record_mapping(move);
  }
  const auto note = [&](PoolActivity activity, std::uint64_t bytes) {
    if (bytes != 0) record(EventKind::PoolActivity, Family::PoolGranule, 0, bytes, static_cast<std::uint64_t>(activity), site);
  };
  note(PoolActivity::Grow, grown);
  note(PoolActivity::Steal, stolen);
}

}  // namespace cuheap
