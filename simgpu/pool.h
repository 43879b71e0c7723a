// A stream-ordered memory pool: segments of physical memory, blocks cut from them, freed blocks tagged with the point in stream
// order from which they may be used again. Work of the freeing stream may reuse a block at once, other streams when that point
// has passed. Segments that are wholly free go back to the device at synchronisation, down to the release threshold.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "simgpu/memory.h"
#include "simgpu/stream.h"

namespace cuheap::sim {

class Pool {
 public:
  explicit Pool(int device_index) : device(device_index) {}
  ~Pool();

  /// 0: the device is full.
  uint64_t allocate(uint64_t bytes, const Mark& now);
  /// `from`: the block may change hands after this point.
  bool free(uint64_t address, const Mark& from);
  /// Gives wholly free segments back; at least `keep` bytes stay reserved.
  void trim(uint64_t keep);
  /// Gives wholly free segments back until no more than the threshold is reserved.
  void trim_to_threshold();

  [[nodiscard]] uint64_t block_bytes(uint64_t address);
  void set_access(int device, uint32_t right);
  [[nodiscard]] uint32_t access(int device);

  const int device;
  std::atomic<uint64_t> release_threshold{0};
  std::atomic<int> reuse_follow_events{1};
  std::atomic<int> reuse_opportunistic{1};
  std::atomic<int> reuse_internal_dependencies{1};
  std::atomic<uint64_t> reserved{0}, reserved_high{0}, used{0}, used_high{0};
  uint64_t max_bytes = 0;    // 0: as much as the device has

 private:
  struct Block {
    uint64_t bytes;
    bool free;
    Mark usable;             // of a free block
  };
  struct Segment {
    uint64_t address;
    PhysicalRef physical;
    std::map<uint64_t, Block> blocks;  // tile the segment
  };
  uint64_t take(Segment& segment, std::map<uint64_t, Block>::iterator at, uint64_t bytes);
  bool add_segment(uint64_t bytes);
  PhysicalRef segment_memory(uint64_t bytes);
  static bool is_idle(const Segment& segment);
  void drop_segment(std::map<uint64_t, Segment>::iterator at);

  std::mutex lock_;
  std::map<uint64_t, Segment> segments_;
  uint32_t access_ = 0;
};

}  // namespace cuheap::sim
