#include "simgpu/pool.h"

#include <algorithm>

#include "simgpu/machine.h"

namespace cuheap::sim {
namespace {

// A pool grows in steps of this; larger requests get a segment of their own size. The documentation leaves it open.
constexpr uint64_t kSegmentBytes = uint64_t{32} << 20;
constexpr uint64_t kBlockAlignment = 512;

void raise(std::atomic<uint64_t>& high, uint64_t value) {
  uint64_t seen = high.load();
  while (seen < value && !high.compare_exchange_weak(seen, value)) {
  }
}

bool may_use(const Mark& usable, const Mark& now) { return usable.is_reached() || usable.stream == now.stream; }

}  // namespace

Pool::~Pool() {
  while (!segments_.empty()) drop_segment(segments_.begin());
}

PhysicalRef Pool::segment_memory(uint64_t bytes) {
  if (max_bytes != 0 && (reserved > max_bytes || bytes > max_bytes - reserved)) return nullptr;
  return machine().memory.new_physical(device, bytes);
}

bool Pool::add_segment(uint64_t bytes) {
  bytes = round_up(bytes, kGranule);
  PhysicalRef physical = segment_memory(std::max(bytes, kSegmentBytes));
  if (physical == nullptr && bytes < kSegmentBytes) physical = segment_memory(bytes);
  if (physical == nullptr) return false;
  const uint64_t size = physical->size;
  const uint64_t address = machine().memory.reserve(size, kGranule, 0);
  if (address == 0) return false;
  machine().memory.map(address, *physical, 0, size, access_ | (3u << (2 * device)));
  segments_[address] = {address, std::move(physical), {{address, {size, true, {}}}}};
  reserved += size;
  raise(reserved_high, reserved);
  return true;
}

void Pool::drop_segment(std::map<uint64_t, Segment>::iterator at) {
  const uint64_t bytes = at->second.physical->size;
  machine().memory.unmap(at->first, bytes);
  machine().memory.unreserve(at->first, bytes);
  reserved -= bytes;
  segments_.erase(at);
}

uint64_t Pool::take(Segment& segment, std::map<uint64_t, Block>::iterator at, uint64_t bytes) {
  const uint64_t address = at->first;
  if (at->second.bytes > bytes) segment.blocks[address + bytes] = {at->second.bytes - bytes, true, at->second.usable};
  at->second = {bytes, false, {}};
  used += bytes;
  raise(used_high, used);
  return address;
}

uint64_t Pool::allocate(uint64_t bytes, const Mark& now) {
  const uint64_t rounded = round_up(bytes, kBlockAlignment);
  if (rounded < bytes) return 0;
  std::lock_guard guard(lock_);
  for (int attempt = 0; attempt < 2; ++attempt) {
    Segment* best_segment = nullptr;
    std::map<uint64_t, Block>::iterator best;
    for (auto& [address, segment] : segments_)
      for (auto at = segment.blocks.begin(); at != segment.blocks.end(); ++at) {
        const Block& block = at->second;
        if (!block.free || block.bytes < rounded || !may_use(block.usable, now)) continue;
        if (best_segment == nullptr || block.bytes < best->second.bytes) best_segment = &segment, best = at;
      }
    if (best_segment != nullptr) return take(*best_segment, best, rounded);
    if (!add_segment(rounded)) return 0;
  }
  return 0;
}

bool Pool::free(uint64_t address, const Mark& from) {
  std::lock_guard guard(lock_);
  auto segment_at = segments_.upper_bound(address);
  if (segment_at == segments_.begin()) return false;
  auto& blocks = std::prev(segment_at)->second.blocks;
  auto at = blocks.find(address);
  if (at == blocks.end() || at->second.free) return false;
  used -= at->second.bytes;
  at->second.free = true;
  at->second.usable = from;
  // Neighbours merge when they become usable at the same point, or are usable now.
  const auto same = [](const Mark& a, const Mark& b) {
    return (a.stream == b.stream && a.stream != nullptr) || (a.is_reached() && b.is_reached());
  };
  if (auto next = std::next(at); next != blocks.end() && next->second.free && same(next->second.usable, from)) {
    at->second.bytes += next->second.bytes;
    blocks.erase(next);
  }
  if (at != blocks.begin()) {
    auto before = std::prev(at);
    if (before->second.free && same(before->second.usable, from)) {
      before->second.bytes += at->second.bytes;
      before->second.usable = from;
      blocks.erase(at);
    }
  }
  return true;
}

bool Pool::is_idle(const Segment& segment) {
  return std::all_of(segment.blocks.begin(), segment.blocks.end(),
                     [](const auto& b) { return b.second.free && b.second.usable.is_reached(); });
}

void Pool::trim(uint64_t keep) {
  std::lock_guard guard(lock_);
  for (auto at = segments_.begin(); at != segments_.end();) {
    const auto segment = at++;
    const uint64_t bytes = segment->second.physical->size;
    if (reserved >= bytes && reserved - bytes >= keep && is_idle(segment->second)) drop_segment(segment);
  }
}

void Pool::trim_to_threshold() {
  std::lock_guard guard(lock_);
  for (auto at = segments_.begin(); at != segments_.end() && reserved > release_threshold;) {
    const auto segment = at++;
    if (is_idle(segment->second)) drop_segment(segment);
  }
}

uint64_t Pool::block_bytes(uint64_t address) {
  std::lock_guard guard(lock_);
  auto at = segments_.upper_bound(address);
  if (at == segments_.begin()) return 0;
  const auto& blocks = std::prev(at)->second.blocks;
  const auto block = blocks.find(address);
  return block == blocks.end() ? 0 : block->second.bytes;
}

void Pool::set_access(int other, uint32_t right) {
  std::lock_guard guard(lock_);
  const uint32_t mask = 3u << (2 * other);
  access_ = (access_ & ~mask) | (right << (2 * other));
  for (auto& [address, segment] : segments_)
    machine().memory.set_access(address, segment.physical->size, mask, right << (2 * other));
}

uint32_t Pool::access(int other) {
  std::lock_guard guard(lock_);
  return other == device ? 3u : (access_ >> (2 * other)) & 3u;
}

}  // namespace cuheap::sim
