// AddressMap: from a non-zero 64-bit address or handle to a small plain value. Open addressing in pages of its own. Growth
// is spread: each change moves a few entries to the larger table, so no call ever pays for all of them. Not locked.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "tracer/base/arena.h"

namespace cuheap {

template <typename T>
class AddressMap {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// The value at `address`, or null. Valid until the next change.
  [[nodiscard]] T* find(std::uint64_t address) {
    if (Slot* const slot = find_in(now_, address)) return &slot->value;
    Slot* const slot = find_in(old_, address);
    return slot != nullptr ? &slot->value : nullptr;
  }

  /// Puts or replaces. Null: no memory, nothing changed; the caller counts the loss.
  [[nodiscard]] T* insert(std::uint64_t address, const T& value) {
    if (T* const present = find(address)) {
      *present = value;
      return present;
    }
    if (!make_room()) return nullptr;
    Slot* const slot = place(now_, address);
    slot->value = value;
    ++size_;
    return &slot->value;
  }

  /// Takes the value out; false if there is none.
  bool erase(std::uint64_t address, T* value = nullptr) {
    Table* table = &now_;
    Slot* slot = find_in(now_, address);
    if (slot == nullptr) {
      table = &old_;
      slot = find_in(old_, address);
    }
    if (slot == nullptr) return false;
    if (value != nullptr) *value = slot->value;
    close_gap(*table, slot);
    --size_;
    move_some();
    return true;
  }

  std::size_t size() const { return size_; }

  /// Calls visit(address, value) for all entries; no change meanwhile.
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (Table* table : {&now_, &old_})
      for (std::size_t i = 0; i < table->capacity; ++i)
        if (table->slots[i].address != 0) visit(table->slots[i].address, table->slots[i].value);
  }

  void reset() {
    release(now_);
    release(old_);
    size_ = moved_ = 0;
  }

 private:
  struct Slot {
    std::uint64_t address;  // 0: free
    T value;
  };
  struct Table {
    Slot* slots = nullptr;
    std::size_t capacity = 0;  // a power of two
    std::size_t used = 0;
  };
  static constexpr std::size_t kFirstCapacity = 1024;
  static constexpr std::size_t kMovesPerChange = 8;  // > 2 * capacity / (capacity / 2): done long before the next growth

  static std::size_t home(const Table& table, std::uint64_t address) {
    const std::uint64_t mixed = (address ^ (address >> 32)) * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>(mixed >> 20) & (table.capacity - 1);
  }

  static Slot* find_in(const Table& table, std::uint64_t address) {
    if (table.used == 0 || address == 0) return nullptr;  // 0 is what a free slot holds
    // used <= capacity / 2, so a free slot ends every search.
    for (std::size_t i = home(table, address);; i = (i + 1) & (table.capacity - 1)) {
      if (table.slots[i].address == address) return &table.slots[i];
      if (table.slots[i].address == 0) return nullptr;
    }
  }

  static Slot* place(Table& table, std::uint64_t address) {
    std::size_t i = home(table, address);
    while (table.slots[i].address != 0) i = (i + 1) & (table.capacity - 1);
    table.slots[i].address = address;
    ++table.used;
    return &table.slots[i];
  }

  // Backward shift: no tombstones, so probes stay short whatever the churn.
  static void close_gap(Table& table, Slot* gap) {
    std::size_t hole = static_cast<std::size_t>(gap - table.slots);
    for (std::size_t i = (hole + 1) & (table.capacity - 1); table.slots[i].address != 0; i = (i + 1) & (table.capacity - 1)) {
      const std::size_t wanted = home(table, table.slots[i].address);
      const bool stays = hole <= i ? (hole < wanted && wanted <= i) : (hole < wanted || wanted <= i);
      if (stays) continue;
      table.slots[hole] = table.slots[i];
      hole = i;
    }
    table.slots[hole].address = 0;
    --table.used;
  }

  bool make_room() {
    move_some();
    if ((now_.used + 1) * 2 <= now_.capacity) return true;
    while (old_.capacity != 0) move_some();  // only if the growth before is not through yet
    Table larger;
    larger.capacity = now_.capacity != 0 ? now_.capacity * 2 : kFirstCapacity;
    larger.slots = static_cast<Slot*>(map_pages(larger.capacity * sizeof(Slot)));
    if (larger.slots == nullptr) return false;
    old_ = now_;
    now_ = larger;
    moved_ = 0;
    return true;
  }

  // Moves the next few entries. close_gap may refill the slot, so it is looked at again; it never fills one already passed,
  // because the wrapped entries at the low end went first.
  void move_some() {
    for (std::size_t steps = 0; steps < kMovesPerChange && old_.capacity != 0; ++steps) {
      if (old_.used == 0 || moved_ == old_.capacity) {
        release(old_);
        return;
      }
      Slot* const slot = &old_.slots[moved_];
      if (slot->address == 0) {
        ++moved_;
        continue;
      }
      const Slot entry = *slot;
      close_gap(old_, slot);
      place(now_, entry.address)->value = entry.value;
    }
  }

  static void release(Table& table) {
    if (table.slots != nullptr) unmap_pages(table.slots, table.capacity * sizeof(Slot));
    table = Table{};
  }

  Table now_, old_;
  std::size_t moved_ = 0;  // slots of old_ below this are empty
  std::size_t size_ = 0;
};

}  // namespace cuheap
