#include "tracer/base/process.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "tracer/base/arena.h"
#include "tracer/base/keep_errno.h"

namespace cuheap::process {
namespace {

constexpr std::size_t kPageBytes = 4096;

constinit const std::atomic<std::uint32_t> nobody{0};
constinit std::atomic<std::uint32_t>* own_page = nullptr;
constinit std::uint32_t owner_pid = 0;
constinit std::atomic<bool> exiting{false};

struct CachedThread {
  std::uint32_t id;
  std::uint32_t pid;
};
constinit thread_local CachedThread cached_thread __attribute__((tls_model("initial-exec"))) = {0, 0};

// The clock of a thread of this process (the encoding is the kernel's own: clock_getcpuclockid) is there as long as the
// thread. Signal 0 would ask the same, but a sandbox may end a process for sending one.
bool has_clock(std::uint32_t thread) {
  constexpr clockid_t kOfAThread = 4, kSchedulerTime = 2;
  timespec time;
  return clock_gettime(static_cast<clockid_t>(~thread << 3) | kOfAThread | kSchedulerTime, &time) == 0 || errno != EINVAL;
}

}  // namespace

namespace detail {

constinit const std::atomic<std::uint32_t>* ownership_word = &nobody;
constinit bool ask_for_pid = false;

bool is_owner_by_pid() { return owner_pid == pid(); }

}  // namespace detail

bool claim() {
  const KeepErrno keep;
  if (own_page == nullptr) {
    void* const page = map_pages(kPageBytes);
    if (page == nullptr) return false;
    own_page = static_cast<std::atomic<std::uint32_t>*>(page);
    detail::ask_for_pid = madvise(page, kPageBytes, MADV_WIPEONFORK) != 0;
  }
  owner_pid = pid();
  own_page->store(1, std::memory_order_relaxed);
  detail::ownership_word = own_page;
  return true;
}

void disown() {
  owner_pid = 0;
  if (own_page != nullptr) own_page->store(0, std::memory_order_relaxed);
}

std::uint32_t pid() { return static_cast<std::uint32_t>(syscall(SYS_getpid)); }
std::uint32_t parent_pid() { return static_cast<std::uint32_t>(syscall(SYS_getppid)); }

std::uint32_t thread_id() {
  // A fork child inherits the thread's memory but not its id; only an owner may trust the cached one.
  if (cached_thread.id != 0 && cached_thread.pid == owner_pid && is_owner()) return cached_thread.id;
  cached_thread.id = static_cast<std::uint32_t>(syscall(SYS_gettid));
  cached_thread.pid = owner_pid;
  return cached_thread.id;
}

// Our own clock last: once it is refused the answer before means nothing, and what a sandbox refuses it refuses for good.
bool is_thread_gone(std::uint32_t thread) {
  const KeepErrno keep;
  return !has_clock(thread) && has_clock(static_cast<std::uint32_t>(syscall(SYS_gettid)));
}

void set_exiting() { exiting.store(true, std::memory_order_relaxed); }
bool is_exiting() { return exiting.load(std::memory_order_relaxed); }

}  // namespace cuheap::process
