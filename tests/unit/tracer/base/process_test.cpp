#include "tracer/base/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace cuheap {
namespace {

TEST(Process, OwnsNothingInAForkChild) {
  ASSERT_TRUE(process::claim());
  EXPECT_TRUE(process::is_owner());

  const pid_t child = fork();
  if (child == 0) {
    const bool owner_before = process::is_owner();
    const bool claims = process::claim() && process::is_owner();
    _exit(owner_before ? 1 : claims ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);

  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(process::is_owner());
  process::disown();
  EXPECT_FALSE(process::is_owner());
}

TEST(Process, KnowsItsThreads) {
  ASSERT_TRUE(process::claim());
  EXPECT_EQ(process::thread_id(), static_cast<std::uint32_t>(gettid()));
  std::thread([] {
    EXPECT_EQ(process::thread_id(), static_cast<std::uint32_t>(gettid()));
    EXPECT_EQ(process::thread_id(), static_cast<std::uint32_t>(gettid()));
  }).join();

  const pid_t child = fork();
  if (child == 0) _exit(process::thread_id() == static_cast<std::uint32_t>(gettid()) ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  process::disown();
}

}  // namespace
}  // namespace cuheap
