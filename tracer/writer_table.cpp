#include "tracer/writer_table.h"

#include "tracer/base/arena.h"
#include "tracer/base/keep_errno.h"
#include "tracer/base/process.h"

namespace cuheap {
namespace {

constexpr std::uint32_t kProbes = 8;               // at 0.2 us, once a thread
constexpr std::uint32_t kBeingClosed = 0xffffffff;  // instead of a thread: the helper is at it

std::uint32_t thread_of(std::uint64_t owner) { return static_cast<std::uint32_t>(owner); }

/// With another generation each time: a thread id that comes again must not look like the owner that was judged.
std::uint64_t next_owner(std::uint64_t owner, std::uint32_t thread) { return ((owner >> 32) + 1) << 32 | thread; }

bool is_left(std::uint64_t owner) {
  const std::uint32_t thread = thread_of(owner);
  return thread == 0 || (thread != kBeingClosed && process::is_thread_gone(thread));
}

bool claim(ThreadWriter& writer, std::uint64_t owner, std::uint32_t thread) {
  return writer.owner.compare_exchange_strong(owner, next_owner(owner, thread), std::memory_order_acq_rel, std::memory_order_relaxed);
}

}  // namespace

ThreadWriter* WriterTable::take(std::uint32_t thread, std::uint64_t first_ns, std::uint32_t run) {
  const KeepErrno keep;
  ThreadWriter* mine = take_left(thread);
  if (mine == nullptr) mine = take_new(thread);
  if (mine == nullptr) return nullptr;
  if (mine->run.load(std::memory_order_relaxed) == run) mine->writer.pass_to(thread, first_ns);
  else mine->writer.forget();
  mine->run.store(run, std::memory_order_relaxed);
  return mine;
}

ThreadWriter* WriterTable::take_left(std::uint32_t thread) {
  const std::uint32_t count = count_.load(std::memory_order_acquire);
  std::uint32_t index = cursor_.load(std::memory_order_relaxed);
  for (std::uint32_t probe = 0; probe < kProbes && probe < count; ++probe, ++index) {
    if (index >= count) index = 0;
    ThreadWriter& writer = at(index);
    const std::uint64_t owner = writer.owner.load(std::memory_order_acquire);
    if (!is_left(owner) || !claim(writer, owner, thread)) continue;
    cursor_.store(index, std::memory_order_relaxed);
    return &writer;
  }
  cursor_.store(index, std::memory_order_relaxed);
  return nullptr;
}

ThreadWriter* WriterTable::take_new(std::uint32_t thread) {
  std::uint32_t count = count_.load(std::memory_order_relaxed);
  while (count < room_.load(std::memory_order_acquire)) {
    if (!count_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel, std::memory_order_relaxed)) continue;
    // Anybody may take it from the moment it is counted.
    if (claim(at(count), 0, thread)) return &at(count);
  }
  return nullptr;
}

bool WriterTable::grow() {
  const std::uint32_t room = room_.load(std::memory_order_relaxed);
  if (count_.load(std::memory_order_relaxed) + kPerBlock / 2 < room || room == kMaxBlocks * kPerBlock) return true;
  void* const pages = map_pages(kPerBlock * sizeof(ThreadWriter));  // zero bytes are writers of nobody
  if (pages == nullptr) return false;
  blocks_[room / kPerBlock].store(static_cast<ThreadWriter*>(pages), std::memory_order_release);
  room_.store(room + kPerBlock, std::memory_order_release);
  return true;
}

void WriterTable::close_dead(std::size_t kept, std::uint32_t run) {
  const std::uint32_t count = count_.load(std::memory_order_acquire);
  for (std::uint32_t index = 0; index < count; ++index) {
    ThreadWriter& writer = at(index);
    const std::uint64_t owner = writer.owner.load(std::memory_order_acquire);
    if (thread_of(owner) == 0 || !is_left(owner)) continue;
    if (kept != 0) {
      --kept;
      continue;
    }
    if (!claim(writer, owner, kBeingClosed)) continue;
    if (writer.run.load(std::memory_order_relaxed) == run) writer.writer.close();
    else writer.writer.forget();
    writer.owner.store(next_owner(next_owner(owner, 0), 0), std::memory_order_release);
  }
}

}  // namespace cuheap
