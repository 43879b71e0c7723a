#include "tracer/base/hook_scope.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "tracer/base/keep_errno.h"

namespace cuheap {
namespace {

TEST(HookScope, IsEnteredOnceAThread) {
  {
    const HookScope outer;
    EXPECT_TRUE(outer);
    const HookScope inner;
    EXPECT_FALSE(inner);
    std::thread([] { EXPECT_TRUE(HookScope()); }).join();
  }
  EXPECT_TRUE(HookScope());
}

TEST(KeepErrno, RestoresIt) {
  errno = EDOM;
  {
    const KeepErrno keep;
    errno = EBADF;
  }
  EXPECT_EQ(errno, EDOM);
}

}  // namespace
}  // namespace cuheap
