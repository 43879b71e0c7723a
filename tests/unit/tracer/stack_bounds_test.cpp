#include "tracer/stack_bounds.h"

#include <alloca.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace cuheap {
namespace {

std::uintptr_t here() { return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)); }

// What the C library says, at its price.
StackBounds bounds_by_libc() {
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t bytes = 0;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &bytes);
  pthread_attr_destroy(&attributes);
  return {reinterpret_cast<std::uintptr_t>(low), reinterpret_cast<std::uintptr_t>(low) + bytes, false};
}

void expect_inside_of_libcs() {
  const StackBounds bounds = find_stack(here());
  const StackBounds libc = bounds_by_libc();
  EXPECT_EQ(bounds.low, here());
  EXPECT_GE(bounds.low, libc.low);
  EXPECT_NEAR(static_cast<double>(bounds.high), static_cast<double>(libc.high), 64 * 1024);  // thread-local storage, arguments
  EXPECT_TRUE(is_readable(bounds.low, bounds.high));
}

TEST(StackBounds, AgreeWithTheCLibraryOnTheMainThread) {
  prepare_stack_bounds();
  expect_inside_of_libcs();
}

TEST(StackBounds, AgreeWithTheCLibraryOnOtherThreads) { std::thread(expect_inside_of_libcs).join(); }

[[gnu::noinline]] void deeper(int levels) {
  volatile char room[16 * 1024];
  room[0] = 1;
  const StackBounds bounds = find_stack(here());
  ASSERT_EQ(bounds.low, here());
  ASSERT_TRUE(is_readable(bounds.low, bounds.high));
  if (levels != 0) deeper(levels - 1);
  asm volatile("" ::"r"(&room) : "memory");
}

TEST(StackBounds, GrowWithTheStack) {
  deeper(100);
  std::thread([] { deeper(100); }).join();
}

TEST(StackBounds, OfAForeignStackEndWhereMemoryEnds) {
  constexpr std::size_t kBytes = 32 * 1024;
  auto* const pages = static_cast<char*>(mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  munmap(pages + kBytes, kBytes);
  const auto sp = reinterpret_cast<std::uintptr_t>(pages + kBytes / 2);
  const StackBounds own = find_stack(here());

  const StackBounds bounds = find_stack(sp);

  EXPECT_EQ(bounds.low, sp);
  EXPECT_EQ(bounds.high, reinterpret_cast<std::uintptr_t>(pages + kBytes));
  EXPECT_EQ(find_stack(here()).high, own.high) << "the thread's own was forgotten";
  munmap(pages, kBytes);
}

TEST(StackBounds, OfAForeignStackEndAtAGuardPage) {
  constexpr std::size_t kBytes = 32 * 1024;
  auto* const pages = static_cast<char*>(mmap(nullptr, 3 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(pages + kBytes, kBytes, PROT_NONE);
  const auto sp = reinterpret_cast<std::uintptr_t>(pages + kBytes / 2);

  const StackBounds bounds = find_stack(sp);

  EXPECT_TRUE(bounds.is_foreign);
  EXPECT_EQ(bounds.high, reinterpret_cast<std::uintptr_t>(pages + kBytes));
  munmap(pages, 3 * kBytes);
}

// A fiber right below the thread's own stack, with nothing between them but a guard.
TEST(StackBounds, OfTheThreadsOwnDoNotReachDownAcrossAGuardPage) {
  constexpr std::size_t kBytes = 256 * 1024;
  static char* pages;
  pages = static_cast<char*>(mmap(nullptr, 3 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(pages + kBytes, kBytes, PROT_NONE);
  for (const bool knows_own : {false, true}) {
    static bool looks_first;
    looks_first = knows_own;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    ASSERT_EQ(pthread_attr_setstack(&attributes, pages + 2 * kBytes, kBytes), 0);
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, &attributes, [](void*) -> void* {
                if (looks_first) { EXPECT_FALSE(find_stack(here()).is_foreign); }
                const StackBounds fiber = find_stack(reinterpret_cast<std::uintptr_t>(pages + kBytes - 4096));
                EXPECT_EQ(fiber.high, reinterpret_cast<std::uintptr_t>(pages + kBytes));
                EXPECT_TRUE(fiber.is_foreign);
                EXPECT_GE(find_stack(here()).high, reinterpret_cast<std::uintptr_t>(pages + 2 * kBytes));
                return nullptr;
              }, nullptr), 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
  }
  munmap(pages, 3 * kBytes);
}

TEST(StackBounds, NothingIsReadableThatIsNot) {
  auto* const page = static_cast<char*>(mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const auto low = reinterpret_cast<std::uintptr_t>(page);
  EXPECT_TRUE(is_readable(low, low + 8192));
  mprotect(page + 4096, 4096, PROT_NONE);
  EXPECT_TRUE(is_readable(low, low + 4096));
  EXPECT_FALSE(is_readable(low, low + 8192));
  EXPECT_FALSE(is_readable(low + 4096, low + 4104));
  munmap(page, 8192);
  EXPECT_FALSE(is_readable(low, low + 8));
  EXPECT_FALSE(is_readable(~std::uintptr_t{0} - 7, 0)) << "an address that wraps";
}

TEST(StackBounds, AskingWhatIsReadableLeavesSignalMaskAndErrnoAlone) {
  sigset_t before{}, after{};
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  const sigset_t all = [] { sigset_t set; sigfillset(&set); return set; }();
  errno = 77;

  EXPECT_TRUE(is_readable(reinterpret_cast<std::uintptr_t>(&all), reinterpret_cast<std::uintptr_t>(&all) + 8));

  EXPECT_EQ(errno, 77);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < NSIG; ++signal) EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
}

TEST(StackBounds, HoldWholeAlignedWordsOnly) {
  const StackBounds bounds{0x1000, 0x2000, false};
  EXPECT_TRUE(bounds.holds_word(0x1000));
  EXPECT_TRUE(bounds.holds_word(0x1ff8));
  for (const std::uintptr_t outside : {0xff8, 0x1001, 0x1ffc, 0x2000}) EXPECT_FALSE(bounds.holds_word(outside));
  EXPECT_FALSE(StackBounds{}.holds_word(0x1000)) << "empty bounds hold nothing";
}

}  // namespace
}  // namespace cuheap
