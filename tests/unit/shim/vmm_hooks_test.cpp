// Physical memory by handle: alive while it is held, by handles or by mappings; on the device that its properties name.
#include "tests/unit/shim/host.h"

namespace cuheap {
namespace {

using test::kMiB;
using test::kTooMuch;

class VmmHooks : public test::HostTest {
 protected:
  static CUmemAllocationProp on_device(int device) {
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    return prop;
  }
  static CUmemGenericAllocationHandle make_handle(std::size_t bytes, int device = 0) {
    const CUmemAllocationProp prop = on_device(device);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, bytes, &prop, 0), CUDA_SUCCESS);
    return handle;
  }
  static CUdeviceptr map(CUmemGenericAllocationHandle handle, std::size_t bytes) {
    CUdeviceptr range = 0;
    EXPECT_EQ(cuMemAddressReserve(&range, bytes, 0, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemMap(range, bytes, 0, handle, 0), CUDA_SUCCESS);
    return range;
  }
  static void unmap(CUdeviceptr range, std::size_t bytes) {
    EXPECT_EQ(cuMemUnmap(range, bytes), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAddressFree(range, bytes), CUDA_SUCCESS);
  }
  void run_out_of_handles() {
    const CUmemAllocationProp prop = on_device(0);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, kTooMuch, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
  }
  /// The kinds of all physical events, in order; a handle's number may have been used before.
  std::vector<EventKind> physical_kinds() {
    std::vector<EventKind> kinds;
    for (const Event& event : events()) {
      if (event.floor == Floor::Physical && event.kind != EventKind::MemoryInfo) kinds.push_back(event.kind);
    }
    return kinds;
  }
};

using Kinds = std::vector<EventKind>;

TEST_F(VmmHooks, AHandleIsOnTheDeviceOfItsPropertiesAndNotOnTheCurrentOne) {
  const CUmemGenericAllocationHandle handle = make_handle(2 * kMiB, 1);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);

  const std::vector<Event> made = events(EventKind::Allocate);
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].device, 1);
}

TEST_F(VmmHooks, AnOutOfMemorySaysWhichHandlesWereAlive) {
  run_out_of_handles();
  const CUmemGenericAllocationHandle first = make_handle(2 * kMiB), second = make_handle(6 * kMiB);
  run_out_of_handles();
  EXPECT_EQ(cuMemRelease(first), CUDA_SUCCESS);
  run_out_of_handles();
  EXPECT_EQ(cuMemRelease(second), CUDA_SUCCESS);
  run_out_of_handles();

  EXPECT_EQ(events(EventKind::OutOfMemory)[0].floor, Floor::Physical);
  constexpr std::int64_t kOne = std::int64_t{1} << 20;
  EXPECT_EQ(alive_since_the_first(), (std::vector<std::int64_t>{0, 8 * kOne, 6 * kOne, 0}));
}

TEST_F(VmmHooks, ARetainedHandleKeepsItsMemory) {
  const CUmemGenericAllocationHandle handle = make_handle(2 * kMiB);
  const CUdeviceptr range = map(handle, 2 * kMiB);
  CUmemGenericAllocationHandle again = 0;
  ASSERT_EQ(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(range)), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  unmap(range, 2 * kMiB);
  const std::uint64_t between = now_ns();
  EXPECT_EQ(cuMemRelease(again), CUDA_SUCCESS);

  const std::vector<Event> ended = events(EventKind::Free);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_GE(ended[0].time_ns, between);
}

TEST_F(VmmHooks, AHandleRetainedAfterItsReleaseKeepsItsMemory) {
  const CUmemGenericAllocationHandle handle = make_handle(2 * kMiB);
  const CUdeviceptr range = map(handle, 2 * kMiB);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  CUmemGenericAllocationHandle again = 0;
  ASSERT_EQ(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(range)), CUDA_SUCCESS);
  unmap(range, 2 * kMiB);
  const std::uint64_t between = now_ns();
  EXPECT_EQ(cuMemRelease(again), CUDA_SUCCESS);

  const std::vector<Event> ended = events(EventKind::Free);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_GE(ended[0].time_ns, between);
  EXPECT_EQ(ended[0].address, events(EventKind::Allocate)[0].address);
}

TEST_F(VmmHooks, AHandleRetainedByAnAddressInsideItsMappingKeepsItsMemory) {
  const CUmemGenericAllocationHandle handle = make_handle(4 * kMiB);
  const CUdeviceptr range = map(handle, 4 * kMiB);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  CUmemGenericAllocationHandle again = 0;
  ASSERT_EQ(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(range + 4 * kMiB - 1)), CUDA_SUCCESS);
  unmap(range, 4 * kMiB);
  const std::uint64_t between = now_ns();
  EXPECT_EQ(cuMemRelease(again), CUDA_SUCCESS);

  const std::vector<Event> ended = events(EventKind::Free);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_GE(ended[0].time_ns, between);
}

TEST_F(VmmHooks, ARefusedEndOfARangeIsNoEnd) {
  CUdeviceptr range = 0;
  ASSERT_EQ(cuMemAddressReserve(&range, 4 * kMiB, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_NE(cuMemAddressFree(range, 2 * kMiB), CUDA_SUCCESS);
  const std::uint64_t between = now_ns();
  EXPECT_EQ(cuMemAddressFree(range, 4 * kMiB), CUDA_SUCCESS);
  const std::uint64_t after = now_ns();

  const std::vector<Event> ended = events(EventKind::Unreserve);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].size, 4 * kMiB);
  EXPECT_GE(ended[0].time_ns, between);
  EXPECT_LE(ended[0].time_ns, after);
}

TEST_F(VmmHooks, CallsInsideItsOwnWorkAreCountedLosses) {
  {
    const HookScope inside;
    const CUmemGenericAllocationHandle handle = make_handle(2 * kMiB);
    const CUdeviceptr range = map(handle, 2 * kMiB);
    CUmemGenericAllocationHandle again = 0;
    EXPECT_EQ(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(range)), CUDA_SUCCESS);
    unmap(range, 2 * kMiB);
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(cuMemRelease(again), CUDA_SUCCESS);
  }

  EXPECT_EQ(lost(LossReason::Reentered), 8u);  // create, reserve, map, retain, unmap, unreserve, two releases
  EXPECT_TRUE(physical_kinds().empty());
}

TEST_F(VmmHooks, ARefusedReleaseEndsNothing) {
  run_out_of_handles();
  const CUmemGenericAllocationHandle handle = make_handle(2 * kMiB);
  simgpu_fail_call("cuMemRelease", 1, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_NOT_PERMITTED);
  run_out_of_handles();
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  run_out_of_handles();

  EXPECT_EQ(alive_since_the_first(), (std::vector<std::int64_t>{0, std::int64_t{2} << 20, 0}));
  Kinds kinds = physical_kinds();
  std::erase(kinds, EventKind::OutOfMemory);
  EXPECT_EQ(kinds, (Kinds{EventKind::Allocate, EventKind::Free, EventKind::FreeFailed, EventKind::Free}));
  EXPECT_EQ(events(EventKind::FreeFailed)[0].extra0, CUDA_ERROR_NOT_PERMITTED);
}

}  // namespace
}  // namespace cuheap
