#include "simgpu/stream.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <thread>

namespace cuheap::sim {

std::atomic<uint64_t> default_delay_ns{0};

namespace {

std::atomic<uint64_t> next_stream_id{3};  // 1 and 2 are the special handles
// CUDA_ERROR_ILLEGAL_ADDRESS and CUDA_ERROR_LAUNCH_FAILED: what a faulting access leaves in its context.
constexpr int kIllegalAddress = 700;
constexpr int kLaunchFailed = 719;
constexpr size_t kThreadStackBytes = size_t{2} << 20;

void sleep_ns(uint64_t ns) {
  timespec time{static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)};
  while (::nanosleep(&time, &time) != 0) {
  }
}

}  // namespace

uint64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

bool Mark::is_reached() const { return stream == nullptr || stream->completed() >= sequence; }

Stream::Stream(int device_index, bool is_non_blocking, int stream_priority, std::shared_ptr<ErrorState> errors)
    : device(device_index), non_blocking(is_non_blocking), priority(stream_priority), id(next_stream_id++),
      errors_(std::move(errors)) {}

bool Stream::prepare(Work& work, uint64_t& sequence) {
  work.after.erase(std::remove_if(work.after.begin(), work.after.end(), [](const Mark& m) { return m.is_reached(); }),
                   work.after.end());
  std::lock_guard guard(lock_);
  sequence = submitted_.load(std::memory_order_relaxed) + 1;
  const bool idle = completed_.load() == sequence - 1;
  submitted_.store(sequence);
  const bool no_delay = delay_ns.load(std::memory_order_relaxed) == 0 && default_delay_ns.load(std::memory_order_relaxed) == 0;
  if (idle && no_delay && !held_ && work.may_run_inline && work.after.empty()) return true;
  // Without a thread (the process has no more to give) the caller does the work in its turn.
  if (!thread_runs_ && !start_thread()) return true;
  queue_.push_back({std::move(work), sequence});
  work_ready_.notify_one();
  return false;
}

void Stream::run_inline(Work& work, uint64_t sequence) {
  wait(sequence - 1);
  for (const Mark& mark : work.after) mark.stream->wait(mark.sequence);
  execute(work, sequence);
}

void Stream::execute(Work& work, uint64_t sequence) {
  if (errors_->sticky.load() == 0) {
    virtual_ns_.store(std::max(virtual_ns_.load(), now_ns()) + work.cost_ns);
    const Io result = work.run ? work.run(*this) : Io::Ok;
    int none = 0;
    if (result != Io::Ok) errors_->sticky.compare_exchange_strong(none, result == Io::Fault ? kIllegalAddress : kLaunchFailed);
  }
  std::lock_guard guard(lock_);
  completed_.store(sequence);
  if (waiters_ > 0) work_done_.notify_all();
}

void Stream::wait(uint64_t sequence) {
  if (completed_.load() >= sequence) return;
  std::unique_lock guard(lock_);
  ++waiters_;
  work_done_.wait(guard, [&] { return completed_.load() >= sequence; });
  --waiters_;
}

void Stream::close() {
  std::lock_guard guard(lock_);
  closing_ = true;
  closed_.store(true);
  work_ready_.notify_all();
}

void Stream::hold(bool held) {
  std::lock_guard guard(lock_);
  held_ = held;
  work_ready_.notify_all();
}

bool Stream::start_thread() {
  // Hosts expect signals on their own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kThreadStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  auto* self = new std::shared_ptr<Stream>(shared_from_this());
  pthread_t thread;
  const auto body = [](void* argument) -> void* {
    auto* stream = static_cast<std::shared_ptr<Stream>*>(argument);
    (*stream)->loop();
    delete stream;
    return nullptr;
  };
  thread_runs_ = pthread_create(&thread, &attributes, body, self) == 0;
  if (thread_runs_) pthread_setname_np(thread, "simgpu-stream");
  else delete self;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread_runs_;
}

void Stream::loop() {
  std::unique_lock guard(lock_);
  for (;;) {
    work_ready_.wait(guard, [&] { return (!queue_.empty() && !held_) || (queue_.empty() && closing_); });
    if (queue_.empty()) {
      thread_runs_ = false;
      return;
    }
    Queued next = std::move(queue_.front());
    queue_.pop_front();
    // Work of a caller that runs inline on this stream may still be going on.
    ++waiters_;
    work_done_.wait(guard, [&] { return completed_.load() == next.sequence - 1; });
    --waiters_;
    guard.unlock();
    for (const Mark& mark : next.work.after) mark.stream->wait(mark.sequence);
    if (const uint64_t delay = std::max(delay_ns.load(), default_delay_ns.load()); delay > 0) sleep_ns(delay);
    execute(next.work, next.sequence);
    next.work = {};
    guard.lock();
  }
}

}  // namespace cuheap::sim
