// PoolLock: the lock of one device's tables, for a few dozen instructions at a time and never across a driver call. Its
// guard always holds it: half-done bookkeeping would be worse than waiting. Rank: devices before contexts; nothing else is
// taken under either.
#pragma once
#include "tracer/base/spin_lock.h"

namespace cuheap {

class PoolLock {
 public:
  void lock() {
    while (!lock_.lock()) {
    }
  }
  void unlock() { lock_.unlock(); }
  /// In a fork child only: the holder does not exist there.
  void reset() { lock_.reset(); }

 private:
  SpinLock lock_;
};

class PoolGuard {
 public:
  explicit PoolGuard(PoolLock& lock) : lock_(lock) { lock_.lock(); }
  ~PoolGuard() { lock_.unlock(); }
  PoolGuard(const PoolGuard&) = delete;
  PoolGuard& operator=(const PoolGuard&) = delete;

 private:
  PoolLock& lock_;
};

}  // namespace cuheap
