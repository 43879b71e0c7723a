// BlockTable: what is alive at an address or behind a handle, so that an ending call knows size and owner. Sharded by
// address, one lock a shard, never held across a driver call.
//
// A block is looked up before the driver's free and erased after it. In between the driver may give the same address to
// another thread, whose entry takes the old one's place; the serial tells them apart.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tracer/base/address_map.h"
#include "tracer/base/spin_lock.h"
#include "tracer/format/event.h"

namespace cuheap {

struct Block {
  std::uint64_t size = 0;
  std::uint64_t context = 0;     // whose end is its end; 0: it outlives contexts
  std::uint64_t identity = 0;    // the address that its events carry
  std::uint32_t generation = 0;  // of the context value
  std::uint32_t references = 1;  // handles: how often it must be released; imports: opened
  std::uint32_t mappings = 0;    // handles: how often it is mapped
  std::uint32_t serial = 0;      // given by the table
  SiteId site = 0;               // only where the first event comes later than the call that made it
  std::int16_t device = 0;
  Family family = Family::None;
  bool is_pooled = false;
};

class BlockTable {
 public:
  /// Puts or replaces. False: no memory or no lock; a later free will not know the size.
  bool insert(std::uint64_t key, const Block& block);
  /// Copies the entry out; false if there is none.
  bool find(std::uint64_t key, Block* out);
  /// The entry that covers the address: [key, key + size). Walks the table unless the address is a key.
  bool find_around(std::uint64_t address, Block* out);
  /// Changes the entry in place under its lock; false if there is none.
  template <typename Change>
  bool change(std::uint64_t key, Change&& change);
  /// The block that was found has been freed: the entry goes, unless another one took its place.
  void erase(std::uint64_t key, std::uint32_t serial);
  /// Takes out every entry of the context; calls forgotten(block) for each.
  template <typename Forgotten>
  void forget_context(std::uint64_t context, std::uint32_t generation, Forgotten&& forgotten);
  std::size_t size();

 private:
  static constexpr std::size_t kShards = 64;
  static constexpr std::size_t kBatch = 64;
  struct alignas(64) Shard {
    SpinLock lock;
    AddressMap<Block> map;
    std::uint32_t serial = 0;
  };
  Shard& shard(std::uint64_t key) { return shards_[((key ^ (key >> 29)) * 0x9e3779b97f4a7c15u) >> 58]; }

  Shard shards_[kShards];
};

template <typename Change>
bool BlockTable::change(std::uint64_t key, Change&& change) {
  Shard& home = shard(key);
  const SpinGuard guard(home.lock);
  Block* const block = guard ? home.map.find(key) : nullptr;
  if (block == nullptr) return false;
  change(*block);
  return true;
}

template <typename Forgotten>
void BlockTable::forget_context(std::uint64_t context, std::uint32_t generation, Forgotten&& forgotten) {
  for (Shard& home : shards_) {
    const SpinGuard guard(home.lock);
    if (!guard) continue;
    // The map may not change while it is walked: collect a batch, erase it, look again.
    std::uint64_t keys[kBatch];
    for (std::size_t count = kBatch; count == kBatch;) {
      count = 0;
      home.map.for_each([&](std::uint64_t key, const Block& block) {
        if (count < kBatch && block.context == context && block.generation == generation) keys[count++] = key;
      });
      for (std::size_t i = 0; i < count; ++i) {
        Block block;
        if (home.map.erase(keys[i], &block)) forgotten(block);
      }
    }
  }
}

}  // namespace cuheap
