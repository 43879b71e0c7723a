#include "simgpu/allocations.h"

#include <sys/mman.h>

#include <algorithm>

#include "simgpu/machine.h"

namespace cuheap::sim {
namespace {

// Device blocks below this share a slab; the rest take whole granules. cudaMalloc of a megabyte costs 2 MiB on real devices.
constexpr uint64_t kSmallLimit = uint64_t{1} << 20;
constexpr uint64_t kBlockAlignment = 512;

}  // namespace

uint64_t Allocations::add_locked(Allocation allocation) {
  allocation.buffer_id = next_buffer_id_++;
  const uint64_t base = allocation.base;
  blocks_[base] = std::move(allocation);
  return base;
}

void Allocations::add(Allocation allocation) {
  std::lock_guard guard(lock_);
  add_locked(std::move(allocation));
}

uint64_t Allocations::allocate_small(int device, uint64_t context_id, uint64_t bytes) {
  const uint64_t rounded = round_up(bytes, kBlockAlignment);
  Slab* best = nullptr;
  std::shared_ptr<Slab> owner;
  std::map<uint64_t, uint64_t>::iterator hole;
  for (const auto& slab : slabs_) {
    if (slab->context_id != context_id || slab->physical->device != device) continue;
    for (auto at = slab->holes.begin(); at != slab->holes.end(); ++at)
      if (at->second >= rounded && (best == nullptr || at->second < hole->second)) best = slab.get(), owner = slab, hole = at;
  }
  if (best == nullptr) {
    PhysicalRef physical = machine().memory.new_physical(device, kGranule);
    if (physical == nullptr) return 0;
    const uint64_t address = machine().memory.reserve(kGranule, kGranule, 0);
    if (address == 0) return 0;
    machine().memory.map(address, *physical, 0, kGranule, kAccessAll);
    owner = std::make_shared<Slab>(Slab{address, std::move(physical), context_id, {{0, kGranule}}});
    slabs_.push_back(owner);
    hole = owner->holes.begin();
  }
  const auto [offset, size] = *hole;
  owner->holes.erase(hole);
  if (size > rounded) owner->holes[offset + rounded] = size - rounded;
  Allocation allocation{.base = owner->address + offset, .size = bytes, .device = device, .context_id = context_id};
  allocation.physical = owner->physical;
  allocation.slab = owner;
  return add_locked(std::move(allocation));
}

uint64_t Allocations::allocate_device(int device, uint64_t context_id, uint64_t bytes) {
  std::lock_guard guard(lock_);
  if (bytes < kSmallLimit) return allocate_small(device, context_id, bytes);
  const uint64_t rounded = round_up(bytes, kGranule);
  if (rounded < bytes) return 0;
  PhysicalRef physical = machine().memory.new_physical(device, rounded);
  if (physical == nullptr) return 0;
  const uint64_t address = machine().memory.reserve(rounded, kGranule, 0);
  if (address == 0) return 0;
  machine().memory.map(address, *physical, 0, rounded, kAccessAll);
  Allocation allocation{.base = address, .size = bytes, .reserved = rounded, .device = device, .context_id = context_id};
  allocation.physical = std::move(physical);
  return add_locked(std::move(allocation));
}

uint64_t Allocations::allocate_host(uint64_t bytes, Kind kind, int device, uint64_t context_id, unsigned flags) {
  const uint64_t mapped = round_up(bytes, 4096);
  if (mapped < bytes) return 0;
  void* at = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return 0;
  std::lock_guard guard(lock_);
  return add_locked({.base = reinterpret_cast<uint64_t>(at), .size = bytes, .reserved = mapped, .kind = kind, .device = device,
                     .context_id = context_id, .flags = flags});
}

std::optional<Allocation> Allocations::find(uint64_t address) const {
  std::lock_guard guard(lock_);
  auto at = blocks_.upper_bound(address);
  if (at == blocks_.begin()) return std::nullopt;
  --at;
  if (address - at->first >= std::max<uint64_t>(at->second.size, 1)) return std::nullopt;
  return at->second;
}

std::optional<Allocation> Allocations::find_base(uint64_t base) const {
  std::lock_guard guard(lock_);
  const auto at = blocks_.find(base);
  return at == blocks_.end() ? std::nullopt : std::optional(at->second);
}

bool Allocations::update(uint64_t base, const std::function<void(Allocation&)>& change) {
  std::lock_guard guard(lock_);
  const auto at = blocks_.find(base);
  if (at == blocks_.end()) return false;
  change(at->second);
  return true;
}

std::optional<Allocation> Allocations::take(uint64_t base) {
  std::lock_guard guard(lock_);
  const auto at = blocks_.find(base);
  if (at == blocks_.end()) return std::nullopt;
  Allocation allocation = std::move(at->second);
  blocks_.erase(at);
  return allocation;
}

void Allocations::release(Allocation& allocation) {
  if (allocation.kind == Kind::Managed || allocation.kind == Kind::PinnedHost) {
    ::munmap(reinterpret_cast<void*>(allocation.base), allocation.reserved);
    return;
  }
  if (allocation.slab == nullptr) {
    if (allocation.reserved == 0) return;
    machine().memory.unmap(allocation.base / kGranule * kGranule, allocation.reserved);
    machine().memory.unreserve(allocation.base / kGranule * kGranule, allocation.reserved);
    allocation.physical.reset();
    return;
  }
  std::lock_guard guard(lock_);
  Slab& slab = *allocation.slab;
  uint64_t start = allocation.base - slab.address;
  uint64_t bytes = round_up(allocation.size, kBlockAlignment);
  auto after = slab.holes.lower_bound(start);
  if (after != slab.holes.end() && after->first == start + bytes) bytes += after->second, after = slab.holes.erase(after);
  if (after != slab.holes.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == start) start = before->first, bytes += before->second, slab.holes.erase(before);
  }
  slab.holes[start] = bytes;
  if (bytes < kGranule) return;
  machine().memory.unmap(slab.address, kGranule);
  machine().memory.unreserve(slab.address, kGranule);
  slabs_.erase(std::find(slabs_.begin(), slabs_.end(), allocation.slab));
  allocation.physical.reset();
  slab.physical.reset();
}

std::vector<uint64_t> Allocations::bases_of(uint64_t context_id) const {
  std::lock_guard guard(lock_);
  std::vector<uint64_t> result;
  for (const auto& [base, block] : blocks_)
    if (block.context_id == context_id) result.push_back(base);
  return result;
}

bool Allocations::overlaps(uint64_t address, uint64_t bytes) const {
  std::lock_guard guard(lock_);
  auto at = blocks_.lower_bound(address + bytes);
  if (at == blocks_.begin()) return false;
  --at;
  return at->first + at->second.size > address;
}

}  // namespace cuheap::sim
