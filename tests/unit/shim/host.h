// The test program as the host: its own cu* calls are the hooks, linked in; libcuda.so.1 is simgpu. One arming for the
// whole program, one trace a test.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "shim/driver/cuda_api.h"
#include "shim/lifecycle.h"
#include "shim/pool/direct.h"
#include "simgpu/control.h"
#include "tests/unit/tracer/trace_file.h"
#include "tracer/recorder.h"

namespace cuheap::test {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kTooMuch = std::size_t{1} << 46;

/// Forwards as `direct` does, and claims to hold idle memory as a pool would.
class AllocatorWithIdleMemory : public DeviceAllocator {
 public:
  CUresult allocate(const AllocationRequest& request, CUdeviceptr* out, std::uint8_t* flags) override {
    return direct_allocator.allocate(request, out, flags);
  }
  CUresult release(const Caller& caller, CUdeviceptr address) override { return direct_allocator.release(caller, address); }
  CUresult release_async(const Caller& caller, CUdeviceptr address, CUstream stream) override {
    return direct_allocator.release_async(caller, address, stream);
  }
  CUresult memory_info(const Caller& caller, std::size_t* free, std::size_t* total) override {
    const CUresult result = direct_allocator.memory_info(caller, free, total);
    if (result == CUDA_SUCCESS && free != nullptr) *free += idle;
    return result;
  }
  CUresult address_range(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) override {
    return direct_allocator.address_range(base, size, address);
  }
  CUresult pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) override {
    return direct_allocator.pointer_attribute(data, attribute, address);
  }
  CUresult pointer_attributes(unsigned count, CUpointer_attribute* which, void** data, CUdeviceptr address) override {
    return direct_allocator.pointer_attributes(count, which, data, address);
  }
  CUresult set_pointer_attribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) override {
    return direct_allocator.set_pointer_attribute(value, attribute, address);
  }
  CUresult ipc_handle(CUipcMemHandle* handle, CUdeviceptr address) override { return direct_allocator.ipc_handle(handle, address); }
  CUresult range_handle(void* handle, CUdeviceptr address, std::size_t size, CUmemRangeHandleType type,
                        unsigned long long flags) override {
    return direct_allocator.range_handle(handle, address, size, type, flags);
  }
  std::uint64_t idle_bytes(int device) override {
    const HookScope scope;  // as the pool: it does nothing inside a scope
    return scope && device == 0 ? idle : 0;
  }

  std::uint64_t idle = 0;
};

class HostTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static TemporaryFolder arming;
    setenv("CUHEAP_DIR", arming.path().c_str(), 1);
    setenv("CUHEAP_POOL", "off", 1);
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_TRUE(is_armed());
  }

  void SetUp() override {
    recorder().stop();
    ASSERT_TRUE(recorder().start({folder_.path().c_str(), true, nullptr}));
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }

  void TearDown() override {
    simgpu_clear_faults();
    detail::chosen_allocator.store(&direct_allocator);
    recorder().stop();
  }

  static CUdeviceptr allocate(std::size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc_v2(&address, bytes), CUDA_SUCCESS);
    return address;
  }

  /// Asks for what no device has; the event of that says what was alive.
  void run_out_of_memory() {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc_v2(&address, kTooMuch), CUDA_ERROR_OUT_OF_MEMORY);
  }

  void use(AllocatorWithIdleMemory& allocator) { detail::chosen_allocator.store(&allocator); }

  /// Ends the recording; every event of every thread.
  std::vector<Event> events() {
    if (!trace_.has_value()) {
      recorder().stop();
      trace_ = read_trace(folder_.only_file());
      EXPECT_TRUE(trace_->problems.empty()) << trace_->problems.front();
    }
    std::vector<Event> all;
    for (const auto& [thread, list] : trace_->events) all.insert(all.end(), list.begin(), list.end());
    return all;
  }
  std::vector<Event> events(EventKind kind) {
    std::vector<Event> all = events();
    std::erase_if(all, [kind](const Event& event) { return event.kind != kind; });
    return all;
  }
  std::vector<Event> events_at(std::uint64_t address) {
    std::vector<Event> all = events();
    std::erase_if(all, [address](const Event& event) { return event.address != address; });
    return all;
  }
  /// Bytes alive by each OutOfMemory event, against the first.
  std::vector<std::int64_t> alive_since_the_first() {
    std::vector<std::int64_t> alive;
    for (const Event& event : events(EventKind::OutOfMemory)) alive.push_back(static_cast<std::int64_t>(event.extra0));
    for (std::size_t i = alive.size(); i-- > 0;) alive[i] -= alive[0];
    return alive;
  }
  std::uint64_t lost(LossReason reason) {
    events();
    return trace_->header.lost_events[static_cast<std::size_t>(reason)];
  }

  CUcontext context_ = nullptr;

 private:
  TemporaryFolder folder_;
  std::optional<ReadTrace> trace_;
};

}  // namespace cuheap::test
