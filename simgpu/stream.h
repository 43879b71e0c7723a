// A queue of device work in the order of its submission, worked off by a thread of its own that starts with the first work
// that cannot be done at once. Work that costs nothing and finds its stream idle is done by the caller: same order, no wake-up.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "simgpu/memory.h"

namespace cuheap::sim {

class Stream;
class Event;
struct Capture;
struct GraphNode;

/// A point in a stream's order.
struct Mark {
  std::shared_ptr<Stream> stream;
  uint64_t sequence = 0;
  [[nodiscard]] bool is_reached() const;
};

/// What happens to a device's programs after a fault: the first error sticks (shared by a context and its streams).
struct ErrorState {
  std::atomic<int> sticky{0};
};

struct Work {
  std::function<Io(Stream&)> run;  // null: computes nothing
  bool may_run_inline = true;      // false: calls foreign code, or takes long
  uint64_t cost_ns = 0;            // on the stream's virtual clock
  std::vector<Mark> after;
};

uint64_t now_ns();

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(int device, bool non_blocking, int priority, std::shared_ptr<ErrorState> errors);

  /// Puts work at the end. True: the caller must now call run_inline with it.
  [[nodiscard]] bool prepare(Work& work, uint64_t& sequence);
  void run_inline(Work& work, uint64_t sequence);
  void wait(uint64_t sequence);
  void wait_idle() { wait(submitted_.load()); }
  /// Lets the thread end when its queue is empty.
  void close();
  void hold(bool held);

  [[nodiscard]] bool is_closed() const { return closed_.load(); }
  [[nodiscard]] bool is_idle() const { return completed_.load() == submitted_.load(); }
  [[nodiscard]] uint64_t submitted() const { return submitted_.load(); }
  [[nodiscard]] uint64_t completed() const { return completed_.load(); }
  [[nodiscard]] uint64_t virtual_time_ns() const { return virtual_ns_.load(); }

  const int device;
  const bool non_blocking;
  const int priority;
  const uint64_t id;
  unsigned flags = 0;
  uint64_t context_id = 0;
  std::atomic<uint64_t> delay_ns{0};

  // Capture state, under the capture lock (capture.h); the flag may be read without.
  std::atomic<bool> capturing{false};
  std::shared_ptr<Capture> capture;
  std::vector<GraphNode*> tail;

 private:
  struct Queued {
    Work work;
    uint64_t sequence;
  };
  /// False: no thread to be had.
  [[nodiscard]] bool start_thread();
  void loop();
  void execute(Work& work, uint64_t sequence);

  std::shared_ptr<ErrorState> errors_;
  std::mutex lock_;
  std::condition_variable work_ready_;
  std::condition_variable work_done_;
  std::deque<Queued> queue_;
  std::atomic<uint64_t> submitted_{0};
  std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> virtual_ns_{0};
  int waiters_ = 0;
  bool thread_runs_ = false;
  bool closing_ = false;
  bool held_ = false;
  std::atomic<bool> closed_{false};
};

/// The delay of streams that have none of their own; set by the control API.
extern std::atomic<uint64_t> default_delay_ns;

}  // namespace cuheap::sim
