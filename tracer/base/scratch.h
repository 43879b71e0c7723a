// ScratchPool: room for what a hook needs for the time of one call and what is too large for the host's stack: a thread of
// 16 KiB is the program's right. In static storage, because thread-local storage is cut from the thread's stack too.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cuheap {

template <typename Room, std::size_t kCount>
class ScratchPool {
 public:
  /// Null if all are in use; the caller then takes the room from its stack.
  Room* take() {
    const std::size_t home = static_cast<std::size_t>(static_cast<std::uintptr_t>(pthread_self()) * 0x9e3779b97f4a7c15u >> 40);
    for (std::size_t i = 0; i < kProbes; ++i) {
      Slot& slot = slots_[(home + i) % kCount];
      if (!slot.in_use.load(std::memory_order_relaxed) && !slot.in_use.exchange(true, std::memory_order_acquire)) return &slot.room;
    }
    return nullptr;
  }

  void give_back(Room* room) {
    auto* const bytes = reinterpret_cast<std::byte*>(room) - offsetof(Slot, room);
    reinterpret_cast<Slot*>(bytes)->in_use.store(false, std::memory_order_release);
  }

 private:
  struct alignas(64) Slot {
    Room room{};
    std::atomic<bool> in_use{false};
  };
  static constexpr std::size_t kProbes = kCount < 32 ? kCount : 32;

  Slot slots_[kCount]{};
};

/// A room for one scope. False: there was none.
template <typename Pool>
class ScratchLease {
 public:
  explicit ScratchLease(Pool& pool) : pool_(pool), room_(pool.take()) {}
  ~ScratchLease() {
    if (room_ != nullptr) pool_.give_back(room_);
  }
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;
  explicit operator bool() const { return room_ != nullptr; }
  auto* operator->() const { return room_; }

 private:
  Pool& pool_;
  decltype(pool_.take()) room_;
};

}  // namespace cuheap
