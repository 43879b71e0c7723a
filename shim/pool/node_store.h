// NodeStore<T>: fixed-size records that live on pages of their own, for the pool's tables. A freed record is reused, a page
// is never given back; references stay good for ever. Not synchronised: the owner's lock is the store's.
#pragma once
#include <cstddef>
#include <new>
#include <type_traits>

#include "tracer/base/arena.h"

namespace cuheap {

template <class T>
class NodeStore {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  /// A fresh T, or null when the kernel gives no page.
  [[nodiscard]] T* make() {
    if (free_ == nullptr && !grow()) return nullptr;
    Slot* slot = free_;
    free_ = slot->next;
    --spare_;
    return new (slot) T{};
  }

  void drop(T* node) {
    Slot* slot = new (static_cast<void*>(node)) Slot;
    slot->next = free_;
    free_ = slot;
    ++spare_;
  }

  /// Makes sure that the next `count` calls of make() succeed. Asked before a driver call whose undoing must not fail.
  [[nodiscard]] bool prepare(std::size_t count) {
    while (spare_ < count) {
      if (!grow()) return false;
    }
    return true;
  }

 private:
  union Slot {
    Slot* next;
    alignas(T) std::byte bytes[sizeof(T)];
  };
  static constexpr std::size_t kPageBytes = std::size_t{256} << 10;

  bool grow() {
    void* page = map_pages(kPageBytes);
    if (page == nullptr) return false;
    // Linked back to front, so that records are handed out in rising addresses.
    Slot* slots = static_cast<Slot*>(page);
    for (std::size_t i = kPageBytes / sizeof(Slot); i-- > 0;) {
      slots[i].next = free_;
      free_ = &slots[i];
      ++spare_;
    }
    return true;
  }

  Slot* free_ = nullptr;
  std::size_t spare_ = 0;
};

/// Zeroed memory for a table of `count` records of T, touched only where it is used; null when the kernel gives none.
template <class T>
[[nodiscard]] T* map_table(std::size_t count) {
  return static_cast<T*>(map_pages(count * sizeof(T)));
}

template <class T>
void unmap_table(T* table, std::size_t count) {
  unmap_pages(table, count * sizeof(T));
}

}  // namespace cuheap
