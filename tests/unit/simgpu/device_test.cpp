#include "fixture.h"
#include "simgpu/device_spec.h"

namespace cuheap::sim::test {

TEST(DeviceSpecs, ParsesNamesSizesAndCounts) {
  std::vector<DeviceChoice> devices;
  std::string error;

  ASSERT_TRUE(parse_devices("2xh100-80g, 24GiB,3x512MiB", devices, error)) << error;
  ASSERT_EQ(devices.size(), 6u);
  EXPECT_STREQ(devices[1].spec.key, "h100-80g");
  EXPECT_EQ(devices[2].spec.total_memory, 24 * kGiB);
  EXPECT_EQ(devices[5].spec.total_memory, 512 * kMiB);
  EXPECT_EQ(devices[2].spec.capability_major, 8);
}

TEST(DeviceSpecs, AnUnknownNameIsToldWithTheKnownOnes) {
  std::vector<DeviceChoice> devices;
  std::string error;

  EXPECT_FALSE(parse_devices("h101", devices, error));
  EXPECT_NE(error.find("'h101'"), std::string::npos);
  EXPECT_NE(error.find("a100-40g"), std::string::npos);
  EXPECT_FALSE(parse_devices("17x24GiB", devices, error));
  EXPECT_FALSE(parse_devices("", devices, error));
}

TEST(DeviceSpecs, EveryRowIsWhole) {
  for (const char* key : {"h100-80g", "h200", "a100-40g", "a100-80g", "l40s", "rtx4090", "rtx3090", "t4"}) {
    std::vector<DeviceChoice> devices;
    std::string error;
    EXPECT_TRUE(parse_devices(key, devices, error)) << error;
  }
  for (const DeviceSpec& spec : known_devices()) {
    EXPECT_GT(spec.total_memory, 10 * kGiB) << spec.key;
    EXPECT_LT(spec.context_bytes, kGiB) << spec.key;
    EXPECT_GE(spec.capability_major, 7) << spec.key;
    EXPECT_GE(spec.multiprocessors, 40) << spec.key;
    EXPECT_LE(spec.shared_memory_per_block, spec.shared_memory_per_block_optin) << spec.key;
    EXPECT_LE(spec.shared_memory_per_block_optin, spec.shared_memory_per_multiprocessor) << spec.key;
  }
}

class Devices : public Device {};

TEST_F(Devices, AnswersForEveryAttributeOfTheHeader) {
  for (int attribute = 1; attribute < CU_DEVICE_ATTRIBUTE_MAX; ++attribute) {
    int value = 0;
    EXPECT_CU(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(attribute), 0)) << attribute;
  }
  int value = 0;
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 77));
}

TEST_F(Devices, FindEachOtherByBusId) {
  char text[32];
  CUdevice found = -1;
  ASSERT_CU(cuDeviceGetPCIBusId(text, sizeof text, 1));
  ASSERT_CU(cuDeviceGetByPCIBusId(&found, text));
  EXPECT_EQ(found, 1);
  CUuuid one, two;
  ASSERT_CU(cuDeviceGetUuid(&one, 0));
  ASSERT_CU(cuDeviceGetUuid(&two, 1));
  EXPECT_NE(std::string(one.bytes, 16), std::string(two.bytes, 16));
}

TEST_F(Devices, CopyBetweenPeers) {
  CUcontext other = nullptr;
  ASSERT_CU(cuDevicePrimaryCtxRetain(&other, 1));
  const CUdeviceptr here = allocate(5 * kMiB);
  ASSERT_CU(cuMemsetD8(here, 'p', 5 * kMiB));
  ASSERT_CU(cuCtxPushCurrent(other));
  const CUdeviceptr there = allocate(5 * kMiB);
  ASSERT_CU(cuCtxPopCurrent(nullptr));
  int can = 0;
  ASSERT_CU(cuDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);

  ASSERT_CU(cuMemcpyPeer(there, other, here, context_, 5 * kMiB));
  ASSERT_CU(cuCtxSynchronize());

  EXPECT_EQ(read(there + 5 * kMiB - 3, 3), filled(3, 'p'));
  EXPECT_CU(cuCtxEnablePeerAccess(other, 0));
  EXPECT_CU_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(other, 0));
  EXPECT_CU(cuDevicePrimaryCtxRelease(1));
}

TEST_F(Devices, ThePrimaryContextIsActiveWhileRetained) {
  unsigned flags = 0;
  int active = 0;
  ASSERT_CU(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 1);
  const size_t with_context = free_bytes();
  EXPECT_LT(with_context, 24 * kGiB) << "the driver takes memory for a context";
  const uint64_t used = simgpu_used_bytes(0);

  ASSERT_CU(cuDevicePrimaryCtxRelease(0));
  ASSERT_CU(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 0);
  EXPECT_LT(simgpu_used_bytes(0), used);
}

TEST_F(Devices, CapacityCanShrinkAndForeignMemoryCounts) {
  const size_t before = free_bytes();
  ASSERT_EQ(simgpu_set_foreign_bytes(0, kGiB), 0);
  EXPECT_EQ(before - free_bytes(), kGiB);
  ASSERT_EQ(simgpu_set_capacity(0, 2 * kGiB), 0);
  CUdeviceptr block = 0;
  EXPECT_CU_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&block, kGiB));
  simgpu_set_foreign_bytes(0, 0);
  simgpu_set_capacity(0, 24 * kGiB);
}

TEST_F(Devices, FaultsHitTheNthCall) {
  ASSERT_EQ(simgpu_fail_call("cuMemCreate", 2, CUDA_ERROR_OUT_OF_MEMORY), 0);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle handle = 0, none = 0;
  const uint64_t calls = simgpu_calls("cuMemCreate");

  EXPECT_CU(cuMemCreate(&handle, kGranuleBytes, &properties, 0));
  EXPECT_CU_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&none, kGranuleBytes, &properties, 0));
  EXPECT_EQ(simgpu_calls("cuMemCreate") - calls, 2u);
  simgpu_clear_faults();
  EXPECT_CU(cuMemCreate(&none, kGranuleBytes, &properties, 0));
  cuMemRelease(handle);
  cuMemRelease(none);
}

TEST_F(Devices, FaultsHitEveryNthCallAndAnyFunction) {
  ASSERT_EQ(simgpu_fault("cuMemAlloc:every=2:code=2, cuMulticastCreate:nth=2:code=999"), 0);
  CUdeviceptr block = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_CU(cuMemAlloc(&block, 1));
    EXPECT_CU_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&block, 1));
  }
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_CU_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate(&handle, nullptr));
  EXPECT_CU_ERROR(CUDA_ERROR_UNKNOWN, cuMulticastCreate(&handle, nullptr));
  EXPECT_CU_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate(&handle, nullptr));
}

TEST_F(Devices, ShrinkAtTheNthCall) {
  ASSERT_EQ(simgpu_fault("cuMemAlloc:nth=2:capacity=1GiB"), 0);
  CUdeviceptr block = 0;
  EXPECT_CU(cuMemAlloc(&block, 2 * kGiB));
  EXPECT_CU_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&block, kGranuleBytes));
  EXPECT_EQ(free_bytes(), 0u);
  EXPECT_EQ(simgpu_set_capacity(0, 24 * kGiB), 0);
}

TEST_F(Devices, RefuseAFaultThatCouldNeverHit) {
  for (const char* wrong : {"cuMemAloc:1:2", "cuMemAlloc", "cuMemAlloc:1", "cuMemAlloc:nth=0:code=2", "cuMemAlloc:every=0:code=2",
                            "cuMemAlloc:nth=1", "cuMemAlloc:often:code=2", "cuMemAlloc:1:2,cuMemFree:x", "cuMemAlloc:nth=1:code=two"})
    EXPECT_EQ(simgpu_fault(wrong), CUDA_ERROR_INVALID_VALUE) << wrong;
  CUdeviceptr block = 0;
  EXPECT_CU(cuMemAlloc(&block, 1)) << "of a list with one wrong item nothing holds";
}

class Peers : public Device {
 protected:
  void SetUp() override {
    Device::SetUp();
    ASSERT_CU(cuDevicePrimaryCtxRetain(&other_, 1));
    ASSERT_CU(cuCtxPushCurrent(other_));
    there_ = allocate(kGranuleBytes);
    ASSERT_CU(cuCtxPopCurrent(nullptr));
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
    ASSERT_CU(cuMemCreate(&handle_, kGranuleBytes, &properties, 0));
    ASSERT_CU(cuMemAddressReserve(&mapped_, kGranuleBytes, 0, 0, 0));
    ASSERT_CU(cuMemMap(mapped_, kGranuleBytes, 0, handle_, 0));
    here_ = allocate(kGranuleBytes);
    ASSERT_CU(cuMemsetD8(here_, 'h', 100));
  }

  void TearDown() override {
    cuCtxSynchronize();
    EXPECT_CU(cuMemUnmap(mapped_, kGranuleBytes));
    EXPECT_CU(cuMemAddressFree(mapped_, kGranuleBytes));
    EXPECT_CU(cuMemRelease(handle_));
    EXPECT_CU(cuDevicePrimaryCtxRelease(1));
    Device::TearDown();
  }

  void allow(int device) {
    const CUmemAccessDesc right{{CU_MEM_LOCATION_TYPE_DEVICE, {device}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    ASSERT_CU(cuMemSetAccess(mapped_, kGranuleBytes, &right, 1));
  }

  CUcontext other_ = nullptr;
  CUdeviceptr here_ = 0, there_ = 0, mapped_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
};

TEST_F(Peers, AllocatedMemoryIsCopiedWithoutPeerAccess) {
  ASSERT_CU(cuMemcpyDtoD(there_, here_, 100));
  ASSERT_CU(cuCtxSynchronize());
  EXPECT_EQ(read(there_, 100), filled(100, 'h'));
}

TEST_F(Peers, MappedMemoryAsksForARightOfTheDeviceThatCopies) {
  allow(1);
  cuMemcpyDtoD(mapped_, here_, 100);  // the copy engine of device 0 has no right
  EXPECT_CU_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

TEST_F(Peers, MappedMemoryIsCopiedToByADeviceThatHasARight) {
  allow(1), allow(0);
  ASSERT_CU(cuMemcpyDtoD(mapped_, here_, 100));
  ASSERT_CU(cuCtxSynchronize());
  EXPECT_EQ(read(mapped_, 100), filled(100, 'h'));
}

TEST_F(Peers, APeerCopyTouchesEachEndWithItsOwnDevice) {
  allow(1);
  ASSERT_CU(cuMemcpyPeer(mapped_, other_, here_, context_, 100));
  ASSERT_CU(cuCtxSynchronize());
  EXPECT_EQ(read(mapped_, 100), filled(100, 'h'));
}

TEST_F(Peers, APeerCopyNeedsARightToo) {
  cuMemcpyPeer(mapped_, other_, here_, context_, 100);
  EXPECT_CU_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize()) << "nobody was given one";
}

TEST_F(Devices, OccupancyFollowsTheProperties) {
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  ASSERT_CU(cuModuleLoadData(&module, "any image"));
  ASSERT_CU(cuModuleGetFunction(&kernel, module, "k"));
  int blocks = 0, per_multiprocessor = 0;
  ASSERT_CU(cuDeviceGetAttribute(&per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0));

  ASSERT_CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 1024, 0));
  EXPECT_EQ(blocks, per_multiprocessor / 1024);
  ASSERT_CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 32, 100 * 1024));
  EXPECT_EQ(blocks, 1);
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(kernel, 1, 1, 1, 2048, 1, 1, 0, nullptr, nullptr, nullptr));
}

}  // namespace cuheap::sim::test
