#include "tools/analysis/live_set.h"

#include <algorithm>
#include <span>

namespace cuheap {
namespace {

// Address spaces of a floor: addresses of two spaces may be equal and mean different blocks.
enum class Space : std::uint8_t { Device, Host, Array, Handle, HostHandle, PoolGranule, Imported, Segment };

Space space_of(Family family) {
  switch (family) {
    case Family::Pinned:
    case Family::Registered: return Space::Host;
    case Family::Array: return Space::Array;
    case Family::Handle: return Space::Handle;
    case Family::HostHandle: return Space::HostHandle;
    case Family::PoolGranule: return Space::PoolGranule;
    case Family::Imported: return Space::Imported;
    case Family::Segment: return Space::Segment;
    default: return Space::Device;
  }
}

// A free may not know what it frees: one driver call releases handles of all kinds, and an unknown family reads as device
// memory. Within such a group addresses are unique, so looking further is safe.
constexpr Family kHandleFamilies[] = {Family::Handle, Family::PoolGranule, Family::HostHandle, Family::Imported};
constexpr Family kAddressFamilies[] = {Family::Device, Family::Pinned, Family::Imported};

bool dies_with_context(Family family) {
  return family == Family::Device || family == Family::Pitch || family == Family::Managed || family == Family::Pinned ||
         family == Family::Array;
}

std::int16_t device_of(const Event& event) { return is_host_family(event.family) ? kHostDevice : event.device; }

constexpr std::size_t kFirstSlots = 1024;

}  // namespace

std::uint8_t floors_of(const Block& block) {
  const std::uint8_t physical = floor_bit(Floor::Physical);
  const std::uint8_t allocation = floor_bit(Floor::Allocation);
  switch (block.family) {
    case Family::Imported: return 0;
    case Family::Handle:
    case Family::HostHandle: return physical | allocation;
    case Family::PoolGranule: return physical;
    case Family::Segment: return physical | (block.floor == Floor::Allocation ? allocation : std::uint8_t{0});
    case Family::Registered: return floor_bit(block.floor);
    default: break;
  }
  if (block.floor != Floor::Allocation) return floor_bit(block.floor);
  return (block.flags & kEventPooled) != 0 ? allocation : physical | allocation;
}

double fragmentation_of(std::uint64_t live, std::uint64_t held) {
  if (held == 0 || live >= held) return 0;
  return 1.0 - static_cast<double>(live) / static_cast<double>(held);
}

LiveSet::LiveSet() : slots_(kFirstSlots) { row(kHostDevice); }

LiveSet::Key LiveSet::key_of(std::uint16_t process, Floor floor, Family family, std::uint64_t address) {
  return {address, static_cast<std::uint32_t>(process) << 16 | static_cast<std::uint32_t>(floor) << 8 |
                       static_cast<std::uint32_t>(space_of(family))};
}

std::uint64_t LiveSet::hash(const Key& key) {
  std::uint64_t h = (key.address ^ (static_cast<std::uint64_t>(key.space) << 40)) * 0x9e3779b97f4a7c15u;
  h ^= h >> 32;
  return h * 0xd6e8feb86659fd93u;
}

std::size_t LiveSet::find_slot(const Key& key) const {
  const std::uint64_t h = hash(key);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = (h >> 8) & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.block == 0) return slots_.size();
    if (slot.check == static_cast<std::uint32_t>(h >> 32) && key_of(blocks_[slot.block - 1]) == key) return i;
  }
}

void LiveSet::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.block == 0) continue;
    std::size_t i = (hash(key_of(blocks_[slot.block - 1])) >> 8) & mask;
    while (slots_[i].block != 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

Block& LiveSet::insert(const Block& block) {
  if ((live_ + 1) * 2 > slots_.size()) grow();
  std::uint32_t index = 0;
  if (unused_.empty()) {
    index = static_cast<std::uint32_t>(blocks_.size());
    blocks_.push_back(block);
  } else {
    index = unused_.back();
    unused_.pop_back();
    blocks_[index] = block;
  }
  const std::uint64_t h = hash(key_of(block));
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = (h >> 8) & mask;
  while (slots_[i].block != 0) i = (i + 1) & mask;
  slots_[i] = {static_cast<std::uint32_t>(h >> 32), index + 1};
  ++live_;
  return blocks_[index];
}

Block LiveSet::take(std::size_t slot) {
  const std::uint32_t index = slots_[slot].block - 1;
  const Block block = blocks_[index];
  blocks_[index].floor = Floor::None;
  unused_.push_back(index);
  --live_;
  // Close the gap, so that no tombstones pile up: move back what may stand nearer to its own place.
  const std::size_t mask = slots_.size() - 1;
  std::size_t gap = slot;
  for (std::size_t i = (gap + 1) & mask; slots_[i].block != 0; i = (i + 1) & mask) {
    const std::size_t home = (hash(key_of(blocks_[slots_[i].block - 1])) >> 8) & mask;
    if (((i - home) & mask) < ((i - gap) & mask)) continue;
    slots_[gap] = slots_[i];
    gap = i;
  }
  slots_[gap] = {};
  return block;
}

DeviceState& LiveSet::row(std::int16_t device) {
  const std::size_t index = device < 0 ? 0 : static_cast<std::size_t>(device) + 1;
  while (devices_.size() <= index) {
    devices_.emplace_back();
    devices_.back().device = static_cast<std::int16_t>(static_cast<int>(devices_.size()) - 2);
  }
  return devices_[index];
}

const DeviceState* LiveSet::device(std::int16_t device) const {
  const std::size_t index = device < 0 ? 0 : static_cast<std::size_t>(device) + 1;
  return index < devices_.size() ? &devices_[index] : nullptr;
}

Floor LiveSet::top_floor() const {
  for (const Floor floor : {Floor::Framework, Floor::Allocation, Floor::Physical}) if (saw(floor)) return floor;
  return Floor::None;
}

const Block* LiveSet::find(std::uint16_t process, Floor floor, Family family, std::uint64_t address) const {
  const std::size_t slot = find_slot(key_of(process, floor, family, address));
  return slot == slots_.size() ? nullptr : &blocks_[slots_[slot].block - 1];
}

std::vector<MappedRange> LiveSet::mapped() const {
  std::vector<MappedRange> result;
  result.reserve(maps_.size());
  for (const auto& [key, range] : maps_) result.push_back(range);
  return result;
}

void LiveSet::settle(DeviceState& r, std::uint64_t time_ns) {
  FloorState& physical = r.floors[index_of(Floor::Physical)];
  FloorState& allocation = r.floors[index_of(Floor::Allocation)];
  FloorState& framework = r.floors[index_of(Floor::Framework)];
  physical.held = physical.live;
  allocation.held = std::max(physical.live, allocation.live);
  // The totals follow the event that they describe, so for one event live may be ahead of them.
  const std::uint64_t below = r.totals_seen ? r.reserved : r.segments_seen ? r.segments : allocation.live;
  framework.held = std::max(below, framework.live);
  for (FloorState* floor : {&physical, &allocation, &framework}) {
    if (floor->live > floor->peak_live) { floor->peak_live = floor->live; floor->peak_live_ns = time_ns; }
    if (floor->held > floor->peak_held) { floor->peak_held = floor->held; floor->peak_held_ns = time_ns; }
  }
}

void LiveSet::add(const Block& block, std::uint64_t time_ns, bool counted) {
  DeviceState& r = row(block.device);
  const std::uint8_t on = floors_of(block);
  for (std::size_t f = 1; f < kFloorCount; ++f) {
    if ((on & (1u << f)) == 0) continue;
    FloorState& floor = r.floors[f];
    floor.seen = true;
    floor.live += block.size;
    ++floor.live_blocks;
    if (counted) ++floor.allocations; else --floor.frees;
    if (block.device >= 0) floors_seen_[f] = true;
  }
  if (block.family == Family::Imported) r.peak_imported = std::max(r.peak_imported, r.imported += block.size);
  if (block.family == Family::Segment) { r.segments += block.size; r.segments_seen = true; }
  settle(r, time_ns);
}

void LiveSet::remove(const Block& block, std::uint64_t time_ns) {
  DeviceState& r = row(block.device);
  const std::uint8_t on = floors_of(block);
  for (std::size_t f = 1; f < kFloorCount; ++f) {
    if ((on & (1u << f)) == 0) continue;
    r.floors[f].live -= block.size;
    --r.floors[f].live_blocks;
    ++r.floors[f].frees;
  }
  if (block.family == Family::Imported) r.imported -= block.size;
  if (block.family == Family::Segment) r.segments -= block.size;
  settle(r, time_ns);
}

void LiveSet::allocate(const Event& e) {
  if (e.floor == Floor::None || index_of(e.floor) >= kFloorCount) return;
  const std::size_t slot = find_slot(key_of(e.process, e.floor, e.family, e.address));
  if (slot != slots_.size()) {
    ++replaced_;
    const Block old = take(slot);
    remove(old, e.time_ns);
    for (LiveSetObserver* o : observers_) o->died(old, e, Death::Replaced);
  }
  Block block;
  block.address = e.address;
  block.size = e.size;
  block.time_ns = e.time_ns;
  block.serial = births_++;
  block.stream = e.stream;
  block.context = e.context;
  block.site = e.site;
  block.phase = e.phase;
  block.thread = e.thread;
  block.device = device_of(e);
  block.process = e.process;
  block.floor = e.floor;
  block.family = e.family;
  block.flags = e.flags;
  Block& born = insert(block);
  add(born, e.time_ns, true);
  for (LiveSetObserver* o : observers_) o->born(born, e);
}

std::size_t LiveSet::find_freed(const Event& e) const {
  const std::size_t slot = find_slot(key_of(e.process, e.floor, e.family, e.address));
  if (slot != slots_.size()) return slot;
  const auto search = [&](std::span<const Family> families) {
    for (const Family family : families) {
      const std::size_t s = find_slot(key_of(e.process, e.floor, family, e.address));
      if (s != slots_.size()) return s;
    }
    return slots_.size();
  };
  switch (space_of(e.family)) {
    case Space::Handle:
    case Space::HostHandle:
    case Space::PoolGranule: return search(kHandleFamilies);
    case Space::Imported: {  // a handle or the address of an opened block
      const std::size_t found = search(kHandleFamilies);
      return found != slots_.size() ? found : search(kAddressFamilies);
    }
    case Space::Device:
    case Space::Host: return search(kAddressFamilies);
    default: return slots_.size();
  }
}

void LiveSet::free(const Event& e) {
  const std::size_t slot = find_freed(e);
  if (slot == slots_.size()) {
    ++unmatched_frees_;
    return;
  }
  const Block block = take(slot);
  remove(block, e.time_ns);
  const std::uint64_t thread = static_cast<std::uint64_t>(e.process) << 32 | e.thread;
  if (thread != recent_key_) {
    recent_last_ = &recent_[thread];  // stays where it is: the map is node based
    recent_key_ = thread;
  }
  recent_last_->blocks[recent_last_->next++ % recent_last_->blocks.size()] = block;
  for (LiveSetObserver* o : observers_) o->died(block, e, Death::Freed);
}

void LiveSet::free_failed(const Event& e) {
  const auto it = recent_.find(static_cast<std::uint64_t>(e.process) << 32 | e.thread);
  if (it == recent_.end()) { ++lost_revivals_; return; }
  for (unsigned back = 1; back <= it->second.blocks.size(); ++back) {
    Block& candidate = it->second.blocks[(it->second.next - back) % it->second.blocks.size()];
    if (candidate.floor != e.floor || candidate.address != e.address) continue;
    const Block block = candidate;
    if (find_slot(key_of(block)) != slots_.size()) break;
    candidate = {};
    Block& revived = insert(block);
    add(revived, e.time_ns, false);
    for (LiveSetObserver* o : observers_) o->revived(revived, e);
    return;
  }
  ++lost_revivals_;
}

void LiveSet::resize(const Event& e) {
  const std::size_t slot = find_freed(e);
  if (slot == slots_.size()) return;
  Block& block = blocks_[slots_[slot].block - 1];
  const std::uint64_t old_size = block.size;
  DeviceState& r = row(block.device);
  const std::uint8_t on = floors_of(block);
  for (std::size_t f = 1; f < kFloorCount; ++f) if ((on & (1u << f)) != 0) r.floors[f].live += e.size - old_size;
  if (block.family == Family::Imported) r.peak_imported = std::max(r.peak_imported, r.imported += e.size - old_size);
  if (block.family == Family::Segment) r.segments += e.size - old_size;
  block.size = e.size;
  settle(r, e.time_ns);
  for (LiveSetObserver* o : observers_) o->resized(block, old_size, e);
}

void LiveSet::end_context(const Event& e) {
  std::vector<Key> dying;
  for_each_block([&](const Block& b) {
    if (b.process == e.process && b.context == e.context && b.floor == Floor::Allocation && dies_with_context(b.family)) {
      dying.push_back(key_of(b));
    }
  });
  for (const Key& key : dying) {
    const Block block = take(find_slot(key));
    remove(block, e.time_ns);
    for (LiveSetObserver* o : observers_) o->died(block, e, Death::ContextEnded);
  }
}

void LiveSet::map(const Event& e) {
  MappedRange range;
  range.process = e.process;
  range.address = e.address;
  range.size = e.size;
  range.handle = e.extra0;
  range.handle_offset = e.extra1;
  const Block* granule = find(e.process, Floor::Physical, Family::PoolGranule, e.extra0);
  range.pool = granule != nullptr;
  if (granule == nullptr) granule = find(e.process, Floor::Physical, Family::Handle, e.extra0);
  range.device = granule != nullptr ? granule->device : e.device;
  maps_[{e.process, e.address}] = range;
}

void LiveSet::unmap(const Event& e) {
  const std::uint64_t end = e.address + e.size;
  auto it = maps_.lower_bound({e.process, e.address});
  while (it != maps_.end() && it->first.process == e.process && it->first.address < end) it = maps_.erase(it);
}

void LiveSet::sample(const Event& e) {
  DeviceState& r = row(e.device);
  r.memory_info_seen = true;
  r.driver_free = e.size;
  r.driver_total = e.extra0;
  r.driver_ns = e.time_ns;
}

void LiveSet::totals(const Event& e) {
  DeviceState& r = row(e.device);
  std::uint64_t& last = reserved_[{e.process, e.device}];
  r.reserved += e.extra1 - last;
  last = e.extra1;
  r.totals_seen = true;
  settle(r, e.time_ns);
}

void LiveSet::count(const Event& e) {
  if (index_of(e.floor) >= kFloorCount) return;
  DeviceState& r = row(device_of(e));
  FloorState& floor = r.floors[index_of(e.floor)];
  if (e.kind == EventKind::OutOfMemory) ++floor.ooms; else ++floor.failures;
  // A framework gives its cache back before it fails, without a word; what it says as it fails is its latest figure.
  const bool speaks = e.kind == EventKind::OutOfMemory && e.floor == Floor::Framework && e.extra1 != 0;
  if (speaks && r.totals_seen) totals(e);
}

void LiveSet::apply(const Event& e) {
  ++events_;
  switch (e.kind) {
    case EventKind::Allocate: allocate(e); break;
    case EventKind::Free: free(e); break;
    case EventKind::FreeFailed: free_failed(e); break;
    case EventKind::Resize: resize(e); break;
    case EventKind::ContextEnd: end_context(e); break;
    case EventKind::Map: map(e); break;
    case EventKind::Unmap: unmap(e); break;
    case EventKind::MemoryInfo: sample(e); break;
    case EventKind::Totals: totals(e); break;
    case EventKind::OutOfMemory:
    case EventKind::AllocateFailed: count(e); break;
    default: break;
  }
  for (LiveSetObserver* o : observers_) o->after(e, *this);
}

}  // namespace cuheap
