#include "simgpu/vmm.h"

#include <algorithm>
#include <vector>

#include "simgpu/machine.h"

namespace cuheap::sim {
namespace {

template <class Map>
auto last_at_or_below(Map& map, uint64_t address) {
  auto at = map.upper_bound(address);
  return at == map.begin() ? map.end() : std::prev(at);
}

}  // namespace

uint64_t Vmm::reserve(uint64_t bytes, uint64_t alignment, uint64_t hint) {
  // As asked for in whole pages; memory can be mapped in the whole granules of it.
  const uint64_t granules = round_up(bytes, kGranule);
  const uint64_t address = granules < bytes ? 0 : machine().memory.reserve(granules, alignment, hint);
  if (address == 0) return 0;
  std::lock_guard guard(lock_);
  reservations_[address] = bytes;
  return address;
}

bool Vmm::unreserve(uint64_t address, uint64_t bytes) {
  std::lock_guard guard(lock_);
  const auto at = reservations_.find(address);
  if (at == reservations_.end() || at->second != bytes) return false;
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first < address + bytes) return false;
  reservations_.erase(at);
  machine().memory.unreserve(address, round_up(bytes, kGranule));
  return true;
}

std::optional<std::pair<uint64_t, uint64_t>> Vmm::reservation_of(uint64_t address) const {
  std::lock_guard guard(lock_);
  const auto at = last_at_or_below(reservations_, address);
  if (at == reservations_.end() || address - at->first >= at->second) return std::nullopt;
  return std::pair(at->first, at->second);
}

Physical* Vmm::add_handle(PhysicalRef physical) {
  std::lock_guard guard(lock_);
  Physical* handle = physical.get();
  handles_[handle] = {std::move(physical), 1};
  return handle;
}

PhysicalRef Vmm::find_handle(const void* handle) const {
  std::lock_guard guard(lock_);
  const auto at = handles_.find(handle);
  return at == handles_.end() ? nullptr : at->second.physical;
}

bool Vmm::retain_handle(const void* handle) {
  std::lock_guard guard(lock_);
  const auto at = handles_.find(handle);
  if (at != handles_.end()) return ++at->second.references, true;
  // Released, but still mapped: the mapping keeps it alive, and it becomes a handle again.
  for (const auto& [address, mapping] : mappings_)
    if (mapping.physical.get() == handle) return handles_[handle] = {mapping.physical, 1}, true;
  return false;
}

bool Vmm::release_handle(const void* handle) {
  PhysicalRef last;  // dies outside the lock
  std::lock_guard guard(lock_);
  const auto at = handles_.find(handle);
  if (at == handles_.end()) return false;
  if (--at->second.references > 0) return true;
  last = std::move(at->second.physical);
  handles_.erase(at);
  return true;
}

bool Vmm::map(uint64_t address, uint64_t bytes, uint64_t physical_offset, PhysicalRef physical) {
  std::lock_guard guard(lock_);
  const auto reservation = last_at_or_below(reservations_, address);
  if (reservation == reservations_.end()) return false;
  const uint64_t inside = address - reservation->first;
  if (inside >= reservation->second || bytes > reservation->second - inside) return false;
  const auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + bytes) return false;
  if (next != mappings_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address) return false;
  machine().memory.map(address, *physical, physical_offset, bytes, 0);
  mappings_[address] = {address, bytes, physical_offset, std::move(physical)};
  access_[address] = 0;
  return true;
}

std::pair<Vmm::Mappings::iterator, Vmm::Mappings::iterator> Vmm::whole_mappings(uint64_t address, uint64_t bytes) {
  const auto first = mappings_.find(address);
  uint64_t left = bytes;
  for (auto at = first; at != mappings_.end() && at->first == address + (bytes - left) && at->second.bytes <= left;) {
    left -= at->second.bytes;
    ++at;
    if (left == 0) return {first, at};
  }
  return {mappings_.end(), mappings_.end()};
}

bool Vmm::unmap(uint64_t address, uint64_t bytes) {
  std::vector<PhysicalRef> released;
  std::lock_guard guard(lock_);
  const auto [first, last] = whole_mappings(address, bytes);
  if (first == last) return false;
  machine().memory.unmap(address, bytes);
  for (auto at = first; at != last; ++at) {
    released.push_back(std::move(at->second.physical));
    access_.erase(at->first);
  }
  mappings_.erase(first, last);
  return true;
}

bool Vmm::set_access(uint64_t address, uint64_t bytes, int device, uint32_t right) {
  std::lock_guard guard(lock_);
  const uint32_t mask = 3u << (2 * device);
  const auto [first, last] = whole_mappings(address, bytes);
  if (first == last) return false;
  machine().memory.set_access(address, bytes, mask, right << (2 * device));
  for (auto at = first; at != last; ++at)
    access_[at->first] = (access_[at->first] & ~mask) | (right << (2 * device));
  return true;
}

std::optional<Mapping> Vmm::mapping_of(uint64_t address) const {
  std::lock_guard guard(lock_);
  const auto at = last_at_or_below(mappings_, address);
  if (at == mappings_.end() || address - at->first >= at->second.bytes) return std::nullopt;
  return at->second;
}

std::optional<uint32_t> Vmm::access_of(uint64_t address, int device) const {
  std::lock_guard guard(lock_);
  const auto at = last_at_or_below(mappings_, address);
  if (at == mappings_.end() || address - at->first >= at->second.bytes) return std::nullopt;
  return (access_.at(at->first) >> (2 * device)) & 3u;
}

}  // namespace cuheap::sim
