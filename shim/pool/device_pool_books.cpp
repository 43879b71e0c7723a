// The books of DevicePool: what a plan takes out of them, what its outcome writes down, and whether they are right.
#include "shim/pool/device_pool.h"

namespace cuheap {

// ---- taking a plan's ranges out of the books, and writing down what came of them

bool DevicePool::claim(const Need& need, Plan* plan) {
  Space& own = space(need.size_class);
  const std::size_t nodes = 2 * plan->count + 4;
  for (Space& each : spaces_) {
    if (!each.ready.prepare(nodes) || !each.unmapped.prepare(nodes) || !each.quarantine.prepare(nodes)) return false;
  }
  if (!granules_.prepare(plan->count)) return false;
  for (unsigned i = 0; i < plan->count; ++i) {
    take_range(own.unmapped, {plan->moves[i].to, plan->moves[i].size});
    plan->moves[i].granule = granules_.take(plan->moves[i].size);
  }
  take_range(own.ready, plan->block);
  // Ready memory of other places first. While a capture is open nothing is unmapped.
  if (need.size_class != SizeClass::Huge && !shared_->is_still()) {
    if (plan_steals(own.ready, granule_, plan) < plan->count) {
      plan_steals(space(need.size_class == SizeClass::Small ? SizeClass::Large : SizeClass::Small).ready, granule_, plan);
    }
    for (unsigned i = 0; i < plan->count; ++i) {
      if (plan->moves[i].from != 0) claim_source(&plan->moves[i]);
    }
  }
  return true;
}

void DevicePool::claim_source(Move* move) {
  Segment* segment = shared_->segments.find(move->from);
  move->granule = segment->slot_at(move->from);
  move->granule->in_transit = true;
  take_range(space(segment->size_class).ready, {move->from, move->size});
}

/// Removes whatever of the range is in the index.
void DevicePool::take_range(FreeIndex& index, FreeRange range) {
  FreeRange at = index.find(range.address);
  if (!at) at = index.next_at(range.address);
  while (at && at.address < range.end()) {
    const std::uint64_t begin = at.address > range.address ? at.address : range.address;
    const std::uint64_t end = at.end() < range.end() ? at.end() : range.end();
    if (!index.remove({begin, end - begin})) figures_.lost_bytes += end - begin;
    at = index.next_at(end);
  }
}

void DevicePool::give_ready(Space& own, FreeRange range) {
  if (range && !own.ready.insert(range)) figures_.lost_bytes += range.size;
}

void DevicePool::commit(const Need& need, Plan* plan, bool good) {
  Space& own = space(need.size_class);
  std::uint64_t rest = plan->block.address;  // of the block: mapped already, up to the next gap
  for (unsigned i = 0; i < plan->count; ++i) {
    Move& move = plan->moves[i];
    if (move.to > rest) give_ready(own, {rest, move.to - rest});
    rest = move.to + move.size;
    commit_move(own, &move);
  }
  if (rest < plan->block.end()) give_ready(own, {rest, plan->block.end() - rest});
  if (!good) epoch_.fetch_add(1, std::memory_order_acq_rel);
}

void DevicePool::commit_move(Space& own, Move* move) {
  using Outcome = Move::Outcome;
  const bool is_new = move->granule == nullptr && move->outcome != Outcome::Absent;
  if (is_new) {
    ++figures_.creates;
    move->granule = granules_.adopt(move->handle, move->size);
    if (move->granule == nullptr) {  // claim() prepared for it; only another thread's hunger can lead here
      figures_.lost_bytes += move->size;
      return;
    }
  }
  Granule* granule = move->granule;
  if (granule != nullptr) granule->in_transit = false;
  Segment* home = move->from != 0 ? shared_->segments.find(move->from) : nullptr;
  const bool stays_home = move->outcome == Outcome::Home || move->outcome == Outcome::StuckHome;
  if (home != nullptr && !stays_home) {
    home->slot_at(move->from) = nullptr;
    if (!space(home->size_class).unmapped.insert({move->from, move->size})) figures_.lost_bytes += move->size;
  }
  const bool arrives = move->outcome == Outcome::Placed || move->outcome == Outcome::Stuck;
  if (!arrives && !own.unmapped.insert({move->to, move->size})) figures_.lost_bytes += move->size;
  switch (move->outcome) {
    case Outcome::Placed:
      write_slots(granule, move->to, move->size, shared_->segments.find(move->to));
      give_ready(own, {move->to, move->size});
      figures_.steals += home != nullptr;
      break;
    case Outcome::Home:
      give_ready(space(home->size_class), {move->from, move->size});
      break;
    case Outcome::Stray:
      granules_.stock(granule);
      break;
    case Outcome::Stuck:
    case Outcome::StuckHome: {
      const std::uint64_t at = move->outcome == Outcome::Stuck ? move->to : move->from;
      Segment* segment = shared_->segments.find(at);
      write_slots(granule, at, move->size, segment);
      granules_.use(granule, move->size);
      granules_.expose(granule, move->size);
      claim_exposed(granule);  // to be tried again
      break;
    }
    case Outcome::Planned:
    case Outcome::Absent:
      break;
  }
}

void DevicePool::write_slots(Granule* granule, std::uint64_t address, std::uint64_t size, Segment* segment) {
  granule->address = address;
  granule->segment = segment;
  for (std::uint64_t at = address; at < address + size; at += granule_) segment->slot_at(at) = granule;
}

// ---- figures and invariants

PoolFigures DevicePool::figures() {
  const PoolGuard guard(lock_);
  PoolFigures figures = figures_;
  figures.held_bytes = granules_.held_bytes();
  figures.idle_bytes = granules_.idle_bytes();
  return figures;
}

std::uint64_t DevicePool::idle_bytes() {
  const PoolGuard guard(lock_);
  return granules_.idle_bytes();
}

bool DevicePool::is_valid() {
  const PoolGuard guard(lock_);
  if (in_transit_.load(std::memory_order_acquire) != 0) return true;
  Tally tally;
  for (unsigned i = 0; i < shared_->segments.count(); ++i) {
    Segment& segment = shared_->segments.at(i);
    if (segment.device == device_ && !(is_tiled(segment, &tally) && are_slots_valid(segment, &tally))) return false;
  }
  for (Space& each : spaces_) {
    if (!each.ready.is_valid() || !each.unmapped.is_valid() || !each.quarantine.is_valid()) return false;
    tally.free -= each.ready.bytes() + each.quarantine.bytes() + each.unmapped.bytes();
  }
  return tally.free == 0 && tally.blocks == figures_.blocks && tally.used == figures_.used_bytes &&
         tally.granules_used == figures_.used_bytes && tally.mapped + granules_.stock_bytes() == granules_.held_bytes();
}

/// Blocks, free ranges and granules in transit follow each other without gap or overlap, and each granule knows how many
/// of its bytes are in blocks.
bool DevicePool::is_tiled(Segment& segment, Tally* tally) {
  Space& own = space(segment.size_class);
  const Granule* current = nullptr;
  std::uint64_t in_use = 0;
  bool counts_agree = true;
  const auto leave = [&] { counts_agree = counts_agree && (current == nullptr || current->used == in_use); };
  for (std::uint64_t at = segment.base; at < segment.end();) {
    const PoolBlock* block = segment.start_at(at);
    if (block != nullptr && block->address == at) {
      each_granule(&segment, {at, block->held}, [&](Granule* granule, std::uint64_t bytes) {
        if (granule != current) {
          leave();
          current = granule;
          in_use = 0;
        }
        in_use += bytes;
      });
      tally->used += block->held;
      ++tally->blocks;
      at += block->held;
      continue;
    }
    FreeRange range = own.ready.find(at);
    if (!range) range = own.quarantine.find(at);
    if (!range) range = own.unmapped.find(at);
    const Granule* granule = segment.slot_at(at);
    if (!range && (granule == nullptr || !granule->in_transit || granule->address != at)) return false;
    if (range && range.address != at) return false;
    tally->free += range.size;
    at = range ? range.end() : at + granule->size;
  }
  leave();
  return counts_agree;
}

/// Every slot is either unmapped in both books or holds a granule that agrees where it is.
bool DevicePool::are_slots_valid(Segment& segment, Tally* tally) {
  Space& own = space(segment.size_class);
  for (std::uint64_t at = segment.base; at < segment.end();) {
    const Granule* granule = segment.slot_at(at);
    if (granule == nullptr) {
      if (!own.unmapped.find(at)) return false;
      at += granule_;
      continue;
    }
    if (granule->address != at || granule->segment != &segment) return false;
    tally->mapped += granule->size;
    tally->granules_used += granule->used;
    for (std::uint64_t end = at + granule->size; at < end; at += granule_) {
      if (segment.slot_at(at) != granule || own.unmapped.find(at)) return false;
    }
  }
  return true;
}

}  // namespace cuheap
