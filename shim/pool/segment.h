// Segment: a reserved address range of one device and size class; what is mapped where, and which block begins where.
// SegmentTable: all of them, found by address without a lock. A segment is never given up: address space is free, and a
// pointer of the past must be recognised as one of ours.
#pragma once
#include <atomic>
#include <cstdint>

#include "shim/driver/driver.h"
#include "shim/pool/allocator.h"
#include "shim/pool/granules.h"
#include "shim/pool/policy.h"

namespace cuheap {

/// What the pool handed out for an allocation.
struct PoolBlock {
  enum class State : std::uint8_t {
    Live,
    Freeing,   // its free waits for the fence
    Deferred,  // freed; its fence is still to come or to pass
    Kept,      // freed, but a graph may know the address: neither reused nor unmapped
  };
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;        // asked for
  std::uint64_t held = 0;         // taken out of the segment
  std::uint64_t buffer_id = 0;    // unique for ever
  std::uint64_t context = 0;
  std::uint32_t generation = 0;
  ContextLife life;
  struct Segment* segment = nullptr;
  State state = State::Live;
  bool exposed = false;           // the outside may know its physical memory
  bool sync_memops = false;       // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as the host set it
  std::uint32_t capture_period = 0;  // handed out while a capture was open: CaptureGate::period(); 0: else
  std::uint64_t free_context = 0; // Deferred: the context that freed it
  PoolBlock* previous = nullptr;  // list of its device: live ones, or those that wait
  PoolBlock* next = nullptr;
};

struct Segment {
  std::uint64_t base = 0;
  std::uint64_t size = 0;         // usable; behind it lies one more granule, never mapped: blocks of two segments never
                                  // touch, and a run over the end faults
  std::uint64_t granule = 0;      // bytes
  SizeClass size_class = SizeClass::Small;
  int device = 0;
  Granule** slots = nullptr;      // by granule: what is mapped there; a large handle stands in each of its slots
  PoolBlock** starts = nullptr;       // by unit: the block that begins there

  std::uint64_t end() const { return base + size; }
  bool contains(std::uint64_t address) const { return address - base < size; }
  Granule*& slot_at(std::uint64_t address) { return slots[(address - base) / granule]; }
  PoolBlock*& start_at(std::uint64_t address) { return starts[(address - base) / unit_of(size_class, granule)]; }
  /// The block that contains the address, or null. The device's lock is held.
  PoolBlock* block_at(std::uint64_t address);
};

class SegmentTable {
 public:
  /// Reserves a range for at least `bytes`; `*out` is not yet in the table. Driver call: no lock is held.
  [[nodiscard]] static CUresult reserve(const DriverTable& driver, int device, SizeClass size_class, std::uint64_t granule,
                                        std::uint64_t bytes, Segment* out);
  /// Makes it known; null if the table is full.
  [[nodiscard]] Segment* publish(const Segment& segment);
  /// The segment of an address, or null. Lock-free.
  Segment* find(std::uint64_t address);

  unsigned count() const { return count_.load(std::memory_order_acquire); }
  Segment& at(unsigned i) { return segments_[i]; }

 private:
  static constexpr unsigned kMaxSegments = 512;
  std::atomic<unsigned> count_{0};
  std::atomic<unsigned> claimed_{0};
  std::atomic<std::uint64_t> lowest_{~std::uint64_t{0}};
  std::atomic<std::uint64_t> highest_{0};
  Segment segments_[kMaxSegments];
};

}  // namespace cuheap
