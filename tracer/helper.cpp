#include "tracer/helper.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tracer/base/arena.h"
#include "tracer/base/hook_scope.h"
#include "tracer/base/process.h"

namespace cuheap {
namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kShortestNapNs = 1 * kMillisecond;
constexpr std::uint64_t kLongestNapNs = 50 * kMillisecond;  // 16 MiB in 50 ms: 32 million events a second
constexpr std::uint64_t kSweepPeriodNs = 200 * kMillisecond;
constexpr std::size_t kReleasesAtOnce = 16;  // only while the stock is full
constexpr std::size_t kFirstTarget = 2 * ChunkFile::kLowStock;  // 16 MiB: 1.6 million events of 10 bytes
constexpr std::size_t kLargestTarget = 1024;  // 64 MiB
constexpr std::size_t kStackBytes = 256 * 1024;
constexpr std::size_t kPageBytes = 4096;

std::uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

void nap(std::uint64_t ns) {
  const timespec time{0, static_cast<long>(ns)};
  syscall(SYS_nanosleep, &time, nullptr);
}

// A stack of its own makes the thread independent of the host's limits for stacks and for locked memory. Its lowest page
// guards it. It is never unmapped: who could, when the thread is done with it?
void* make_stack() {
  void* const stack = map_pages(kStackBytes);
  if (stack != nullptr) mprotect(stack, kPageBytes, PROT_NONE);
  return stack;
}

int create_detached(void* (*main)(void*), void* argument, void* stack) {
  pthread_attr_t attributes;
  if (const int error = pthread_attr_init(&attributes); error != 0) return error;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (stack != nullptr) pthread_attr_setstack(&attributes, stack, kStackBytes);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, main, argument);
  pthread_attr_destroy(&attributes);
  return error;
}

}  // namespace

int start_thread(void* (*main)(void*), void* argument) {
  // Blocked here, so that the new thread starts with them blocked: the host's signals go to the host's threads.
  // Not SIGSYS: a sandbox that sends it for a system call ends the process if it is blocked, instead of calling the host's handler.
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGSYS);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  void* const stack = make_stack();
  int error = create_detached(main, argument, stack);
  // A host with much thread-local storage needs more than that.
  if (error != 0 && stack != nullptr) {
    unmap_pages(stack, kStackBytes);
    error = create_detached(main, argument, nullptr);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

int Helper::start(ChunkFile& file) {
  file_ = &file;
  stopping_.store(0, std::memory_order_relaxed);
  running_.store(true, std::memory_order_release);
  const int error = start_thread(&thread_main, this);
  if (error != 0) running_.store(false, std::memory_order_release);
  return error;
}

bool Helper::stop() {
  stopping_.store(1, std::memory_order_release);
  end_nap();
  for (int i = 0; i < 1000 && is_running(); ++i) nap(kMillisecond);
  return !is_running();
}

void Helper::forget() {
  running_.store(false, std::memory_order_relaxed);
  stopping_.store(1, std::memory_order_relaxed);
}

bool Helper::add_task(void (*task)(), std::uint64_t period_ns) {
  const std::size_t slot = task_count_.fetch_add(1, std::memory_order_relaxed);
  if (slot >= kMaxTasks) return false;
  tasks_[slot].period_ns = period_ns;
  tasks_[slot].next_ns = 0;
  tasks_[slot].call.store(task, std::memory_order_release);
  return true;
}

void* Helper::thread_main(void* self) {
  prctl(PR_SET_NAME, "cuheap", 0, 0, 0);
  static_cast<Helper*>(self)->run();
  return nullptr;
}

void Helper::run() {
  const HookScope scope;  // whatever we call here must not be recorded as the host's doing
  std::size_t target = kFirstTarget;
  bool was_full = false;
  std::uint64_t nap_ns = kShortestNapNs;
  std::uint64_t next_sweep = monotonic_ns() + kSweepPeriodNs;
  while (!is_stopping() && process::is_owner()) {
    const std::size_t left = file_->stock_size();
    if (was_full && left < target / 2 && target < kLargestTarget) target *= 2;  // they are faster than one nap
    const std::size_t added = fill_stock(target);
    was_full = was_full || file_->stock_size() >= target;
    const std::uint64_t now = monotonic_ns();
    if (now >= next_sweep) {
      file_->sweep(added == 0 ? kReleasesAtOnce : 0);
      next_sweep = now + kSweepPeriodNs;
    }
    run_tasks(now);
    nap_ns = added != 0 ? kShortestNapNs : nap_ns * 2 < kLongestNapNs ? nap_ns * 2 : kLongestNapNs;
    sleep(nap_ns);
  }
  running_.store(false, std::memory_order_release);
}

// Extent by extent: an end that comes meanwhile waits for one only.
std::size_t Helper::fill_stock(std::size_t target) {
  std::size_t added = 0, before = 1;
  while (added != before && !is_stopping()) {
    before = added;
    const std::size_t next = file_->stock_size() + 1;
    added += file_->fill_stock(next < target ? next : target);
  }
  return added;
}

void Helper::sleep(std::uint64_t ns) {
  const std::uint32_t wakes = wakes_.load(std::memory_order_acquire);  // before the nap is announced
  napping_.store(true, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // with wake()
  const timespec time{0, static_cast<long>(ns)};
  // What came in before the nap was announced is looked at here; what comes after ends it.
  if (!file_->is_low() && !is_stopping()) syscall(SYS_futex, &wakes_, FUTEX_WAIT_PRIVATE, wakes, &time, nullptr, 0);
  else if (!is_stopping()) nap(kShortestNapNs);
  napping_.store(false, std::memory_order_relaxed);
}

void Helper::end_nap() {
  wakes_.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &wakes_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Helper::run_tasks(std::uint64_t now) {
  for (Task& task : tasks_) {
    void (*const call)() = task.call.load(std::memory_order_acquire);
    if (call == nullptr || now < task.next_ns) continue;
    task.next_ns = now + task.period_ns;
    call();
  }
}

}  // namespace cuheap
