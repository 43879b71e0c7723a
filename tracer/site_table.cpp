#include "tracer/site_table.h"

namespace cuheap {
namespace {

std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

std::uint64_t hash_stack(const std::uintptr_t* frames, unsigned depth, std::uint64_t epoch) {
  constexpr std::uint64_t kA = 0xa0761d6478bd642fu, kB = 0xe7037ed1a0b428dbu, kC = 0x8ebc6af09c88c6e3u;
  std::uint64_t even = epoch ^ kA, odd = depth ^ kB;
  unsigned i = 0;
  for (; i + 1 < depth; i += 2) {  // two chains, so that the multiplications overlap
    even = fold(even ^ frames[i], kB);
    odd = fold(odd ^ frames[i + 1], kC);
  }
  if (i < depth) even = fold(even ^ frames[i], kB);
  const std::uint64_t hash = fold(even ^ kC, odd ^ kA);
  return hash != 0 ? hash : 1;
}

bool SiteTable::find(std::uint64_t hash, KnownSite* site) const {
  for (std::size_t i = 0; i < kProbes; ++i) {
    const Slot& slot = slots_[(hash + i) & (kSlots - 1)];
    const std::uint64_t found = slot.hash.load(std::memory_order_acquire);
    if (found == 0) return false;
    if (found != hash) continue;
    const std::uint64_t word = slot.site.load(std::memory_order_acquire);
    if (word == 0 || slot.hash.load(std::memory_order_relaxed) != hash) return false;
    *site = {static_cast<SiteId>(word), static_cast<std::uint32_t>(word >> 32)};
    return true;
  }
  return false;
}

// A full neighbourhood loses its first entry: that stack walks the tree once more and finds its old id.
void SiteTable::publish(std::uint64_t hash, KnownSite site) {
  Slot* chosen = &slots_[hash & (kSlots - 1)];
  for (std::size_t i = 0; i < kProbes; ++i) {
    Slot& slot = slots_[(hash + i) & (kSlots - 1)];
    const std::uint64_t found = slot.hash.load(std::memory_order_relaxed);
    if (found != 0 && found != hash) continue;
    chosen = &slot;
    break;
  }
  chosen->site.store(0, std::memory_order_release);
  chosen->hash.store(hash, std::memory_order_release);
  chosen->site.store(static_cast<std::uint64_t>(site.bits) << 32 | site.id, std::memory_order_release);
}

std::size_t SiteTable::bucket_of(const Key& key) {
  const std::uint64_t mixed = fold(key.offset ^ 0xa0761d6478bd642fu,
                                   (static_cast<std::uint64_t>(key.parent) << 32 | key.module) ^ 0xe7037ed1a0b428dbu);
  return static_cast<std::size_t>(mixed) & (kBuckets - 1);
}

SiteTable::Node* SiteTable::find_child(const Key& key) const {
  if (buckets_ == nullptr) return nullptr;
  for (Node* node = buckets_[bucket_of(key)]; node != nullptr; node = node->next)
    if (node->key == key) return node;
  return nullptr;
}

bool SiteTable::can_add() {
  if (next_id_ > kMaxNodes) return false;
  if (buckets_ == nullptr) buckets_ = arena_.allocate_array<Node*>(kBuckets);
  if (buckets_ == nullptr) return false;
  if (spare_ == nullptr) spare_ = arena_.allocate_array<Node>(1);
  return spare_ != nullptr;
}

SiteTable::Node* SiteTable::add(const Key& key, std::uint32_t bits) {
  Node* const node = spare_;
  spare_ = nullptr;
  Node*& bucket = buckets_[bucket_of(key)];
  *node = Node{key, next_id_++, bits, bucket};
  bucket = node;
  return node;
}

bool SiteTable::reset() {
  // Fresh pages; the old ones stay, since a thread of an earlier run may still look into them.
  slots_ = static_cast<Slot*>(map_pages(kSlots * sizeof(Slot)));
  buckets_ = nullptr;
  spare_ = nullptr;
  arena_.reset();
  next_id_ = 1;
  return slots_ != nullptr;
}

}  // namespace cuheap
