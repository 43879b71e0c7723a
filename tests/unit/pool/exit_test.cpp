// A program of its own: once a process is exiting it stays so.
#include <gtest/gtest.h>

#include "pool_host.h"

namespace cuheap {
namespace {

TEST_F(PoolTest, MakesNoDriverCallWhenTheProcessIsExiting) {
  start(1 * kGiB);
  const CUdeviceptr block = get(5 * kMiB);
  const auto fences = gpu.calls("cuCtxRecordEvent");
  process::set_exiting();

  EXPECT_EQ(free(block), CUDA_SUCCESS);

  EXPECT_EQ(gpu.calls("cuCtxRecordEvent"), fences);
  EXPECT_EQ(pool->figures(0).waiting_bytes, 5 * kMiB);
}

}  // namespace
}  // namespace cuheap
