// WriterTable: one writer for each thread that records, kept outside of the thread, so that a chunk outlives its thread: a
// new thread goes on where a dead one stopped. Between the recorder, which asks for the caller's writer, and TraceWriter.
//
// Nothing here runs when a thread ends: thread-exit handlers allocate, run in the host's order, and a thread may record
// after them. Instead a new thread asks the kernel whether the owner of a writer is gone, for a few of them.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/trace_writer.h"

namespace cuheap {

struct alignas(64) ThreadWriter {
  std::atomic<std::uint64_t> owner{0};  // generation << 32 | thread id; thread 0: nobody's
  std::atomic<std::uint32_t> run{0};    // of the recorder; the chunk of an earlier one is not to be touched
  TraceWriter writer;
};

class WriterTable {
 public:
  static constexpr std::size_t kPerBlock = 4096;  // living threads at a time; the helper adds the next block ahead
  static constexpr std::size_t kMaxBlocks = 16;

  /// A writer for a thread that has none, its first event at `first_ns`: where possible with the chunk of a thread that is
  /// gone, otherwise without one. Null: there are more living threads than the table has writers.
  [[nodiscard]] ThreadWriter* take(std::uint32_t thread, std::uint64_t first_ns, std::uint32_t run);

  // Helper (or start, before there is one).

  /// Makes room ahead of new threads. False: the system has no memory.
  [[nodiscard]] bool grow();
  /// Closes the chunks of threads that are gone, but for `kept` of them that new threads may go on with.
  void close_dead(std::size_t kept, std::uint32_t run);
  /// Writers ever given out, for tests.
  std::size_t size() const { return count_.load(std::memory_order_acquire); }

 private:
  ThreadWriter& at(std::uint32_t index) {
    return blocks_[index / kPerBlock].load(std::memory_order_acquire)[index % kPerBlock];
  }
  [[nodiscard]] ThreadWriter* take_left(std::uint32_t thread);
  [[nodiscard]] ThreadWriter* take_new(std::uint32_t thread);

  std::atomic<ThreadWriter*> blocks_[kMaxBlocks] = {};
  std::atomic<std::uint32_t> room_{0};    // in the blocks
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> cursor_{0};  // where a writer was free the last time: short threads share few chunks
};

}  // namespace cuheap
