// The questions a guest must ask about its process: whose memory is this (a fork child has a copy of ours), which thread,
// is the process on its way out.
#pragma once
#include <atomic>
#include <cstdint>

namespace cuheap::process {

namespace detail {
// A word in a page of its own that the kernel clears in a fork child (MADV_WIPEONFORK), so that a child that skipped our
// fork handler finds out by one load. Points at a zero until claim().
extern constinit const std::atomic<std::uint32_t>* ownership_word;
extern constinit bool ask_for_pid;  // the kernel cannot wipe: compare pids instead
bool is_owner_by_pid();
}  // namespace detail

/// Makes this process the owner of what we keep in memory. Idempotent; false: no memory for the page.
[[nodiscard]] bool claim();
/// In a fork child, or when all is over.
void disown();
/// Does this process own what we keep in memory? Read at every event.
inline bool is_owner() {
  if (detail::ask_for_pid) [[unlikely]] return detail::is_owner_by_pid();
  return detail::ownership_word->load(std::memory_order_relaxed) != 0;
}

std::uint32_t pid();
std::uint32_t parent_pid();
/// Kernel thread id of the caller; one system call a thread.
std::uint32_t thread_id();
/// True only if that thread of this process can never run again. Where the question is not allowed: false.
bool is_thread_gone(std::uint32_t thread);

/// Set by the lifecycle once exit has begun: from then on no driver call of ours.
void set_exiting();
bool is_exiting();

}  // namespace cuheap::process
