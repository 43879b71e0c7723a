#include "tracer/base/spin_lock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace cuheap {
namespace {

TEST(SpinLock, LetsOneThreadIn) {
  SpinLock lock;
  int counter = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50'000; ++i) {
        const SpinGuard guard(lock);
        ASSERT_TRUE(guard);
        ++counter;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 200'000);
}

TEST(SpinLock, GivesUpOnALockThatIsNeverReleased) {
  SpinLock lock;
  ASSERT_TRUE(lock.lock());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(lock.lock());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(SpinLock, IsFreeAfterReset) {
  SpinLock lock;
  ASSERT_TRUE(lock.lock());
  lock.reset();
  EXPECT_TRUE(lock.lock());
}

}  // namespace
}  // namespace cuheap
