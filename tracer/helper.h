// Helper: our one thread in the host. It prepares chunks ahead of the threads and tidies up behind them; it never touches
// records. Named "cuheap", all signals but SIGSYS blocked, detached.
#pragma once
#include <atomic>
#include <cstdint>

#include "tracer/chunks.h"

namespace cuheap {

/// A thread of ours: detached, all signals but SIGSYS blocked, on a stack of its own that is never given back. 0 or errno.
[[nodiscard]] int start_thread(void* (*main)(void*), void* argument);

class Helper {
 public:
  /// 0 or errno. `file` outlives the helper.
  [[nodiscard]] int start(ChunkFile& file);
  /// Asks it to end and waits, at most about a second; false: still running.
  bool stop();
  /// Any thread that finds the stock low: ends the helper's nap. One system call a nap at most, and it does not block.
  void wake() {
    // With Helper::sleep, which announces its nap and then looks at the stock: one of the two sees what the other has done.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (napping_.load(std::memory_order_relaxed) && napping_.exchange(false, std::memory_order_relaxed)) end_nap();
  }
  bool is_running() const { return running_.load(std::memory_order_acquire); }
  /// In a fork child: there is no helper.
  void forget();

  /// Called about every `period_ns` by the helper, outside every lock, until it stops. `task` must return soon: no chunk is
  /// prepared meanwhile. False: no slot left. May be called before or after start.
  [[nodiscard]] bool add_task(void (*task)(), std::uint64_t period_ns);

 private:
  static void* thread_main(void* self);
  void run();
  void run_tasks(std::uint64_t now);
  std::size_t fill_stock(std::size_t target);
  void sleep(std::uint64_t ns);
  void end_nap();
  bool is_stopping() const { return stopping_.load(std::memory_order_acquire) != 0; }

  struct Task {
    std::atomic<void (*)()> call{nullptr};
    std::uint64_t period_ns = 0;
    std::uint64_t next_ns = 0;
  };
  static constexpr std::size_t kMaxTasks = 8;

  ChunkFile* file_ = nullptr;
  std::atomic<std::uint32_t> stopping_{0};
  std::atomic<std::uint32_t> wakes_{0};  // the helper sleeps on it, so that an end is not waited for
  std::atomic<bool> napping_{false};
  std::atomic<bool> running_{false};
  std::atomic<std::size_t> task_count_{0};
  Task tasks_[kMaxTasks];
};

}  // namespace cuheap
