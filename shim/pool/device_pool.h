// DevicePool: the pool of one device. Segments and granules, blocks, the memory that waits for a fence. Everything is
// planned under the lock, what the plan touches is taken out of the books (in transit), the driver is called without the
// lock, and the outcome is written down under it again.
#pragma once
#include <atomic>
#include <cstdint>

#include "shim/pool/allocator.h"
#include "shim/pool/defrag.h"
#include "shim/pool/fences.h"
#include "shim/pool/free_index.h"
#include "shim/pool/granules.h"
#include "shim/pool/segment.h"
#include "tracer/base/process.h"
#include "tracer/event_sink.h"

namespace cuheap {

/// What all devices of the process share.
struct PoolShared {
  const DriverTable* driver = nullptr;
  EventSink* sink = nullptr;
  bool ordered_free = false;
  CaptureGate captures;
  Contexts contexts;
  GraphBook graphs;
  SegmentTable segments;
  std::atomic<std::uint64_t> next_buffer_id{std::uint64_t{1} << 48};  // far from the driver's own
  std::atomic<bool> frozen{false};

  /// No event, query, synchronisation or unmap now.
  bool is_still() const { return captures.open() || frozen.load(std::memory_order_relaxed) || process::is_exiting(); }
};

struct PoolFigures {
  std::uint64_t live_bytes = 0;     // asked for and not freed
  std::uint64_t used_bytes = 0;     // taken by blocks, freed ones that wait included
  std::uint64_t held_bytes = 0;     // physical memory taken from the driver
  std::uint64_t idle_bytes = 0;     // of wholly free granules
  std::uint64_t waiting_bytes = 0;  // freed, fence to come
  std::uint64_t steals = 0;         // granules moved
  std::uint64_t creates = 0;        // handles made
  std::uint64_t lost_bytes = 0;     // that could not be written down any more
  std::uint64_t blocks = 0;
};

/// Counts the threads that hold something out of the books while they call the driver.
class Transit {
 public:
  explicit Transit(std::atomic<unsigned>& count) : count_(count) { count_.fetch_add(1, std::memory_order_acq_rel); }
  ~Transit() { count_.fetch_sub(1, std::memory_order_acq_rel); }
  Transit(const Transit&) = delete;
  Transit& operator=(const Transit&) = delete;

 private:
  std::atomic<unsigned>& count_;
};

class DevicePool {
 public:
  static constexpr unsigned kMaxAccess = 64;  // the device and the others

  /// Tries what the pool will do with the flags it will use. False: the pool must not be used on this device.
  /// `accessors`: the other devices that are to reach its memory, a bit each.
  [[nodiscard]] bool arm(PoolShared* shared, int device, std::uint64_t accessors);

  /// SUCCESS; OUT_OF_MEMORY when neither idle granules nor the driver can cover it; anything else: the driver would not.
  [[nodiscard]] CUresult allocate(const AllocationRequest& request, CUdeviceptr* out);
  /// Ends the block at `address`. NOT_FOUND: no live block begins there. `ordered`: never wait.
  [[nodiscard]] CUresult release(const Caller& caller, Segment* segment, std::uint64_t address, bool ordered);

  /// A copy of the live block that contains the address. False: a hole.
  [[nodiscard]] bool find(Segment* segment, std::uint64_t address, PoolBlock* out);
  /// Changes what is known of the live block that contains the address, under the lock. False: there is none.
  template <class Change>
  bool change(Segment* segment, std::uint64_t address, Change change) {
    const PoolGuard guard(lock_);
    PoolBlock* block = segment->block_at(address);
    if (block == nullptr || block->state != PoolBlock::State::Live) return false;
    change(*block);
    return true;
  }

  /// Lets freed blocks whose fence has passed become free; waits for them if asked. True: some did.
  bool settle(Waiting waiting);
  /// Gives idle memory back to the driver until `bytes` are given back or nothing is left. Returns how much it was.
  std::uint64_t reclaim(std::uint64_t bytes);
  /// What relieves: settle, reclaim, and failing that, time for what other threads have in transit.
  bool relieve(std::uint64_t bytes);

  void context_ended(std::uint64_t context, std::uint32_t generation);
  /// The set of devices that may reach this memory has changed. False: not everything could be opened.
  bool update_access(int peer, bool may_reach);
  /// Graphs that might know kept memory are gone, or they are not, but it is needed. True: there was some.
  bool release_kept(bool is_needed = false);

  PoolFigures figures();
  std::uint64_t idle_bytes();
  std::uint64_t total_bytes() const { return total_; }
  /// Blocks and free ranges tile the segments, granules know their bytes, sums agree. True as well while another thread
  /// has something in transit, which cannot be judged.
  bool is_valid();
  void after_fork_in_child() { lock_.reset(); }

 private:
  struct Space {
    FreeIndex ready;                              // mapped, free, nothing queued uses it
    FreeIndex unmapped;                           // reserved address space
    FreeIndex quarantine;                         // freed, but the outside may know its memory
    std::uint64_t next_segment = 0;               // bytes of the next reservation
    constexpr explicit Space(FreeIndex::Merging merging) : ready(merging) {}
  };
  struct Need {
    std::uint64_t bytes, held, alignment;
    SizeClass size_class;
  };
  struct Batch {
    Fence fence;
    PoolBlock* first = nullptr;
    std::uint64_t bytes = 0;
    ContextSet contexts;
  };
  static constexpr unsigned kMaxVictims = 16;
  struct Tally {
    std::uint64_t used = 0, free = 0, blocks = 0, mapped = 0, granules_used = 0;
  };

  Space& space(SizeClass size_class) { return spaces_[static_cast<unsigned>(size_class)]; }
  Need need_of(std::uint64_t bytes) const;

  // Under the lock.
  FreeRange find_hole(const Need& need);
  /// OUT_OF_MEMORY: no place in the books; CONTEXT_IS_DESTROYED: the asker's context ended meanwhile.
  CUresult place(FreeRange range, const AllocationRequest& request, CUdeviceptr* out);
  bool plan(const Need& need, Plan* plan);
  bool claim(const Need& need, Plan* plan);
  void claim_source(Move* move);
  void commit(const Need& need, Plan* plan, bool good);
  void commit_move(Space& own, Move* move);
  void write_slots(Granule* granule, std::uint64_t address, std::uint64_t size, Segment* segment);
  void give_ready(Space& own, FreeRange range);
  void take_range(FreeIndex& index, FreeRange range);
  void finish(PoolBlock* block);
  void claim_exposed(Granule* granule);
  bool claim_victim(std::uint64_t bytes, Granule** out);
  void commit_given_back(Granule** granules, const bool* gone, unsigned count);
  template <class Visit>
  void each_granule(const Segment* segment, FreeRange range, Visit visit) {
    for (std::uint64_t at = range.address; at < range.end();) {
      Granule* granule = segment->slots[(at - segment->base) / segment->granule];
      const std::uint64_t end = granule->address + granule->size;
      const std::uint64_t stop = end < range.end() ? end : range.end();
      visit(granule, stop - at);
      at = stop;
    }
  }
  bool is_tiled(Segment& segment, Tally* tally);
  bool are_slots_valid(Segment& segment, Tally* tally);
  void enlist(PoolBlock** list, PoolBlock* block);
  void delist(PoolBlock** list, PoolBlock* block);
  void defer(PoolBlock* block, const Caller& caller);
  void undefer(Batch* batch);
  void finish_all(Batch* batch);
  bool close_batch(Batch* out);

  // With driver calls, without the lock.
  CUresult allocate_slowly(const AllocationRequest& request, const Need& need, CUdeviceptr* out);
  CUresult grow(const AllocationRequest& request, const Need& need, CUdeviceptr* out);
  CUresult add_segment(const Need& need);
  CUresult wait_for(const Caller& caller, const PoolBlock& block);
  std::uint64_t give_back(Granule** granules, unsigned count);
  void give_back_exposed();
  void note_tightness();
  void reopen(const Ground& here, const Plan& plan);
  void reopen(const Ground& here, Granule* const* granules, const bool* gone, unsigned count);
  void record_growth(const Plan& plan, std::uint32_t site);
  void record_mapping(const Move& move);
  void record(EventKind kind, Family family, std::uint64_t address, std::uint64_t size, std::uint64_t extra0, std::uint32_t site);
  Ground ground(CUmemAccessDesc* access);
  bool try_form(HandleForm form);

  PoolShared* shared_ = nullptr;
  int device_ = 0;
  std::uint64_t granule_ = kGranuleBytes;
  std::uint64_t total_ = 0;
  HandleForm form_;

  PoolLock lock_;  // all below
  Space spaces_[kSizeClasses] = {Space(FreeIndex::Merging::On), Space(FreeIndex::Merging::On), Space(FreeIndex::Merging::Off)};
  Granules granules_;
  NodeStore<PoolBlock> blocks_;
  PoolBlock* live_ = nullptr;
  PoolBlock* kept_ = nullptr;
  Batch open_;                     // freed, no fence yet
  Batch fenced_[kMaxOpenFences];   // by age, from oldest_
  unsigned oldest_ = 0;
  unsigned fenced_count_ = 0;
  bool settling_ = false;          // one thread at a time walks the fences
  Granule* leaving_ = nullptr;     // exposed granules on their way back to the driver
  int access_[kMaxAccess] = {};
  unsigned access_count_ = 0;
  unsigned access_version_ = 0;
  PoolFigures figures_;
  std::atomic<unsigned> in_transit_{0};  // threads between a plan and its commit
  std::atomic<unsigned> epoch_{0};       // counts commits that freed something
  std::atomic<bool> tight_{false};
};

}  // namespace cuheap
