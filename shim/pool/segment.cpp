#include "shim/pool/segment.h"

#include <sched.h>

namespace cuheap {

PoolBlock* Segment::block_at(std::uint64_t address) {
  // A block of this class is never longer than the class allows, so the search back is bounded; a huge block begins where
  // its handle is mapped.
  const std::uint64_t unit = unit_of(size_class, granule);
  if (size_class == SizeClass::Huge) {
    const Granule* at = slot_at(address);
    PoolBlock* block = at != nullptr ? start_at(at->address) : nullptr;
    return block != nullptr && address - block->address < block->held ? block : nullptr;
  }
  const std::uint64_t reach = (size_class == SizeClass::Small ? kSmallLimit : kHugeLimit) / unit + 1;
  const std::uint64_t first = (address - base) / unit;
  for (std::uint64_t i = 0; i <= reach && i <= first; ++i) {
    PoolBlock* block = starts[first - i];
    if (block != nullptr) return address - block->address < block->held ? block : nullptr;
  }
  return nullptr;
}

CUresult SegmentTable::reserve(const DriverTable& driver, int device, SizeClass size_class, std::uint64_t granule,
                               std::uint64_t bytes, Segment* out) {
  Segment segment;
  segment.device = device;
  segment.size_class = size_class;
  segment.granule = granule;
  segment.size = round_up(bytes, granule);
  segment.slots = map_table<Granule*>(segment.size / granule);
  segment.starts = map_table<PoolBlock*>(segment.size / unit_of(size_class, granule));
  CUdeviceptr base = 0;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (segment.slots != nullptr && segment.starts != nullptr) {
    result = driver.cuMemAddressReserve(&base, segment.size + granule, granule, 0, 0);
  }
  if (result != CUDA_SUCCESS) {
    if (segment.slots != nullptr) unmap_table(segment.slots, segment.size / granule);
    if (segment.starts != nullptr) unmap_table(segment.starts, segment.size / unit_of(size_class, granule));
    return result;
  }
  segment.base = base;
  *out = segment;
  return CUDA_SUCCESS;
}

Segment* SegmentTable::publish(const Segment& segment) {
  // Entries become visible in order, each whole before it is counted.
  const unsigned place = claimed_.fetch_add(1, std::memory_order_relaxed);
  if (place >= kMaxSegments) {
    claimed_.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  segments_[place] = segment;
  for (auto low = lowest_.load(); segment.base < low && !lowest_.compare_exchange_weak(low, segment.base);) {
  }
  for (auto high = highest_.load(); segment.end() > high && !highest_.compare_exchange_weak(high, segment.end());) {
  }
  while (count_.load(std::memory_order_acquire) != place) sched_yield();
  count_.store(place + 1, std::memory_order_release);
  return &segments_[place];
}

Segment* SegmentTable::find(std::uint64_t address) {
  if (address < lowest_.load(std::memory_order_acquire) || address >= highest_.load(std::memory_order_acquire)) return nullptr;
  const unsigned known = count();
  for (unsigned i = 0; i < known; ++i) {
    if (segments_[i].contains(address)) return &segments_[i];
  }
  return nullptr;
}

}  // namespace cuheap
