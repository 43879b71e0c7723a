// A host for the pool's tests: it asks as the hooks would, keeps what it got, and knows what the driver saw.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "fake_driver.h"
#include "shim/pool/direct.h"
#include "shim/pool/pool.h"
#include "tracer/base/process.h"

namespace cuheap {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

class RecordingSink final : public EventSink {
 public:
  void record(const Event& event) override {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }
  std::vector<Event> of(EventKind kind) const {
    std::vector<Event> found;
    std::copy_if(events_.begin(), events_.end(), std::back_inserter(found), [&](const Event& e) { return e.kind == kind; });
    return found;
  }
  std::uint64_t activity_bytes(PoolActivity which) const {
    std::uint64_t bytes = 0;
    for (const Event& event : of(EventKind::PoolActivity)) bytes += event.extra0 == static_cast<std::uint64_t>(which) ? event.size : 0;
    return bytes;
  }
  /// Bytes of granules taken and not given back, as a reader of the trace would count them.
  std::uint64_t granule_bytes() const {
    std::map<std::uint64_t, std::uint64_t> live;
    for (const Event& event : events_) {
      if (event.family != Family::PoolGranule) continue;
      if (event.kind == EventKind::Allocate) live[event.address] = event.size;
      if (event.kind == EventKind::Free) live.erase(event.address);
      if (event.kind == EventKind::FreeFailed) live[event.address] = event.size;
    }
    std::uint64_t bytes = 0;
    for (const auto& [handle, size] : live) bytes += size;
    return bytes;
  }
  /// Where granules are mapped, as a reader of the trace would know it: address and handle.
  std::map<std::uint64_t, std::uint64_t> mapped() const {
    std::map<std::uint64_t, std::uint64_t> places;
    for (const Event& event : events_) {
      if (event.kind == EventKind::Map) places[event.address] = event.extra0;
      if (event.kind == EventKind::Unmap) places.erase(event.address);
    }
    return places;
  }

 private:
  std::mutex mutex_;
  std::vector<Event> events_;
};

inline Caller caller_on(int device, std::uint64_t context = 0, std::uint32_t generation = 0) {
  Caller caller;
  caller.device = device;
  caller.context = context != 0 ? context : fake::FakeDriver::context_of(device);
  caller.generation = generation;
  return caller;
}

class PoolTest : public testing::Test {
 protected:
  void start(std::uint64_t capacity, int devices = 1, const std::function<void(PoolConfig&)>& change = {}) {
    ASSERT_TRUE(process::claim());
    gpu.reset(capacity, devices);
    pool = std::make_unique<Pool>();
    sink = std::make_unique<RecordingSink>();
    PoolConfig config;
    config.driver = &gpu.table();
    config.sink = sink.get();
    config.is_forced = true;
    config.has_context_events = true;
    if (change) change(config);
    pool->start(config);
  }

  CUresult allocate(std::size_t bytes, CUdeviceptr* out, Caller caller = caller_on(0), std::uint32_t site_bits = 0) {
    AllocationRequest request;
    request.bytes = bytes;
    request.caller = caller;
    request.site_bits = site_bits;
    flags = 0;
    return pool->allocate(request, out, &flags);
  }
  /// The address, or 0.
  CUdeviceptr get(std::size_t bytes, Caller caller = caller_on(0)) {
    CUdeviceptr address = 0;
    return allocate(bytes, &address, caller) == CUDA_SUCCESS ? address : 0;
  }
  CUresult free(CUdeviceptr address, Caller caller = caller_on(0)) { return pool->release(caller, address); }
  /// A graph or an executable that the driver destroyed.
  void end_graph(const void* graph) {
    const auto number = reinterpret_cast<std::uint64_t>(graph);
    pool->graph_ended(pool->graph_ending(number), number, true);
  }
  std::size_t free_bytes(int device = 0) {
    std::size_t free = 0, total = 0;
    EXPECT_EQ(pool->memory_info(caller_on(device), &free, &total), CUDA_SUCCESS);
    return free;
  }

  void TearDown() override {
    if (pool != nullptr) {
      EXPECT_TRUE(pool->is_valid());
    }
    for (const std::string& violation : gpu.violations()) ADD_FAILURE() << violation;
  }

  fake::FakeDriver& gpu = fake::driver();
  std::unique_ptr<Pool> pool;
  std::unique_ptr<RecordingSink> sink;
  std::uint8_t flags = 0;
};

}  // namespace cuheap
