#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "fixture.h"

namespace cuheap::sim::test {

class DeviceMemory : public Device {};

TEST_F(DeviceMemory, KeepsWhatWasCopiedIn) {
  const CUdeviceptr small = allocate(1000);
  const CUdeviceptr large = allocate(5 * kMiB);
  const auto data = filled(1000, 'x');

  ASSERT_CU(cuMemcpyHtoD(small, data.data(), data.size()));
  ASSERT_CU(cuMemcpyDtoD(large + kGranuleBytes - 10, small, data.size()));

  std::vector<char> out(1000);
  ASSERT_CU(cuMemcpyDtoH(out.data(), large + kGranuleBytes - 10, out.size()));
  EXPECT_EQ(out, data);
}

TEST_F(DeviceMemory, IsNotReachableByTheHost) {
  const CUdeviceptr address = allocate(kGiB);

  EXPECT_EXIT((void)*reinterpret_cast<volatile char*>(address), ::testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(DeviceMemory, EndsAtTheByteThatIsFree) {
  const size_t free = free_bytes() / kGranuleBytes * kGranuleBytes;
  CUdeviceptr address = 0;

  EXPECT_CU_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&address, free + 1));
  ASSERT_CU(cuMemAlloc(&address, free));
  CUdeviceptr more = 0;
  EXPECT_CU_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&more, 1));
  EXPECT_EQ(more, 0u);
  ASSERT_CU(cuMemFree(address));
  EXPECT_CU(cuMemAlloc(&more, 1));
}

TEST_F(DeviceMemory, SmallBlocksShareAGranuleAndAreAligned) {
  const size_t before = free_bytes();

  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(allocate(20001));

  EXPECT_EQ(before - free_bytes(), kGranuleBytes);
  for (const CUdeviceptr block : blocks) EXPECT_EQ(block % 512, 0u);
  for (const CUdeviceptr block : blocks) ASSERT_CU(cuMemFree(block));
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(DeviceMemory, AMegabyteTakesAGranuleOfItsOwnAndLessSharesOne) {
  const size_t before = free_bytes();
  allocate(kMiB), allocate(kMiB);
  EXPECT_EQ(before - free_bytes(), 2 * kGranuleBytes);

  const size_t between = free_bytes();
  allocate(kMiB - 1), allocate(kMiB - 1);
  EXPECT_EQ(between - free_bytes(), kGranuleBytes);
}

TEST_F(DeviceMemory, RefusesWhatADriverRefuses) {
  CUdeviceptr address = 0;
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&address, 0));
  EXPECT_CU(cuMemFree(0));

  const CUdeviceptr block = allocate(4096);
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(block + 512));
  ASSERT_CU(cuMemFree(block));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(block));
  char byte = 0;
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&byte, 0x10, 1));
}

TEST_F(DeviceMemory, IsGoneFromAFreedLargeBlock) {
  const CUdeviceptr block = allocate(4 * kMiB);
  ASSERT_CU(cuMemFree(block));

  char byte = 0;
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&byte, block, 1));
  EXPECT_NE(simgpu_read(block, &byte, 1), 0);
}

TEST_F(DeviceMemory, MemsetWritesItsPatternAndZerosCostNothing) {
  const CUdeviceptr block = allocate(64 * kMiB);

  ASSERT_CU(cuMemsetD32(block + 4096, 0xdeadbeef, kMiB));
  ASSERT_CU(cuMemsetD8(block, 0, 64 * kMiB));
  ASSERT_CU(cuMemsetD16(block + 100, 0x4142, 3));
  ASSERT_CU(cuCtxSynchronize());

  const auto out = read(block + 98, 10);
  EXPECT_EQ(std::string(out.data(), 10), std::string("\0\0BABABA\0\0", 10));
}

TEST_F(DeviceMemory, PitchedRowsComeBackThroughTwoDimensionalCopies) {
  CUdeviceptr image = 0;
  size_t pitch = 0;
  ASSERT_CU(cuMemAllocPitch(&image, &pitch, 100, 7, 4));
  EXPECT_EQ(pitch % 512, 0u);
  std::vector<char> in(700), out(700);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<char>(i);

  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = in.data(), copy.srcPitch = 100;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = image, copy.dstPitch = pitch;
  copy.WidthInBytes = 100, copy.Height = 7;
  ASSERT_CU(cuMemcpy2D(&copy));
  CUDA_MEMCPY2D back{};
  back.srcMemoryType = CU_MEMORYTYPE_DEVICE, back.srcDevice = image, back.srcPitch = pitch;
  back.dstMemoryType = CU_MEMORYTYPE_HOST, back.dstHost = out.data(), back.dstPitch = 100;
  back.WidthInBytes = 100, back.Height = 7;
  ASSERT_CU(cuMemcpy2D(&back));

  EXPECT_EQ(in, out);
  EXPECT_EQ(read(image + pitch, 1)[0], in[100]);
}

TEST_F(DeviceMemory, AnUnknownPointerHasNoAttributes) {
  int local = 0;
  CUmemorytype type{};
  const auto host = reinterpret_cast<CUdeviceptr>(&local);

  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host));
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
  unsigned got = 77;
  CUcontext owner = context_;
  void* out[] = {&got, &owner};
  EXPECT_CU(cuPointerGetAttributes(2, wanted, out, host));
  EXPECT_EQ(got, 0u);
  EXPECT_EQ(owner, nullptr);
}

TEST_F(DeviceMemory, APointerInsideABlockKnowsTheBlock) {
  const CUdeviceptr block = allocate(20001);
  CUdeviceptr base = 0, start = 0;
  size_t size = 0, range = 0;

  ASSERT_CU(cuMemGetAddressRange(&base, &size, block + 20000));
  ASSERT_CU(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block + 1));
  ASSERT_CU(cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block + 1));
  ASSERT_CU(cuMemGetAddressRange(nullptr, nullptr, block));

  EXPECT_EQ(base, block);
  EXPECT_EQ(size, 20001u);
  EXPECT_EQ(start, block);
  EXPECT_EQ(range, 20001u);
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block + 20480));
}

TEST_F(DeviceMemory, BufferIdsAreNotReused) {
  unsigned long long first = 0, second = 0;
  const CUdeviceptr one = allocate(4096);
  ASSERT_CU(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, one));
  ASSERT_CU(cuMemFree(one));
  const CUdeviceptr two = allocate(4096);
  ASSERT_CU(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, two));

  EXPECT_EQ(one, two);
  EXPECT_NE(first, second);
}

TEST_F(DeviceMemory, PinnedAndManagedMemoryIsHostMemory) {
  CUdeviceptr managed = 0;
  ASSERT_CU(cuMemAllocManaged(&managed, 1000, CU_MEM_ATTACH_GLOBAL));
  Pinned pinned(1000);
  std::memset(pinned.data(), 'p', 1000);
  std::memset(reinterpret_cast<void*>(managed), 'm', 1000);
  const CUdeviceptr block = allocate(1000);

  ASSERT_CU(cuMemcpy(block, managed, 500));
  ASSERT_CU(cuMemcpy(block + 500, reinterpret_cast<CUdeviceptr>(pinned.data()), 500));

  EXPECT_EQ(read(block, 500), filled(500, 'm'));
  EXPECT_EQ(read(block + 500, 500), filled(500, 'p'));
  CUmemorytype type{};
  ASSERT_CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(pinned.data())));
  EXPECT_EQ(type, CU_MEMORYTYPE_HOST);
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(reinterpret_cast<CUdeviceptr>(pinned.data())));
  EXPECT_CU(cuMemFree(managed));
}

TEST_F(DeviceMemory, RegistersAHostRangeOnce) {
  std::vector<char> host(8192);
  ASSERT_CU(cuMemHostRegister(host.data(), host.size(), 0));

  EXPECT_CU_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(host.data() + 4096, 4096, 0));
  EXPECT_CU(cuMemHostUnregister(host.data()));
  EXPECT_CU_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(host.data()));
}

TEST_F(DeviceMemory, GoesWithItsContextButMappedMemoryStays) {
  const size_t before = free_bytes();
  CUcontext other = nullptr;
  ASSERT_CU(cuCtxCreate_v4(&other, nullptr, 0, 0));
  allocate(10 * kMiB);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_CU(cuMemCreate(&handle, kGranuleBytes, &properties, 0));

  ASSERT_CU(cuCtxDestroy(other));

  EXPECT_EQ(before - free_bytes(), kGranuleBytes);
  ASSERT_CU(cuMemRelease(handle));
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(DeviceMemory, AnArrayTakesItsBytesAndGivesThemBack) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = 512, shape.Height = 512, shape.Depth = 8, shape.Format = CU_AD_FORMAT_FLOAT, shape.NumChannels = 4;
  const size_t before = free_bytes();
  CUarray array = nullptr;

  ASSERT_CU(cuArray3DCreate(&array, &shape));
  EXPECT_EQ(before - free_bytes(), 512u * 512 * 8 * 16);
  const auto data = filled(8192, 'a');
  ASSERT_CU(cuMemcpyHtoA(array, 0, data.data(), data.size()));
  std::vector<char> out(8192);
  ASSERT_CU(cuMemcpyAtoH(out.data(), array, 0, out.size()));

  EXPECT_EQ(out, data);
  ASSERT_CU(cuArrayDestroy(array));
  EXPECT_EQ(free_bytes(), before);
}

}  // namespace cuheap::sim::test
