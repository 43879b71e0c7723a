#include "tracer/base/spin_lock.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tracer/base/keep_errno.h"

namespace cuheap {
namespace {

constexpr int kSpins = 128;
constexpr int kYields = 64;
constexpr int kNaps = 5'000;
constexpr long kNapNs = 100'000;

void pause_a_moment() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

bool SpinLock::lock_slowly() {
  for (int i = 0; i < kSpins; ++i) {
    if (try_lock()) return true;
    pause_a_moment();
  }
  const KeepErrno keep;
  for (int i = 0; i < kYields; ++i) {
    if (try_lock()) return true;
    sched_yield();
  }
  // A raw call: nanosleep() of libc is a cancellation point. Naps, because a real-time thread that only yields may starve
  // the holder for ever.
  for (int i = 0; i < kNaps; ++i) {
    if (try_lock()) return true;
    const timespec nap{0, kNapNs};
    syscall(SYS_nanosleep, &nap, nullptr);
  }
  return false;
}

}  // namespace cuheap
