#include <unistd.h>

#include <thread>

#include "fixture.h"

namespace cuheap::sim::test {

class MemPools : public Device {
 protected:
  static CUmemoryPool pool() {
    CUmemoryPool result = nullptr;
    EXPECT_CU(cuDeviceGetDefaultMemPool(&result, 0));
    return result;
  }

  static cuuint64_t value(CUmemPool_attribute attribute) {
    cuuint64_t result = 0;
    EXPECT_CU(cuMemPoolGetAttribute(pool(), attribute, &result));
    return result;
  }
};

TEST_F(MemPools, SynchronisingGivesIdleMemoryBack) {
  const CUstream s = stream();
  const size_t before = free_bytes();
  CUdeviceptr block = 0;
  ASSERT_CU(cuMemAllocAsync(&block, 3 * kMiB, s));
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 3 * kMiB);
  EXPECT_GE(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 3 * kMiB);
  EXPECT_EQ(before - free_bytes(), value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));

  ASSERT_CU(cuMemFreeAsync(block, s));
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
  EXPECT_GT(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  ASSERT_CU(cuStreamSynchronize(s));

  EXPECT_EQ(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(MemPools, TheThresholdKeepsMemoryUntilATrim) {
  const CUstream s = stream();
  cuuint64_t keep = ~cuuint64_t{0};
  ASSERT_CU(cuMemPoolSetAttribute(pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  CUdeviceptr block = 0;
  ASSERT_CU(cuMemAllocAsync(&block, 3 * kMiB, s));
  ASSERT_CU(cuMemFreeAsync(block, s));
  ASSERT_CU(cuStreamSynchronize(s));
  EXPECT_GT(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);

  ASSERT_CU(cuMemPoolTrimTo(pool(), 0));
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  keep = 0;
  ASSERT_CU(cuMemPoolSetAttribute(pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
}

TEST_F(MemPools, TheSameStreamReusesAtOnceAnotherOnlyWhenTheFreeHasPassed) {
  const CUstream one = stream(), two = stream();
  ASSERT_EQ(simgpu_delay_stream(one, 30'000'000), 0);
  CUdeviceptr first = 0, same = 0, other = 0;
  ASSERT_CU(cuMemAllocAsync(&first, 3 * kMiB, one));
  ASSERT_CU(cuMemFreeAsync(first, one));

  ASSERT_CU(cuMemAllocAsync(&other, 3 * kMiB, two));
  ASSERT_CU(cuMemAllocAsync(&same, 3 * kMiB, one));

  EXPECT_EQ(same, first);
  EXPECT_NE(other, first);
  EXPECT_CU(cuMemFreeAsync(same, one));
  EXPECT_CU(cuMemFree(other)) << "cuMemFree takes pool memory too";
}

TEST_F(MemPools, ATrimKeepsWhatAStreamHasNotYetFreed) {
  const CUstream s = stream();
  CUdeviceptr block = 0;
  ASSERT_CU(cuMemAllocAsync(&block, 3 * kMiB, s));
  ASSERT_CU(cuStreamSynchronize(s));
  ASSERT_EQ(simgpu_hold_stream(s, 1), 0);
  ASSERT_CU(cuMemsetD8Async(block, 't', 100, s));
  ASSERT_CU(cuMemFreeAsync(block, s));

  ASSERT_CU(cuMemPoolTrimTo(pool(), 0));
  EXPECT_GT(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  ASSERT_EQ(simgpu_hold_stream(s, 0), 0);
  EXPECT_CU(cuStreamSynchronize(s)) << "the memset found its memory";
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
}

TEST_F(MemPools, ATrimStopsAtTheBytesToKeep) {
  const CUstream s = stream();
  cuuint64_t threshold = ~cuuint64_t{0};
  ASSERT_CU(cuMemPoolSetAttribute(pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  CUdeviceptr small = 0, large = 0;
  ASSERT_CU(cuMemAllocAsync(&small, 64 * kMiB, s));
  ASSERT_CU(cuMemAllocAsync(&large, 128 * kMiB, s));
  ASSERT_CU(cuMemFreeAsync(small, s));
  ASSERT_CU(cuMemFreeAsync(large, s));
  ASSERT_CU(cuStreamSynchronize(s));
  ASSERT_EQ(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 192 * kMiB);

  ASSERT_CU(cuMemPoolTrimTo(pool(), 192 * kMiB));
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 192 * kMiB) << "no more than that was reserved";
  ASSERT_CU(cuMemPoolTrimTo(pool(), 60 * kMiB));
  EXPECT_GE(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 60 * kMiB) << "at least the bytes to keep stay";
  EXPECT_LT(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 192 * kMiB);
  threshold = 0;
  ASSERT_CU(cuMemPoolSetAttribute(pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  ASSERT_CU(cuMemPoolTrimTo(pool(), 0));
}

TEST_F(MemPools, TakeTheExactSizeWhereAWholeSegmentDoesNotFit) {
  const CUstream s = stream();
  ASSERT_EQ(simgpu_set_capacity(0, simgpu_used_bytes(0) + 4 * kMiB), 0);
  CUdeviceptr block = 0;

  EXPECT_CU(cuMemAllocAsync(&block, 3 * kMiB, s));
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 4 * kMiB);
  simgpu_set_capacity(0, 24 * kGiB);
  EXPECT_CU(cuMemFreeAsync(block, s));
  EXPECT_CU(cuStreamSynchronize(s));
}

TEST_F(MemPools, FreeingPoolMemoryWaitsForNothing) {
  const CUstream s = stream(), busy = stream();
  const CUdeviceptr other = allocate(4096);
  CUdeviceptr block = 0;
  ASSERT_CU(cuMemAllocAsync(&block, 4096, s));
  ASSERT_EQ(simgpu_hold_stream(busy, 1), 0);
  ASSERT_CU(cuMemsetD8Async(other, 1, 4096, busy));

  std::thread holder([&] {
    cuCtxSetCurrent(context_);
    for (int i = 0; i < 3000 && cuStreamQuery(busy) == CUDA_ERROR_NOT_READY; ++i) ::usleep(1000);
    simgpu_hold_stream(busy, 0);  // so that a free that waits fails and does not hang
  });
  EXPECT_CU(cuMemFree(block));
  EXPECT_CU_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(busy)) << "held still: the free did not wait for it";
  ASSERT_EQ(simgpu_hold_stream(busy, 0), 0);
  holder.join();
}

TEST_F(MemPools, APoolEndsAtItsLargestSize) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  properties.maxSize = 48 * kMiB;
  CUmemoryPool own = nullptr;
  ASSERT_CU(cuMemPoolCreate(&own, &properties));
  const CUstream s = stream();
  CUdeviceptr one = 0, two = 0, three = 0;

  EXPECT_CU(cuMemAllocFromPoolAsync(&one, 32 * kMiB, own, s));
  EXPECT_CU_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&three, 18 * kMiB, own, s));
  EXPECT_CU(cuMemAllocFromPoolAsync(&two, 16 * kMiB, own, s));
  for (const CUdeviceptr block : {one, two}) EXPECT_CU(cuMemFreeAsync(block, s));
  EXPECT_CU(cuMemPoolDestroy(own));
}

TEST_F(MemPools, TheStreamsDeviceDecidesNotTheCurrentContext) {
  CUcontext second = nullptr;
  ASSERT_CU(cuDevicePrimaryCtxRetain(&second, 1));
  const CUstream s = stream();
  CUdeviceptr block = 0;
  int device = -1;
  ASSERT_CU(cuCtxPushCurrent(second));
  ASSERT_CU(cuMemAllocAsync(&block, 4096, s));
  ASSERT_CU(cuCtxPopCurrent(nullptr));

  ASSERT_CU(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
  EXPECT_EQ(device, 0);
  EXPECT_CU(cuMemFreeAsync(block, s));
  EXPECT_CU(cuDevicePrimaryCtxRelease(1));
}

TEST_F(MemPools, ABlockKnowsItsPool) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool own = nullptr, answered = nullptr;
  ASSERT_CU(cuMemPoolCreate(&own, &properties));
  const CUstream s = stream();
  CUdeviceptr block = 0;
  ASSERT_CU(cuMemAllocFromPoolAsync(&block, 1000, own, s));

  ASSERT_CU(cuPointerGetAttribute(&answered, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block + 10));
  EXPECT_EQ(answered, own);
  ASSERT_CU(cuMemFreeAsync(block, s));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(block, s));
  EXPECT_CU(cuMemPoolDestroy(own));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool()));
}

TEST_F(MemPools, AnotherAllocatorsNeedDrainsTheIdlePool) {
  const CUstream s = stream();
  CUdeviceptr block = 0;
  EXPECT_CU_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&block, free_bytes() + kGranuleBytes, s));
  ASSERT_CU(cuMemAllocAsync(&block, kGiB, s));
  ASSERT_CU(cuMemFreeAsync(block, s));

  CUdeviceptr large = 0;
  ASSERT_CU(cuMemAllocAsync(&large, free_bytes() + kGiB / 2, s)) << "the idle gigabyte was handed back";
  EXPECT_CU(cuMemFreeAsync(large, s));
}

}  // namespace cuheap::sim::test
