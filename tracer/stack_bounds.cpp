#include "tracer/stack_bounds.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tracer/base/keep_errno.h"

namespace cuheap {
namespace {

constexpr std::uintptr_t kPageBytes = 4096;
constexpr std::uintptr_t kLargestStack = std::uintptr_t{1} << 30;
constexpr std::uintptr_t kForeignStackReach = 256 * 1024;

constinit std::uintptr_t main_stack_top = 0;  // end of the [stack] mapping

// glibc puts a thread's descriptor at the upper end of its stack, also of one that the program brought.
// pthread_getattr_np would allocate, and parses the memory map.
std::uintptr_t own_stack_top(std::uintptr_t sp) {
  const bool is_main = syscall(SYS_gettid) == getpid();
  const std::uintptr_t top = is_main ? main_stack_top : static_cast<std::uintptr_t>(pthread_self());
  return sp < top && top - sp < kLargestStack ? top : 0;
}

// The kernel reads the set before it finds that there is no such `how` (EINVAL), and says so when it cannot (EFAULT); nothing
// is changed. Unlike mincore() this honours protection, and unlike process_vm_readv() every seccomp filter lets it pass.
// Any other answer is a no.
bool page_is_readable(std::uintptr_t page) {
  constexpr int kNoSuchHow = -1;
  return syscall(SYS_rt_sigprocmask, kNoSuchHow, page, nullptr, sizeof(std::uint64_t)) != 0 && errno == EINVAL;
}

// A stack that is not the thread's own: as far up as is readable, within reach. Not remembered: it may be gone tomorrow.
StackBounds foreign_stack(std::uintptr_t sp) {
  std::uintptr_t high = (sp & ~(kPageBytes - 1)) + kPageBytes;
  while (high - sp < kForeignStackReach && page_is_readable(high)) high += kPageBytes;
  return {sp, high, true};
}

// The end of the mapping called [stack], by one line of the memory map after the other.
std::uintptr_t find_main_stack_top() {
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::uintptr_t top = 0;
  char line[512], block[4096];
  std::size_t used = 0;
  for (ssize_t got; top == 0 && (got = read(file, block, sizeof(block))) > 0;) {
    for (ssize_t i = 0; i < got; ++i) {
      if (block[i] != '\n') {
        if (used + 1 < sizeof(line)) line[used++] = block[i];
        continue;
      }
      line[used] = '\0';
      used = 0;
      const char* const dash = strchr(line, '-');
      if (dash != nullptr && strstr(line, "[stack]") != nullptr) top = strtoull(dash + 1, nullptr, 16);
    }
  }
  close(file);
  return top;
}

}  // namespace

namespace detail {

constinit thread_local StackBounds own_stack = {};

StackBounds find_stack_slowly(std::uintptr_t sp) {
  const KeepErrno keep;
  StackBounds& own = own_stack;
  const bool is_known = own.high != 0;
  const std::uintptr_t top = !is_known ? own_stack_top(sp) : sp < own.high && own.high - sp < kLargestStack ? own.high : 0;
  // Down to sp everything must be readable: between ours and the stack of a fiber below it there are holes or guard pages.
  if (top == 0 || !is_readable(sp, is_known ? own.low : top)) return foreign_stack(sp);
  own = {sp, top, false};
  return own;
}

}  // namespace detail

bool is_readable(std::uintptr_t low, std::uintptr_t high) {
  const KeepErrno keep;
  if (low >= high) return false;  // wrapped around
  for (std::uintptr_t page = low & ~(kPageBytes - 1); page < high; page += kPageBytes)
    if (!page_is_readable(page)) return false;
  return true;
}

void prepare_stack_bounds() {
  const KeepErrno keep;
  if (main_stack_top == 0) main_stack_top = find_main_stack_top();
}

}  // namespace cuheap
