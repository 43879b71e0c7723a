// What the pool holds of a device and why: idle handles, granules that move, what is recorded of both, whom new memory is
// opened to.
#include <thread>

#include "pool_host.h"

namespace cuheap {
namespace {

// ---- huge handles

TEST_F(PoolTest, AHugeHandleServesOnlyBlocksThatFillIt) {
  start(4 * kGiB);
  const CUdeviceptr first = get(100 * kMiB);
  ASSERT_EQ(free(first), CUDA_SUCCESS);

  const CUdeviceptr smaller = get(94 * kMiB);  // 6 MiB would be idle beside 94: more than a sixteenth
  EXPECT_NE(smaller, first);
  EXPECT_EQ(pool->figures(0).held_bytes, 194 * kMiB);

  EXPECT_EQ(get(96 * kMiB), first);
}

TEST_F(PoolTest, IdleHugeHandlesDoNotPileUp) {
  start(1 * kGiB);
  for (const std::uint64_t size : {100 * kMiB, 60 * kMiB, 90 * kMiB, 50 * kMiB, 120 * kMiB, 40 * kMiB}) {
    const CUdeviceptr block = get(size);
    ASSERT_NE(block, 0u);

    EXPECT_LE(pool->figures(0).held_bytes - size, 1 * kGiB / 8) << size;

    ASSERT_EQ(free(block), CUDA_SUCCESS);
  }
}

// ---- what is counted and recorded

TEST_F(PoolTest, GrowthIsRecordedToTheByte) {
  start(1 * kGiB);

  get(5 * kMiB);
  EXPECT_EQ(sink->activity_bytes(PoolActivity::Grow), 6 * kMiB);
  EXPECT_EQ(pool->figures(0).creates, 3u);
  get(40 * kMiB);
  get(1000);

  EXPECT_EQ(sink->activity_bytes(PoolActivity::Grow), 48 * kMiB);
  EXPECT_EQ(pool->figures(0).creates, 5u);
  EXPECT_EQ(sink->activity_bytes(PoolActivity::Steal), 0u);
}

TEST_F(PoolTest, EachGranuleThatMovesIsCounted) {
  start(1 * kGiB);
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(get(2 * kMiB));
  for (std::size_t i = 0; i < 6; i += 2) ASSERT_EQ(free(blocks[i]), CUDA_SUCCESS);

  ASSERT_NE(get(6 * kMiB), 0u);

  EXPECT_EQ(pool->figures(0).steals, 3u);
  EXPECT_EQ(sink->activity_bytes(PoolActivity::Steal), 6 * kMiB);
  EXPECT_EQ(pool->figures(0).held_bytes, 12 * kMiB);
}

TEST_F(PoolTest, IdleBytesAreThoseThatNoBlockUses) {
  start(1 * kGiB, 2);
  const CUdeviceptr block = get(100 * kMiB);
  get(1000);
  EXPECT_EQ(pool->idle_bytes(0), 0u);

  ASSERT_EQ(free(block), CUDA_SUCCESS);

  EXPECT_EQ(pool->idle_bytes(0), 100 * kMiB);
  EXPECT_EQ(pool->idle_bytes(1), 0u);
}

// ---- who reaches it

/// Runs once, from another thread, in the midst of the next growth.
std::function<void()> in_midst;

CUresult map_with_company(CUdeviceptr address, std::size_t size, std::size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long) {
  if (in_midst) {
    std::thread other(in_midst);
    other.join();
    in_midst = nullptr;
  }
  return fake::driver().map(address, size, offset, handle);
}

TEST_F(PoolTest, MemoryThatIsBeingMadeIsOpenedToAPeerThatComesMeanwhile) {
  DriverTable table;
  start(1 * kGiB, 2, [&](PoolConfig& config) {
    table = gpu.table();
    table.cuMemMap = map_with_company;
    config.driver = &table;
  });
  get(1000);  // arms
  in_midst = [&] { pool->peer_enabled(gpu.context_of(1), gpu.context_of(0)); };

  const CUdeviceptr block = get(5 * kMiB);

  EXPECT_FALSE(in_midst);
  EXPECT_TRUE(gpu.is_open_to(block, 5 * kMiB, 0));
  EXPECT_TRUE(gpu.is_open_to(block, 5 * kMiB, 1));
}

TEST_F(PoolTest, AGranuleThatCouldNotMoveIsOpenToPeersAsBefore) {
  for (const char* name : {"cuMemMap", "cuMemSetAccess"}) {
    start(1 * kGiB, 2);
    pool->peer_enabled(gpu.context_of(1), gpu.context_of(0));
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(get(2 * kMiB));
    for (std::size_t i = 0; i < 8; i += 2) ASSERT_EQ(free(blocks[i]), CUDA_SUCCESS);
    gpu.fail_once(name, 1, CUDA_ERROR_INVALID_VALUE);
    ASSERT_NE(get(8 * kMiB), 0u) << name;
    ASSERT_EQ(flags, 0) << name;  // the driver's

    for (std::size_t i = 0; i < 8; i += 2) blocks[i] = get(2 * kMiB);

    EXPECT_EQ(pool->figures(0).steals, 0u) << name;
    EXPECT_EQ(pool->figures(0).held_bytes, 16 * kMiB) << name;
    for (const CUdeviceptr block : blocks) EXPECT_TRUE(gpu.is_open_to(block, 2 * kMiB, 1)) << name;
  }
}

}  // namespace
}  // namespace cuheap
