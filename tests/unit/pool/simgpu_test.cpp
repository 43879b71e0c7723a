// The pool on the make-believe GPU: real bytes, real streams, real contexts. What the fake driver only counts is seen here
// as data: a granule that moved keeps its bytes, memory reused too early is overwritten.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "shim/driver/driver.h"
#include "shim/pool/pool.h"
#include "simgpu/control.h"
#include "tracer/base/process.h"

namespace cuheap {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class NoSink final : public EventSink {
 public:
  void record(const Event&) override {}
};

class PoolOnSimgpu : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(process::claim());
    ASSERT_EQ(::cuInit(0), CUDA_SUCCESS);
    ASSERT_TRUE(find_driver());
    ASSERT_TRUE(is_driver_simulated());
    for (int i = 0; i < 2; ++i) ASSERT_EQ(driver().cuDevicePrimaryCtxRetain(&contexts[i], i), CUDA_SUCCESS);
    ASSERT_EQ(driver().cuCtxSetCurrent(contexts[0]), CUDA_SUCCESS);
  }
  void TearDown() override {
    if (pool != nullptr) {
      for (const CUdeviceptr block : live) EXPECT_EQ(free(block), CUDA_SUCCESS);
      EXPECT_TRUE(pool->is_valid());
      pool->frozen(true);  // gives everything back, for the next test
    }
    simgpu_clear_faults();
    simgpu_set_capacity(0, std::uint64_t{24} << 30);
    driver().cuCtxSetCurrent(nullptr);
    for (int i = 0; i < 2; ++i) driver().cuDevicePrimaryCtxReset_v2(i);
  }
  void start(bool ordered = false) {
    pool = std::make_unique<Pool>();
    pool->start({.driver = &driver(),
                 .sink = &sink,
                 .is_simulated = true,
                 .ordered_free = ordered,
                 .has_context_events = has(driver().cuCtxRecordEvent)});
  }
  Caller caller(int device = 0) {
    Caller here;
    here.device = device;
    here.context = reinterpret_cast<std::uint64_t>(contexts[device]);
    return here;
  }
  CUdeviceptr get(std::size_t bytes, int device = 0) {
    AllocationRequest request;
    request.bytes = bytes;
    request.caller = caller(device);
    CUdeviceptr out = 0;
    std::uint8_t flags = 0;
    return pool->allocate(request, &out, &flags) == CUDA_SUCCESS && flags == kEventPooled ? out : 0;
  }
  CUresult free(CUdeviceptr address) { return pool->release(caller(), address); }
  void end_graph(const void* graph) {
    const auto number = reinterpret_cast<std::uint64_t>(graph);
    pool->graph_ended(pool->graph_ending(number), number, true);
  }
  static void fill(CUdeviceptr address, std::size_t bytes, unsigned char value) {
    const std::vector<unsigned char> data(bytes, value);
    ASSERT_EQ(driver().cuMemcpyHtoD_v2(address, data.data(), bytes), CUDA_SUCCESS);
  }
  static bool holds(CUdeviceptr address, std::size_t bytes, unsigned char value) {
    std::vector<unsigned char> data(bytes);
    if (driver().cuMemcpyDtoH_v2(data.data(), address, bytes) != CUDA_SUCCESS) return false;
    return std::vector<unsigned char>(bytes, value) == data;
  }

  CUcontext contexts[2] = {};
  NoSink sink;
  std::unique_ptr<Pool> pool;
  std::vector<CUdeviceptr> live;
};

TEST_F(PoolOnSimgpu, BlocksKeepTheirBytesWhileGranulesMoveAroundThem) {
  simgpu_set_capacity(0, simgpu_used_bytes(0) + 256 * kMiB);
  start();
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(get(8 * kMiB));
  for (std::size_t i = 0; i < blocks.size(); ++i) fill(blocks[i], 4096, static_cast<unsigned char>(i));
  for (std::size_t i = 0; i < blocks.size(); i += 2) ASSERT_EQ(free(blocks[i]), CUDA_SUCCESS);

  for (int i = 0; i < 4; ++i) {
    const CUdeviceptr block = get(16 * kMiB);
    ASSERT_NE(block, 0u);
    live.push_back(block);
    fill(block, 16 * kMiB, 0xee);
  }

  for (std::size_t i = 1; i < blocks.size(); i += 2) {
    EXPECT_TRUE(holds(blocks[i], 4096, static_cast<unsigned char>(i))) << i;
    live.push_back(blocks[i]);
  }
  EXPECT_EQ(pool->figures(0).steals, 32u);
  EXPECT_EQ(pool->figures(0).held_bytes, 128 * kMiB);
}

TEST_F(PoolOnSimgpu, TheNextOwnerDoesNotSeeWritesOfTheLast) {
  for (const bool ordered : {false, true}) {
    start(ordered);
    CUstream stream = nullptr;
    ASSERT_EQ(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (int i = 0; i < 5; ++i) {
      simgpu_delay_stream(stream, 20'000'000);
      const CUdeviceptr old = get(3 * kMiB);
      ASSERT_EQ(::cuMemsetD8Async(old, 0xaa, 3 * kMiB, stream), CUDA_SUCCESS);
      ASSERT_EQ(free(old), CUDA_SUCCESS);

      const CUdeviceptr next = get(3 * kMiB);
      ASSERT_NE(next, 0u);
      fill(next, 3 * kMiB, 0x11);
      ASSERT_EQ(driver().cuStreamSynchronize(stream), CUDA_SUCCESS);

      EXPECT_TRUE(holds(next, 3 * kMiB, 0x11)) << (ordered ? "ordered" : "sync");
      ASSERT_EQ(free(next), CUDA_SUCCESS);
    }
    EXPECT_EQ(driver().cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    EXPECT_TRUE(pool->is_valid());
    pool->frozen(true);
  }
}

TEST_F(PoolOnSimgpu, MemoryInfoAgreesWithTheDriversOwnAllocator) {
  start();
  ASSERT_EQ(free(get(1000)), CUDA_SUCCESS);
  std::size_t before = 0, pooled = 0, native = 0, total = 0;
  ASSERT_EQ(pool->memory_info(caller(), &before, &total), CUDA_SUCCESS);
  for (const std::size_t bytes : {20001ul, 2 * kMiB, 20 * kMiB, 100 * kMiB + 1}) {
    CUdeviceptr direct = 0;
    ASSERT_EQ(driver().cuMemAlloc_v2(&direct, bytes), CUDA_SUCCESS);
    ASSERT_EQ(pool->memory_info(caller(), &native, &total), CUDA_SUCCESS);
    ASSERT_EQ(driver().cuMemFree_v2(direct), CUDA_SUCCESS);
    const CUdeviceptr block = get(bytes);
    ASSERT_EQ(pool->memory_info(caller(), &pooled, &total), CUDA_SUCCESS);
    ASSERT_EQ(free(block), CUDA_SUCCESS);

    EXPECT_EQ(before - pooled, before - native) << bytes;
  }
  ASSERT_EQ(pool->memory_info(caller(), &pooled, &total), CUDA_SUCCESS);
  EXPECT_EQ(pooled, before);
}

TEST_F(PoolOnSimgpu, HoldsAsManySmallBlocksAsTheDriversOwnAllocator) {
  simgpu_set_capacity(0, simgpu_used_bytes(0) + 128 * kMiB);
  for (const std::size_t least : {65ul << 10, 100'000ul, 129ul << 10, 260'000ul, 700'000ul, 0ul}) {
    std::mt19937_64 random(7);
    const auto next = [&] { return least != 0 ? least : 1 + random() % (kMiB - 1); };
    std::vector<CUdeviceptr> native, pooled;
    for (CUdeviceptr block = 0; driver().cuMemAlloc_v2(&block, next()) == CUDA_SUCCESS;) native.push_back(block);
    for (const CUdeviceptr block : native) ASSERT_EQ(driver().cuMemFree_v2(block), CUDA_SUCCESS);
    random.seed(7);
    start();
    for (CUdeviceptr block = get(next()); block != 0; block = get(next())) pooled.push_back(block);

    EXPECT_GE(pooled.size(), native.size()) << least;

    for (const CUdeviceptr block : pooled) ASSERT_EQ(free(block), CUDA_SUCCESS);
    pool->frozen(true);
  }
}

TEST_F(PoolOnSimgpu, ACaptureStaysValidWhileThePoolGrowsAndFrees) {
  start();
  const CUdeviceptr early = get(3 * kMiB);
  CUstream stream = nullptr;
  ASSERT_EQ(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  Caller capturing = caller();
  capturing.capture.open = true;
  pool->capture_begun(capturing.context, stream);
  ASSERT_EQ(driver().cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);

  AllocationRequest request;
  request.bytes = 30 * kMiB;
  request.caller = capturing;
  CUdeviceptr inside = 0;
  std::uint8_t flags = 0;
  ASSERT_EQ(pool->allocate(request, &inside, &flags), CUDA_SUCCESS);
  ASSERT_EQ(flags, kEventPooled);
  ASSERT_EQ(::cuMemsetD8Async(inside, 0x77, 30 * kMiB, stream), CUDA_SUCCESS);
  ASSERT_EQ(pool->release(capturing, early), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(driver().cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  pool->capture_ended(stream, graph);

  CUgraphExec exec = nullptr;
  ASSERT_EQ(driver().cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  pool->graph_instantiated(exec, graph);
  ASSERT_EQ(free(inside), CUDA_SUCCESS);
  const CUdeviceptr other = get(30 * kMiB);
  EXPECT_NE(other, inside);
  fill(other, 4096, 0x22);
  ASSERT_EQ(driver().cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  ASSERT_EQ(driver().cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_TRUE(holds(other, 4096, 0x22));
  ASSERT_EQ(driver().cuGraphExecDestroy(exec), CUDA_SUCCESS);
  end_graph(exec);
  ASSERT_EQ(driver().cuGraphDestroy(graph), CUDA_SUCCESS);
  end_graph(graph);

  ASSERT_EQ(free(other), CUDA_SUCCESS);
  EXPECT_EQ(pool->figures(0).waiting_bytes, 0u);
  EXPECT_EQ(driver().cuStreamDestroy_v2(stream), CUDA_SUCCESS);
}

TEST_F(PoolOnSimgpu, AnEndedContextReturnsItsMemoryToTheDriver) {
  start();
  const auto used = simgpu_used_bytes(0);
  ASSERT_NE(get(300 * kMiB), 0u);
  ASSERT_NE(get(1000), 0u);
  const Caller dying = caller();

  ASSERT_EQ(driver().cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  pool->context_ended(dying.context, 0, true);

  EXPECT_LE(simgpu_used_bytes(0), used);
  ASSERT_EQ(driver().cuDevicePrimaryCtxRetain(&contexts[0], 0), CUDA_SUCCESS);
  ASSERT_EQ(driver().cuCtxSetCurrent(contexts[0]), CUDA_SUCCESS);
}

TEST_F(PoolOnSimgpu, PeersCopyIntoPooledMemory) {
  start();
  const CUdeviceptr here = get(5 * kMiB);
  live.push_back(here);
  ASSERT_EQ(driver().cuCtxSetCurrent(contexts[1]), CUDA_SUCCESS);
  ASSERT_EQ(driver().cuCtxEnablePeerAccess(contexts[0], 0), CUDA_SUCCESS);
  pool->peer_enabled(reinterpret_cast<std::uint64_t>(contexts[1]), reinterpret_cast<std::uint64_t>(contexts[0]));
  CUdeviceptr there = 0;
  ASSERT_EQ(driver().cuMemAlloc_v2(&there, 5 * kMiB), CUDA_SUCCESS);
  fill(there, 5 * kMiB, 0x5a);

  ASSERT_EQ(::cuMemcpyDtoD_v2(here, there, 5 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(driver().cuCtxSynchronize(), CUDA_SUCCESS);

  ASSERT_EQ(driver().cuCtxSetCurrent(contexts[0]), CUDA_SUCCESS);
  EXPECT_TRUE(holds(here, 5 * kMiB, 0x5a));
}

TEST_F(PoolOnSimgpu, RandomTrafficKeepsEveryBlocksBytes) {
  simgpu_set_capacity(0, simgpu_used_bytes(0) + 256 * kMiB);
  start();
  std::mt19937_64 random(4);
  struct Owned {
    CUdeviceptr address;
    std::size_t bytes;
    unsigned char value;
  };
  std::vector<Owned> owned;
  for (int step = 0; step < 800; ++step) {
    const std::size_t bytes = 1 + random() % (std::size_t{1} << (8 + random() % 18));
    const CUdeviceptr block = owned.size() < 40 ? get(bytes) : 0;
    if (block != 0) {
      owned.push_back({block, bytes, static_cast<unsigned char>(step)});
      fill(block, 1, owned.back().value);
      fill(block + bytes - 1, 1, owned.back().value);
    } else if (!owned.empty()) {
      std::swap(owned[random() % owned.size()], owned.back());
      const Owned gone = owned.back();
      owned.pop_back();
      ASSERT_TRUE(holds(gone.address, 1, gone.value)) << step;
      ASSERT_TRUE(holds(gone.address + gone.bytes - 1, 1, gone.value)) << step;
      ASSERT_EQ(free(gone.address), CUDA_SUCCESS);
    }
    ASSERT_TRUE(pool->is_valid()) << step;
  }
  for (const Owned& block : owned) live.push_back(block.address);
}

}  // namespace
}  // namespace cuheap
