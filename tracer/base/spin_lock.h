// SpinLock: a lock for hooks. It spins, then yields, then naps, and gives up after about a second: a lock that some dead
// or starved thread holds costs a counted loss, never the host. A fork child may reset it.
#pragma once
#include <atomic>
#include <cstdint>

namespace cuheap {

class SpinLock {
 public:
  [[nodiscard]] bool try_lock() {
    return !locked_.load(std::memory_order_relaxed) && !locked_.exchange(true, std::memory_order_acquire);
  }
  /// False: not had within about a second.
  [[nodiscard]] bool lock() { return try_lock() || lock_slowly(); }
  void unlock() { locked_.store(false, std::memory_order_release); }
  /// In a fork child only: the holder does not exist there.
  void reset() { locked_.store(false, std::memory_order_relaxed); }

 private:
  bool lock_slowly();

  std::atomic<bool> locked_{false};
};

/// Holds a lock for a block, if it could be had: test it.
class SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) : lock_(lock), held_(lock.lock()) {}
  ~SpinGuard() {
    if (held_) lock_.unlock();
  }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;
  explicit operator bool() const { return held_; }

 private:
  SpinLock& lock_;
  bool held_;
};

}  // namespace cuheap
