#include "shim/hooks/block_table.h"

namespace cuheap {

bool BlockTable::insert(std::uint64_t key, const Block& block) {
  Shard& home = shard(key);
  const SpinGuard guard(home.lock);
  Block* const entry = guard && key != 0 ? home.map.insert(key, block) : nullptr;
  if (entry == nullptr) return false;
  entry->serial = ++home.serial;
  return true;
}

bool BlockTable::find(std::uint64_t key, Block* out) {
  return change(key, [out](const Block& block) { *out = block; });
}

bool BlockTable::find_around(std::uint64_t address, Block* out) {
  if (find(address, out)) return true;
  bool found = false;
  for (Shard& home : shards_) {
    const SpinGuard guard(home.lock);
    if (!guard) continue;
    home.map.for_each([&](std::uint64_t key, const Block& block) {
      if (address < key || address - key >= block.size) return;
      *out = block;
      found = true;
    });
    if (found) return true;
  }
  return false;
}

void BlockTable::erase(std::uint64_t key, std::uint32_t serial) {
  Shard& home = shard(key);
  const SpinGuard guard(home.lock);
  const Block* const block = guard ? home.map.find(key) : nullptr;
  if (block != nullptr && block->serial == serial) home.map.erase(key);
}

std::size_t BlockTable::size() {
  std::size_t size = 0;
  for (Shard& home : shards_) {
    const SpinGuard guard(home.lock);
    if (guard) size += home.map.size();
  }
  return size;
}

}  // namespace cuheap
