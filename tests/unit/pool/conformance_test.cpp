// What every DeviceAllocator must do, whatever it does inside: the same tests for direct and for pool, sync and ordered.
#include <gtest/gtest.h>

#include "pool_host.h"

namespace cuheap {
namespace {

struct Direct {
  static DeviceAllocator* make(fake::FakeDriver& gpu, PoolConfig, std::unique_ptr<Pool>*) {
    detail::driver_table = gpu.table();
    return &direct_allocator;
  }
};

template <bool kOrdered, bool kContextEvents>
struct Pooled {
  static DeviceAllocator* make(fake::FakeDriver&, PoolConfig config, std::unique_ptr<Pool>* pool) {
    config.ordered_free = kOrdered;
    config.has_context_events = kContextEvents;
    *pool = std::make_unique<Pool>();
    (*pool)->start(config);
    return pool->get();
  }
};

template <class Policy>
class DeviceAllocatorTest : public testing::Test {
 protected:
  void start(std::uint64_t capacity) {
    ASSERT_TRUE(process::claim());
    gpu.reset(capacity);
    PoolConfig config;
    config.driver = &gpu.table();
    config.sink = &sink;
    config.is_forced = true;
    allocator = Policy::make(gpu, config, &pool);
  }
  CUresult allocate(std::size_t bytes, CUdeviceptr* out) {
    AllocationRequest request;
    request.bytes = bytes;
    request.caller = caller_on(0);
    std::uint8_t flags = 0;
    return allocator->allocate(request, out, &flags);
  }
  CUresult free(CUdeviceptr address) { return allocator->release(caller_on(0), address); }
  bool is_valid() { return pool == nullptr || pool->is_valid(); }
  void TearDown() override {
    for (const std::string& violation : gpu.violations()) ADD_FAILURE() << violation;
  }

  fake::FakeDriver& gpu = fake::driver();
  RecordingSink sink;
  std::unique_ptr<Pool> pool;
  DeviceAllocator* allocator = nullptr;
};

using Policies = testing::Types<Direct, Pooled<false, true>, Pooled<true, true>, Pooled<false, false>, Pooled<true, false>>;
TYPED_TEST_SUITE(DeviceAllocatorTest, Policies);

TYPED_TEST(DeviceAllocatorTest, RefusesZeroBytesAndLeavesTheOutParameter) {
  this->start(64 * kMiB);
  CUdeviceptr out = 1234;

  EXPECT_EQ(this->allocate(0, &out), CUDA_ERROR_INVALID_VALUE);

  EXPECT_EQ(out, 1234u);
}

TYPED_TEST(DeviceAllocatorTest, FreesNullAndRefusesWhatIsNotItsOwn) {
  this->start(64 * kMiB);
  CUdeviceptr block = 0;
  ASSERT_EQ(this->allocate(20001, &block), CUDA_SUCCESS);

  EXPECT_EQ(this->free(0), CUDA_SUCCESS);
  EXPECT_EQ(this->free(0x1000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(this->free(block + 256), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(this->free(block), CUDA_SUCCESS);
  EXPECT_EQ(this->free(block), CUDA_ERROR_INVALID_VALUE);
}

TYPED_TEST(DeviceAllocatorTest, MemoryInfoReturnsToItsStart) {
  this->start(256 * kMiB);
  std::vector<CUdeviceptr> blocks;
  for (std::size_t bytes : {1ul, 20001ul, 3 * kMiB, 50 * kMiB, 700 * kKiB}) {
    blocks.emplace_back();
    ASSERT_EQ(this->allocate(bytes, &blocks.back()), CUDA_SUCCESS);
  }
  for (const CUdeviceptr block : blocks) ASSERT_EQ(this->free(block), CUDA_SUCCESS);
  std::size_t free = 0, total = 0;

  ASSERT_EQ(this->allocator->memory_info(caller_on(0), &free, &total), CUDA_SUCCESS);

  EXPECT_EQ(free, 256 * kMiB);
  EXPECT_EQ(total, 256 * kMiB);
}

TYPED_TEST(DeviceAllocatorTest, ExhaustionIsOutOfMemoryAndEndsWithTheFirstFree) {
  for (const std::size_t bytes : {300 * kKiB, 2 * kMiB, 7 * kMiB, 40 * kMiB}) {
    this->start(128 * kMiB);
    std::vector<CUdeviceptr> blocks;
    CUdeviceptr out = 0;
    CUresult result = CUDA_SUCCESS;
    while ((result = this->allocate(bytes, &out)) == CUDA_SUCCESS) blocks.push_back(out);
    EXPECT_EQ(result, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_GE(blocks.size() * ((bytes + 2 * kMiB - 1) / (2 * kMiB) * 2 * kMiB) + 40 * kMiB, 128 * kMiB);
    ASSERT_TRUE(this->is_valid());

    ASSERT_EQ(this->free(blocks[blocks.size() / 2]), CUDA_SUCCESS);

    EXPECT_EQ(this->allocate(bytes, &out), CUDA_SUCCESS) << bytes;
  }
}

// Sizes as a program asks for them: many small, some large, odd in their last bytes.
std::size_t random_size(std::mt19937_64& random) {
  const auto magnitude = random() % 27;
  return 1 + random() % (std::size_t{1} << magnitude);
}

TYPED_TEST(DeviceAllocatorTest, TenThousandRandomStepsWithCallsThatFail) {
  for (const unsigned every : {0u, 3u, 11u, 40u}) {
    this->start(512 * kMiB);
    CUdeviceptr first = 0;  // arms
    ASSERT_EQ(this->allocate(1000, &first), CUDA_SUCCESS);
    ASSERT_EQ(this->free(first), CUDA_SUCCESS);
    if (every != 0) {
      this->gpu.fail_every(every, CUDA_ERROR_OUT_OF_MEMORY,
                           {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemAddressReserve"});
    }
    std::mt19937_64 random(every + 1);
    std::map<CUdeviceptr, std::size_t> live;
    std::uint64_t live_bytes = 0;
    const int steps = every == 0 ? 10000 : 2500;
    for (int step = 0; step < steps; ++step) {
      const bool grows = live.empty() || (live_bytes < 400 * kMiB && random() % 100 < 55);
      if (grows) {
        const std::size_t bytes = random_size(random);
        CUdeviceptr block = 0;
        const CUresult result = this->allocate(bytes, &block);
        ASSERT_TRUE(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY) << step << " " << result;
        if (result == CUDA_SUCCESS) {
          const auto above = live.lower_bound(block);
          ASSERT_TRUE(above == live.end() || above->first >= block + bytes) << step;
          ASSERT_TRUE(above == live.begin() || std::prev(above)->first + std::prev(above)->second <= block) << step;
          ASSERT_EQ(block % 512, 0u);
          live[block] = bytes;
          live_bytes += bytes;
          if (this->gpu.is_open_to(block, 1, 0)) this->gpu.launch(this->gpu.context_of(0), block, bytes);
        }
      } else {
        auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        ASSERT_EQ(this->free(victim->first), CUDA_SUCCESS) << step;
        live_bytes -= victim->second;
        live.erase(victim);
      }
      if (random() % 16 == 0) this->gpu.finish_all();
      ASSERT_TRUE(this->is_valid()) << "step " << step << ", every " << every;
    }
    this->gpu.fail_every(0);
    for (const auto& [block, bytes] : live) ASSERT_EQ(this->free(block), CUDA_SUCCESS);
    std::size_t free = 0, total = 0;
    ASSERT_EQ(this->allocator->memory_info(caller_on(0), &free, &total), CUDA_SUCCESS);
    EXPECT_EQ(free, total);
    ASSERT_TRUE(this->is_valid());
  }
}

TYPED_TEST(DeviceAllocatorTest, ServesDevicesOfEverySize) {
  for (std::uint64_t granules = 0; granules <= 24; ++granules) {
    for (const std::int64_t off : {-1, 0, 1, 65536}) {
      if (granules == 0 && off < 0) continue;
      const std::uint64_t capacity = granules * 2 * kMiB + static_cast<std::uint64_t>(off);
      this->start(capacity);
      std::mt19937_64 random(capacity);
      std::vector<CUdeviceptr> live;
      for (int step = 0; step < 60; ++step) {
        CUdeviceptr block = 0;
        if (live.size() < 20 && this->allocate(1 + random() % (5 * kMiB), &block) == CUDA_SUCCESS) {
          live.push_back(block);
        } else if (!live.empty()) {
          ASSERT_EQ(this->free(live.back()), CUDA_SUCCESS);
          live.pop_back();
        }
        ASSERT_LE(this->gpu.used(), capacity);
        ASSERT_TRUE(this->is_valid()) << capacity << " " << step;
      }
    }
  }
}

}  // namespace
}  // namespace cuheap
