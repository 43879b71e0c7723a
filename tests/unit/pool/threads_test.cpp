// Many threads at once; meant to be run under ThreadSanitizer as well.
#include <gtest/gtest.h>

#include <thread>

#include "pool_host.h"

namespace cuheap {
namespace {

class PoolThreads : public PoolTest {
 protected:
  /// Eight threads allocate, use and free, some blocks by another thread than their own.
  void run(std::size_t largest, int steps) {
    std::mutex mutex;
    std::vector<std::pair<CUdeviceptr, std::size_t>> shared;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        gpu.set_current(fake::FakeDriver::context_of(0));
        std::mt19937_64 random(t);
        for (int step = 0; step < steps; ++step) {
          AllocationRequest request;
          request.bytes = 1 + random() % largest;
          request.caller = caller_on(0);
          CUdeviceptr block = 0;
          std::uint8_t event_flags = 0;
          if (pool->allocate(request, &block, &event_flags) == CUDA_SUCCESS) {
            if (event_flags == kEventPooled) gpu.launch(fake::FakeDriver::context_of(0), block, request.bytes);
            const std::lock_guard lock(mutex);
            shared.emplace_back(block, request.bytes);
          }
          std::pair<CUdeviceptr, std::size_t> victim{0, 0};
          {
            const std::lock_guard lock(mutex);
            if (shared.size() > 24 || (random() % 2 == 0 && !shared.empty())) {
              std::swap(shared[random() % shared.size()], shared.back());
              victim = shared.back();
              shared.pop_back();
            }
          }
          if (victim.first != 0 && pool->release(caller_on(0), victim.first) != CUDA_SUCCESS) failures.fetch_add(1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& [block, bytes] : shared) EXPECT_EQ(pool->release(caller_on(0), block), CUDA_SUCCESS);
    EXPECT_EQ(failures.load(), 0);
    EXPECT_EQ(free_bytes(), 256 * kMiB);
    EXPECT_EQ(pool->figures(0).lost_bytes, 0u);
    EXPECT_EQ(pool->figures(0).blocks, 0u);
  }
  std::atomic<int> failures{0};
};

TEST_F(PoolThreads, ShareADeviceThatIsLargeEnough) {
  start(256 * kMiB);
  run(1 * kMiB, 1500);
}

TEST_F(PoolThreads, FightForMemory) {
  start(256 * kMiB);
  run(40 * kMiB, 600);
}

TEST_F(PoolThreads, FightForMemoryWithOrderedFrees) {
  start(256 * kMiB, 1, [](PoolConfig& config) { config.ordered_free = true; });
  run(30 * kMiB, 600);
}

TEST_F(PoolThreads, FightWhileTheDriverFails) {
  start(256 * kMiB);
  ASSERT_EQ(free(get(1000)), CUDA_SUCCESS);  // arms
  gpu.fail_every(7, CUDA_ERROR_OUT_OF_MEMORY, {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap"});
  run(20 * kMiB, 400);
  gpu.fail_every(0);
}

}  // namespace
}  // namespace cuheap
