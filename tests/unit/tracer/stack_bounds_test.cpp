#include "tracer/stack_bounds.h"

#include <alloca.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

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
  return {reinterpret_cast<std::uintptr_t>(low), reinterpret_cast<std::uintptr_t>(low) + bytes};
}

void expect_inside_of_libcs() {
  const StackBounds bounds = find_stack(here());
  const StackBounds libc = bounds_by_libc();
  EXPECT_EQ(bounds.low, here());
  EXPECT_GE(bounds.low, libc.low);
  EXPECT_NEAR(static_cast<double>(bounds.high), static_cast<double>(libc.high), 64 * 1024);  // thread-local storage, arguments
  EXPECT_TRUE(is_mapped(bounds.low, bounds.high));
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
  ASSERT_TRUE(is_mapped(bounds.low, bounds.high));
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

TEST(StackBounds, HoldWholeAlignedWordsOnly) {
  const StackBounds bounds{0x1000, 0x2000};
  EXPECT_TRUE(bounds.holds_word(0x1000));
  EXPECT_TRUE(bounds.holds_word(0x1ff8));
  for (const std::uintptr_t outside : {0xff8, 0x1001, 0x1ffc, 0x2000}) EXPECT_FALSE(bounds.holds_word(outside));
  EXPECT_FALSE(StackBounds{}.holds_word(0x1000)) << "empty bounds hold nothing";
}

}  // namespace
}  // namespace cuheap
