// What the tests of simgpu's libcuda share: a device with a known size, a context, and checks that print error names.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "simgpu/control.h"

namespace cuheap::sim::test {

inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kGiB = size_t{1} << 30;
inline constexpr size_t kGranuleBytes = 2 * kMiB;

inline std::string name_of(CUresult result) {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : std::to_string(result);
}

#define EXPECT_CU(call) EXPECT_EQ(cuheap::sim::test::name_of(call), "CUDA_SUCCESS")
#define ASSERT_CU(call) ASSERT_EQ(cuheap::sim::test::name_of(call), "CUDA_SUCCESS")
#define EXPECT_CU_ERROR(code, call) EXPECT_EQ(cuheap::sim::test::name_of(call), #code)

/// The primary context of device 0 is current; it is gone after the test, with everything in it.
class Device : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_CU(cuInit(0));
    ASSERT_CU(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_CU(cuCtxSetCurrent(context_));
  }

  void TearDown() override {
    simgpu_clear_faults();
    simgpu_delay_stream(nullptr, 0);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    cuThreadExchangeStreamCaptureMode(&mode);
    cuDevicePrimaryCtxReset(0);
    while (cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS) {
    }
    cuCtxSetCurrent(nullptr);
    // Pools outlive contexts; what one test left idle would be free memory of the next.
    CUmemoryPool pool = nullptr;
    if (cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS) cuMemPoolTrimTo(pool, 0);
  }

  static size_t free_bytes() {
    size_t free = 0, total = 0;
    EXPECT_CU(cuMemGetInfo(&free, &total));
    return free;
  }

  static CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_CU(cuMemAlloc(&address, bytes));
    return address;
  }

  static CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream made = nullptr;
    EXPECT_CU(cuStreamCreate(&made, flags));
    return made;
  }

  static CUevent event() {
    CUevent made = nullptr;
    EXPECT_CU(cuEventCreate(&made, CU_EVENT_DEFAULT));
    return made;
  }

  static std::vector<char> read(CUdeviceptr address, size_t bytes) {
    std::vector<char> out(bytes);
    EXPECT_EQ(simgpu_read(address, out.data(), bytes), 0);
    return out;
  }

  static std::vector<char> filled(size_t bytes, char value) { return std::vector<char>(bytes, value); }

  CUcontext context_ = nullptr;
};

/// Pinned host memory of a test.
class Pinned {
 public:
  explicit Pinned(size_t bytes) { EXPECT_CU(cuMemAllocHost(&pointer_, bytes)); }
  ~Pinned() { cuMemFreeHost(pointer_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  [[nodiscard]] char* data() const { return static_cast<char*>(pointer_); }

 private:
  void* pointer_ = nullptr;
};

}  // namespace cuheap::sim::test
