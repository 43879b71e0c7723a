#include "shim/pool/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <set>
#include <thread>

#include "pool_host.h"

namespace cuheap {
namespace {

// ---- placing

TEST_F(PoolTest, ServesAndMarksItsOwn) {
  start(1 * kGiB);

  const CUdeviceptr block = get(20001);

  ASSERT_NE(block, 0u);
  EXPECT_EQ(flags, kEventPooled);
  EXPECT_TRUE(gpu.is_open_to(block, 20001, 0));
  EXPECT_EQ(gpu.calls("cuMemAlloc"), 0u);
}

TEST_F(PoolTest, AlignsBySize) {
  start(1 * kGiB);
  for (const std::size_t bytes : {1ul, 511ul, 513ul, 60000ul, 64 * kKiB, 70000ul, 1 * kMiB, 1 * kMiB + 1, 2 * kMiB,
                                  2 * kMiB + 1, 5 * kMiB, 40 * kMiB}) {
    const CUdeviceptr block = get(bytes);
    ASSERT_NE(block, 0u) << bytes;
    EXPECT_EQ(block % (bytes < 1 * kMiB ? 512 : bytes < 2 * kMiB ? 64 * kKiB : 2 * kMiB), 0u) << bytes;
  }
}

TEST_F(PoolTest, LargeBlocksShareNoPinPage) {
  start(2 * kGiB);
  std::map<std::uint64_t, std::set<CUdeviceptr>> by_page;
  std::map<CUdeviceptr, std::size_t> sizes;
  std::mt19937_64 random(3);
  for (int i = 0; i < 400; ++i) {
    const std::size_t bytes = 1 + random() % (4 * kMiB);
    const CUdeviceptr block = get(bytes);
    ASSERT_NE(block, 0u);
    sizes[block] = bytes;
    for (std::uint64_t page = block / (64 * kKiB); page <= (block + bytes - 1) / (64 * kKiB); ++page) by_page[page].insert(block);
  }

  for (const auto& [page, blocks] : by_page) {
    if (blocks.size() < 2) continue;
    for (const CUdeviceptr block : blocks) EXPECT_LT(sizes[block], 1 * kMiB);
  }
}

TEST_F(PoolTest, SmallBlocksLiveApartFromLargeOnes) {
  start(1 * kGiB);
  const CUdeviceptr large = get(16 * kMiB);
  const CUdeviceptr small = get(1000);
  const CUdeviceptr next = get(16 * kMiB);

  EXPECT_EQ(next, large + 16 * kMiB);
  EXPECT_TRUE(small < large || small >= next + 16 * kMiB);
}

TEST_F(PoolTest, ReusesAFreedBlockWithoutAnyMemoryCall) {
  start(1 * kGiB);
  const CUdeviceptr first = get(3 * kMiB);
  ASSERT_EQ(free(first), CUDA_SUCCESS);
  const auto calls = gpu.calls("cuMemCreate") + gpu.calls("cuMemMap") + gpu.calls("cuMemSetAccess") + gpu.calls("cuMemUnmap");

  const CUdeviceptr second = get(3 * kMiB);

  EXPECT_EQ(second, first);
  EXPECT_EQ(gpu.calls("cuMemCreate") + gpu.calls("cuMemMap") + gpu.calls("cuMemSetAccess") + gpu.calls("cuMemUnmap"), calls);
}

TEST_F(PoolTest, GivesABlockOf32MiBOneHandle) {
  start(1 * kGiB);
  get(1000);  // arms
  const auto before = gpu.calls("cuMemCreate");

  ASSERT_NE(get(100 * kMiB + 5), 0u);

  EXPECT_EQ(gpu.calls("cuMemCreate"), before + 1);
}

TEST_F(PoolTest, ReusesAnIdleHugeHandleOfAboutTheSameSize) {
  start(4 * kGiB);
  const CUdeviceptr first = get(100 * kMiB);
  ASSERT_EQ(free(first), CUDA_SUCCESS);
  const auto before = gpu.calls("cuMemCreate");

  EXPECT_EQ(get(97 * kMiB), first);
  EXPECT_EQ(gpu.calls("cuMemCreate"), before);
  EXPECT_NE(get(50 * kMiB), 0u);
  EXPECT_EQ(gpu.calls("cuMemCreate"), before + 1);
}

// ---- what the driver would have said

TEST_F(PoolTest, LeavesTheOddCasesToTheDriver) {
  start(1 * kGiB);
  CUdeviceptr out = 42;

  EXPECT_EQ(allocate(0, &out), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(out, 42u);
  EXPECT_EQ(free(0), CUDA_SUCCESS);
  EXPECT_EQ(free(0xdead000), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PoolTest, RefusesDoubleAndInteriorFrees) {
  start(1 * kGiB);
  const CUdeviceptr block = get(20001);

  EXPECT_EQ(free(block + 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(free(block), CUDA_SUCCESS);
  EXPECT_EQ(free(block), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PoolTest, StepsAsideForListedCallers) {
  start(1 * kGiB);
  CUdeviceptr block = 0;

  ASSERT_EQ(allocate(5 * kMiB, &block, caller_on(0), 1), CUDA_SUCCESS);

  EXPECT_EQ(flags, 0);
  EXPECT_EQ(gpu.calls("cuMemAlloc"), 1u);
  EXPECT_EQ(free(block), CUDA_SUCCESS);
  EXPECT_EQ(gpu.used(), 0u);
}

TEST_F(PoolTest, StepsAsideWithoutVmmSupport) {
  start(1 * kGiB);
  gpu.set_vmm_supported(false);

  EXPECT_NE(get(5 * kMiB), 0u);

  EXPECT_EQ(gpu.calls("cuMemAlloc"), 1u);
  EXPECT_EQ(sink->of(EventKind::PoolActivity).size(), 1u);
}

TEST_F(PoolTest, StepsAsideWhenItsSelfTestFails) {
  for (const char* name : {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemAddressReserve"}) {
    start(1 * kGiB);
    gpu.fail_every(1, CUDA_ERROR_NOT_SUPPORTED, {name});

    EXPECT_NE(get(5 * kMiB), 0u) << name;

    EXPECT_EQ(flags, 0) << name;
    EXPECT_EQ(gpu.calls("cuMemAlloc"), 1u) << name;
    gpu.fail_every(0);
  }
}

TEST_F(PoolTest, LeavesNothingBehindAfterItsSelfTest) {
  start(1 * kGiB);

  get(1000);

  EXPECT_EQ(gpu.used(), 2 * kMiB);
  EXPECT_EQ(gpu.handles(), 1u);
}

TEST_F(PoolTest, FallsBackToFewerFlags) {
  start(1 * kGiB);
  gpu.fail_once("cuMemSetAccess", 1, CUDA_ERROR_UNKNOWN);  // WSL2 and the RDMA flag

  EXPECT_NE(get(5 * kMiB), 0u);

  EXPECT_EQ(flags, kEventPooled);
}

TEST_F(PoolTest, AutoPoolsOnlyWhereItHasBeenProved) {
  start(1 * kGiB, 1, [](PoolConfig& config) { config.is_forced = false; });
  EXPECT_NE(get(1000), 0u);
  EXPECT_EQ(flags, 0);

  start(1 * kGiB, 1, [](PoolConfig& config) {
    config.is_forced = false;
    config.is_simulated = true;
  });
  EXPECT_NE(get(1000), 0u);
  EXPECT_EQ(flags, kEventPooled);
}

TEST_F(PoolTest, SticksToTheDriverAfterAStickyError) {
  start(1 * kGiB);
  const CUdeviceptr block = get(5 * kMiB);
  gpu.set_sticky(CUDA_ERROR_ILLEGAL_ADDRESS);

  EXPECT_EQ(free(block), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr out = 0;
  EXPECT_EQ(allocate(5 * kMiB, &out), CUDA_ERROR_ILLEGAL_ADDRESS);

  EXPECT_FALSE(pool->is_pooling(0));
  gpu.set_sticky(CUDA_SUCCESS);
  EXPECT_EQ(free(block), CUDA_SUCCESS);  // it had not been freed
}

// ---- defragmentation

TEST_F(PoolTest, MovesGranulesWhereSegmentsWouldFail) {
  // Blocks of 8 MiB fill the device; every second one is freed. No 16 MiB lie together, and 16 MiB cannot be created.
  start(256 * kMiB);
  std::vector<CUdeviceptr> blocks;
  for (CUdeviceptr block = get(8 * kMiB); block != 0 && flags == kEventPooled; block = get(8 * kMiB)) blocks.push_back(block);
  ASSERT_EQ(blocks.size(), 32u);
  for (std::size_t i = 0; i < blocks.size(); i += 2) ASSERT_EQ(free(blocks[i]), CUDA_SUCCESS);

  std::vector<CUdeviceptr> large;
  for (int i = 0; i < 8; ++i) large.push_back(get(16 * kMiB));

  for (const CUdeviceptr block : large) {
    ASSERT_NE(block, 0u);
    EXPECT_TRUE(gpu.is_open_to(block, 16 * kMiB, 0));
  }
  EXPECT_EQ(pool->figures(0).held_bytes, 256 * kMiB);
  EXPECT_EQ(sink->mapped(), gpu.mapped());
  EXPECT_EQ(gpu.calls("cuMemAlloc"), 1u);  // the one that found the device full
}

TEST_F(PoolTest, NeverTakesMoreThanItMustBecauseOfALiveFence) {
  // PyTorch #193400: 91 MiB and 45.5 MiB in turn beside a live 2 MiB grew without end.
  start(8 * kGiB);
  const CUdeviceptr fence = get(2 * kMiB);
  for (int i = 0; i < 200; ++i) {
    const CUdeviceptr a = get(91 * kMiB);
    const CUdeviceptr b = get(91 * kMiB / 2);
    ASSERT_NE(a, 0u);
    ASSERT_NE(b, 0u);
    ASSERT_EQ(free(a), CUDA_SUCCESS);
    ASSERT_EQ(free(b), CUDA_SUCCESS);
  }
  EXPECT_LE(pool->figures(0).held_bytes, 2 * (2 + 92 + 46) * kMiB);
  EXPECT_EQ(free(fence), CUDA_SUCCESS);
}

TEST_F(PoolTest, CoversARequestWithIdleMemoryOfEveryKind) {
  start(256 * kMiB);
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(get(8 * kMiB));
  for (int i = 0; i < 64; ++i) blocks.push_back(get(512 * kKiB));
  blocks.push_back(get(64 * kMiB));
  for (const CUdeviceptr block : blocks) ASSERT_EQ(free(block), CUDA_SUCCESS);

  const CUdeviceptr all = get(256 * kMiB);

  EXPECT_NE(all, 0u);
  EXPECT_EQ(flags, kEventPooled);
}

TEST_F(PoolTest, ARequestFailsOnlyIfIdleAndFreeMemoryCannotCoverIt) {
  start(64 * kMiB);
  const CUdeviceptr pin = get(2 * kMiB);
  std::vector<CUdeviceptr> rest;
  for (int i = 0; i < 31; ++i) rest.push_back(get(2 * kMiB));
  for (const CUdeviceptr block : rest) ASSERT_NE(block, 0u);
  CUdeviceptr out = 7;
  EXPECT_EQ(allocate(2 * kMiB, &out), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(out, 7u);
  for (std::size_t i = 0; i < rest.size(); i += 2) ASSERT_EQ(free(rest[i]), CUDA_SUCCESS);

  EXPECT_NE(get(30 * kMiB), 0u);   // 16 granules lie free, each alone
  EXPECT_NE(get(2 * kMiB), 0u);
  EXPECT_EQ(allocate(2 * kMiB, &out), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(free(pin), CUDA_SUCCESS);
}

TEST_F(PoolTest, LeavesItToTheHookToRecordAnOutOfMemory) {
  start(16 * kMiB);
  ASSERT_NE(get(8 * kMiB), 0u);
  CUdeviceptr out = 0;

  EXPECT_EQ(allocate(12 * kMiB, &out), CUDA_ERROR_OUT_OF_MEMORY);

  EXPECT_TRUE(sink->of(EventKind::OutOfMemory).empty());
}

TEST_F(PoolTest, GivesIdleMemoryBackToDirectRequests) {
  start(64 * kMiB);
  const CUdeviceptr block = get(30 * kMiB);
  const CUdeviceptr more = get(30 * kMiB);
  ASSERT_EQ(free(block), CUDA_SUCCESS);
  ASSERT_EQ(free(more), CUDA_SUCCESS);
  CUdeviceptr direct = 0;

  EXPECT_EQ(allocate(60 * kMiB, &direct, caller_on(0), 1), CUDA_SUCCESS);
  EXPECT_EQ(pool->figures(0).held_bytes, sink->granule_bytes());
}

TEST_F(PoolTest, RollsBackWhicheverCallFails) {
  // Every call of one slow allocation fails in turn: the books must be as before, and the request is served some other way.
  for (const char* name : {"cuMemCreate", "cuMemUnmap", "cuMemMap", "cuMemSetAccess"}) {
    for (unsigned nth = 1; nth <= 4; ++nth) {
      for (const CUresult code : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE}) {
        start(64 * kMiB);
        std::vector<CUdeviceptr> blocks;
        for (int i = 0; i < 30; ++i) blocks.push_back(get(2 * kMiB));
        for (std::size_t i = 0; i < blocks.size(); i += 2) ASSERT_EQ(free(blocks[i]), CUDA_SUCCESS);
        gpu.fail_once(name, nth, code);

        const CUdeviceptr block = get(8 * kMiB);

        EXPECT_TRUE(block == 0 || flags != kEventPooled || gpu.is_open_to(block, 8 * kMiB, 0)) << name << nth;
        ASSERT_TRUE(pool->is_valid()) << name << nth << " " << code;
        EXPECT_EQ(pool->figures(0).lost_bytes, 0u);
        for (std::size_t i = 1; i < blocks.size(); i += 2) {
          EXPECT_TRUE(gpu.is_open_to(blocks[i], 2 * kMiB, 0)) << name << nth;
          ASSERT_EQ(free(blocks[i]), CUDA_SUCCESS);
        }
        ASSERT_EQ(free(block), CUDA_SUCCESS);
        EXPECT_EQ(pool->figures(0).held_bytes, sink->granule_bytes()) << name << nth;
        EXPECT_EQ(sink->mapped(), gpu.mapped()) << name << nth << " " << code;
        EXPECT_TRUE(gpu.violations().empty()) << name << nth << (gpu.violations().empty() ? "" : gpu.violations().front());
      }
    }
  }
}

TEST_F(PoolTest, GranuleEventsSumUpToWhatTheDriverCounts) {
  start(512 * kMiB);
  std::mt19937_64 random(11);
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 500; ++i) {
    if (blocks.size() < 40 && random() % 3 != 0) {
      const CUdeviceptr block = get(1 + random() % (i % 7 == 0 ? 40 * kMiB : 3 * kMiB));
      if (block != 0 && flags == kEventPooled) blocks.push_back(block);
    } else if (!blocks.empty()) {
      ASSERT_EQ(free(blocks.back()), CUDA_SUCCESS);
      blocks.pop_back();
    }
  }
  EXPECT_EQ(sink->granule_bytes(), gpu.used());
  EXPECT_EQ(sink->mapped(), gpu.mapped());
  EXPECT_EQ(pool->figures(0).held_bytes, gpu.used());
}

TEST_F(PoolTest, ReturnsIdleMemoryWhenTheDeviceIsTight) {
  start(64 * kMiB);
  const CUdeviceptr first = get(30 * kMiB);
  const CUdeviceptr second = get(30 * kMiB);
  const CUdeviceptr third = get(4 * kMiB);
  ASSERT_NE(third, 0u);

  ASSERT_EQ(free(first), CUDA_SUCCESS);

  EXPECT_EQ(gpu.used(), 34 * kMiB);
  EXPECT_NE(second, 0u);
}

// ---- fences

TEST_F(PoolTest, AFreeWaitsForTheWorkQueuedBeforeIt) {
  start(1 * kGiB);
  const CUdeviceptr block = get(5 * kMiB);
  gpu.launch(gpu.context_of(0), block, 5 * kMiB);

  ASSERT_EQ(free(block), CUDA_SUCCESS);

  EXPECT_FALSE(gpu.is_busy(gpu.context_of(0)));
}

TEST_F(PoolTest, AFreeWaitsForTheFreeingContextAndForPeersToo) {
  start(1 * kGiB, 3);
  const CUdeviceptr block = get(5 * kMiB);
  const auto peer = gpu.context_of(1);
  const auto other = gpu.context_of(2);
  pool->peer_enabled(peer, gpu.context_of(0));
  pool->peer_enabled(other, gpu.context_of(0));
  gpu.launch(peer, block, 5 * kMiB);
  gpu.launch(other, block, 5 * kMiB);

  ASSERT_EQ(free(block, caller_on(2)), CUDA_SUCCESS);

  EXPECT_FALSE(gpu.is_busy(peer));
  EXPECT_FALSE(gpu.is_busy(other));
}

TEST_F(PoolTest, AFreeWaitsForTheOtherContextsOfItsDevice) {
  start(1 * kGiB);
  const auto other = gpu.new_context(0);
  pool->context_met(other, 0, 0);
  const CUdeviceptr block = get(5 * kMiB);
  gpu.launch(other, block, 5 * kMiB);

  ASSERT_EQ(free(block), CUDA_SUCCESS);

  EXPECT_FALSE(gpu.is_busy(other));
}

// A copy between peers without access: nothing says what it touches, and it may wait for what the host does next.
TEST_F(PoolTest, AFreeNeitherWaitsForAnotherDeviceNorHandsOutWhatItMayUse) {
  start(1 * kGiB, 2);
  const auto other = gpu.context_of(1);
  pool->context_met(other, 0, 1);
  const CUdeviceptr block = get(5 * kMiB);
  gpu.launch(other, 0, 0);

  ASSERT_EQ(free(block), CUDA_SUCCESS);

  EXPECT_TRUE(gpu.is_busy(other));
  const CUdeviceptr next = get(5 * kMiB);
  EXPECT_NE(next, block);
  gpu.finish(other);
  free_bytes();
  EXPECT_EQ(pool->figures(0).waiting_bytes, 0u);
  EXPECT_EQ(free(next), CUDA_SUCCESS);
}

TEST_F(PoolTest, MemoryThatAnotherDeviceMayUseIsWaitedForWhenItIsNeeded) {
  start(64 * kMiB, 2);
  const auto other = gpu.context_of(1);
  pool->context_met(other, 0, 1);
  const CUdeviceptr block = get(60 * kMiB);
  gpu.launch(other, 0, 0);
  ASSERT_EQ(free(block), CUDA_SUCCESS);
  ASSERT_TRUE(gpu.is_busy(other));

  const CUdeviceptr next = get(60 * kMiB);

  EXPECT_NE(next, 0u);
  EXPECT_FALSE(gpu.is_busy(other));
  EXPECT_EQ(free(next), CUDA_SUCCESS);
}

TEST_F(PoolTest, AStreamOrderedFreeCoversTheContextOfItsStream) {
  start(1 * kGiB);
  const auto other = gpu.new_context(0);
  const CUdeviceptr block = get(5 * kMiB);
  gpu.launch(other, block, 5 * kMiB);

  ASSERT_EQ(pool->release_async(caller_on(0), block, reinterpret_cast<CUstream>(other)), CUDA_SUCCESS);

  free_bytes();
  EXPECT_FALSE(gpu.is_busy(other));
}

TEST_F(PoolTest, SynchronisesWhereThereAreNoContextEvents) {
  start(1 * kGiB, 1, [](PoolConfig& config) { config.has_context_events = false; });
  const CUdeviceptr block = get(5 * kMiB);
  gpu.launch(gpu.context_of(0), block, 5 * kMiB);

  ASSERT_EQ(free(block), CUDA_SUCCESS);

  EXPECT_FALSE(gpu.is_busy(gpu.context_of(0)));
  EXPECT_EQ(gpu.calls("cuCtxRecordEvent"), 0u);
  EXPECT_EQ(gpu.calls("cuCtxSynchronize"), 1u);
}

TEST_F(PoolTest, OrderedFreesNeitherWaitNorLendMemoryEarly) {
  start(1 * kGiB, 1, [](PoolConfig& config) { config.ordered_free = true; });
  const CUdeviceptr block = get(5 * kMiB);
  gpu.launch(gpu.context_of(0), block, 5 * kMiB);

  ASSERT_EQ(free(block), CUDA_SUCCESS);
  EXPECT_TRUE(gpu.is_busy(gpu.context_of(0)));
  const CUdeviceptr second = get(5 * kMiB);
  EXPECT_NE(second, block);
  gpu.finish_all();
  const CUdeviceptr third = get(5 * kMiB);

  EXPECT_EQ(third, block);
}

TEST_F(PoolTest, OrderedFreesAreWaitedForWhenMemoryIsShort) {
  start(64 * kMiB, 1, [](PoolConfig& config) { config.ordered_free = true; });
  const CUdeviceptr block = get(40 * kMiB);
  gpu.launch(gpu.context_of(0), block, 40 * kMiB);
  ASSERT_EQ(free(block), CUDA_SUCCESS);

  EXPECT_NE(get(60 * kMiB), 0u);
  EXPECT_EQ(flags, kEventPooled);
}

// ---- events

/// Looks into the pool whenever a granule's beginning is recorded.
class WatchingSink final : public EventSink {
 public:
  void record(const Event& event) override {
    if (event.kind == EventKind::Allocate && event.family == Family::PoolGranule) seen_held += pool->figures(0).held_bytes;
    births += event.kind == EventKind::Allocate;
  }
  Pool* pool = nullptr;
  std::uint64_t seen_held = 0;
  unsigned births = 0;
};

// Else another thread could give the granule back, and its end would be recorded before its beginning.
TEST_F(PoolTest, AGranuleIsRecordedBeforeAnybodyCanHaveIt) {
  WatchingSink watching;
  start(1 * kGiB, 1, [&](PoolConfig& config) { config.sink = &watching; });
  watching.pool = pool.get();

  const CUdeviceptr block = get(5 * kMiB);

  EXPECT_EQ(watching.births, 3u);
  EXPECT_EQ(watching.seen_held, 0u);
  EXPECT_EQ(free(block), CUDA_SUCCESS);
}

// ---- captures and graphs

TEST_F(PoolTest, MakesNoFenceAndNoUnmapWhileACaptureIsOpen) {
  start(64 * kMiB);
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 30; ++i) blocks.push_back(get(2 * kMiB));
  for (std::size_t i = 0; i < 20; i += 2) ASSERT_EQ(free(blocks[i]), CUDA_SUCCESS);
  gpu.begin_capture();
  pool->capture_begun(gpu.context_of(0), nullptr);
  Caller caller = caller_on(0);
  caller.capture.open = true;

  ASSERT_EQ(free(blocks[1], caller), CUDA_SUCCESS);
  CUdeviceptr inside = 0;
  EXPECT_EQ(allocate(4 * kMiB, &inside, caller), CUDA_SUCCESS);
  static_cast<void>(free_bytes());
  EXPECT_EQ(pool->figures(0).waiting_bytes, 2 * kMiB);
  pool->capture_ended(nullptr, nullptr);
  gpu.end_capture();
  ASSERT_EQ(free(blocks[3]), CUDA_SUCCESS);

  EXPECT_EQ(pool->figures(0).waiting_bytes, 0u);
}

TEST_F(PoolTest, KeepsWhatAGraphSawUntilAllItsKinAreGone) {
  start(1 * kGiB);
  get(1000);
  gpu.begin_capture();
  pool->capture_begun(gpu.context_of(0), nullptr);
  Caller capturing = caller_on(0);
  capturing.capture.open = true;
  const CUdeviceptr block = get(5 * kMiB, capturing);
  const auto graph = reinterpret_cast<CUgraph>(1);
  const auto clone = reinterpret_cast<CUgraph>(2);
  const auto exec = reinterpret_cast<CUgraphExec>(3);
  pool->capture_ended(nullptr, graph);
  gpu.end_capture();
  pool->graph_cloned(clone, graph);
  pool->graph_instantiated(exec, clone);
  ASSERT_EQ(free(block), CUDA_SUCCESS);
  EXPECT_EQ(free(block), CUDA_ERROR_INVALID_VALUE);

  end_graph(graph);
  end_graph(clone);
  EXPECT_NE(get(5 * kMiB), block);
  gpu.launch(gpu.context_of(0), block, 5 * kMiB);  // the executable graph runs: the address is still mapped
  end_graph(exec);
  static_cast<void>(free_bytes());

  EXPECT_EQ(get(5 * kMiB), block);
}

TEST_F(PoolTest, AGraphThatTheDriverDoesNotDestroyKeepsOnAndARefusedNameIsFree) {
  start(1 * kGiB);
  get(1000);
  gpu.begin_capture();
  pool->capture_begun(gpu.context_of(0), nullptr);
  Caller capturing = caller_on(0);
  capturing.capture.open = true;
  const CUdeviceptr block = get(5 * kMiB, capturing);
  const auto graph = reinterpret_cast<CUgraph>(1);
  const auto next = reinterpret_cast<CUgraph>(1);  // the same number, given to another thread meanwhile
  const auto clone = reinterpret_cast<CUgraph>(2);
  pool->capture_ended(nullptr, graph);
  gpu.end_capture();
  pool->graph_cloned(clone, graph);
  ASSERT_EQ(free(block), CUDA_SUCCESS);
  pool->graph_ended(pool->graph_ending(1), 1, false);
  const std::uint64_t ending = pool->graph_ending(1);

  pool->graph_cloned(next, clone);
  pool->graph_ended(ending, 1, true);
  end_graph(clone);

  EXPECT_NE(get(5 * kMiB), block);  // the new graph knows it
  end_graph(next);
  free_bytes();
  EXPECT_EQ(get(5 * kMiB), block);
}

TEST_F(PoolTest, AGraphKeepsOnlyWhatItSaw) {
  start(1 * kGiB);
  get(1000);
  Caller capturing = caller_on(0);
  capturing.capture.open = true;
  CUdeviceptr blocks[3] = {};
  for (std::uintptr_t i = 0; i < 3; ++i) {
    gpu.begin_capture();
    pool->capture_begun(gpu.context_of(0), nullptr);
    blocks[i] = get(5 * kMiB + i * 2 * kMiB, capturing);
    pool->capture_ended(nullptr, reinterpret_cast<CUgraph>(i + 1));
    gpu.end_capture();
  }
  ASSERT_EQ(free(blocks[0]), CUDA_SUCCESS);

  end_graph(reinterpret_cast<CUgraph>(2));
  ASSERT_EQ(free(blocks[1]), CUDA_SUCCESS);
  ASSERT_EQ(free(blocks[2]), CUDA_SUCCESS);
  EXPECT_EQ(pool->figures(0).waiting_bytes, 14 * kMiB);  // of the first and the third
  EXPECT_EQ(get(7 * kMiB), blocks[1]);
  end_graph(reinterpret_cast<CUgraph>(3));
  free_bytes();

  EXPECT_EQ(pool->figures(0).waiting_bytes, 5 * kMiB);
}

TEST_F(PoolTest, WhatAChildOfSomeGraphUsesIsKept) {
  start(1 * kGiB);
  get(1000);
  gpu.begin_capture();
  pool->capture_begun(gpu.context_of(0), nullptr);
  Caller capturing = caller_on(0);
  capturing.capture.open = true;
  const CUdeviceptr block = get(5 * kMiB, capturing);
  const auto child = reinterpret_cast<CUgraph>(1);
  pool->capture_ended(nullptr, child);
  gpu.end_capture();
  ASSERT_EQ(free(block), CUDA_SUCCESS);

  pool->graph_child_set(child);
  end_graph(child);

  EXPECT_NE(get(5 * kMiB), block);
}

// One graph that lives on is what every model has.
TEST_F(PoolTest, WhatAGraphKeepsIsGivenUpBeforeAnOutOfMemory) {
  start(64 * kMiB);
  get(1000);
  for (int i = 0; i < 3; ++i) {
    gpu.begin_capture();
    pool->capture_begun(gpu.context_of(0), nullptr);
    Caller capturing = caller_on(0);
    capturing.capture.open = true;
    const CUdeviceptr block = get(20 * kMiB, capturing);
    pool->capture_ended(nullptr, reinterpret_cast<CUgraph>(1));
    gpu.end_capture();
    ASSERT_EQ(free(block), CUDA_SUCCESS);
  }
  ASSERT_GT(pool->figures(0).waiting_bytes, 40 * kMiB);

  const CUdeviceptr large = get(50 * kMiB);

  EXPECT_NE(large, 0u);
  EXPECT_EQ(flags, kEventPooled);
  EXPECT_EQ(free(large), CUDA_SUCCESS);
}

TEST_F(PoolTest, AFailedCaptureKeepsNothing) {
  start(1 * kGiB);
  get(1000);
  gpu.begin_capture();
  pool->capture_begun(gpu.context_of(0), nullptr);
  Caller capturing = caller_on(0);
  capturing.capture.open = true;
  const CUdeviceptr block = get(5 * kMiB, capturing);
  pool->capture_ended(nullptr, nullptr);
  gpu.end_capture();

  ASSERT_EQ(free(block), CUDA_SUCCESS);

  EXPECT_EQ(get(5 * kMiB), block);
}

// Plain memory is refused there, too; what that does to the capture the driver decides by a block of its own.
TEST_F(PoolTest, ACapturedStreamFreesNothing) {
  start(1 * kGiB);
  const CUdeviceptr block = get(5 * kMiB);
  const auto stream = reinterpret_cast<CUstream>(gpu.context_of(0));
  gpu.set_stream_state(CU_STREAM_CAPTURE_STATUS_ACTIVE);

  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(pool->release_async(caller_on(0), block, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }

  EXPECT_EQ(gpu.calls("cuMemAlloc"), 1u);  // one block is enough for all questions
  EXPECT_EQ(pool->figures(0).live_bytes, 5 * kMiB);
  gpu.set_stream_state(CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(pool->release_async(caller_on(0), block, stream), CUDA_SUCCESS);
}

TEST_F(PoolTest, AsksWithOneBlockPerContextHoweverTheyTakeTurns) {
  start(1 * kGiB);
  const auto other = gpu.new_context(0);
  const CUdeviceptr first = get(1000);
  const CUdeviceptr second = get(1000, caller_on(0, other));
  const auto stream = reinterpret_cast<CUstream>(other);
  gpu.set_stream_state(CU_STREAM_CAPTURE_STATUS_ACTIVE);

  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(pool->release_async(caller_on(0), first, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(pool->release_async(caller_on(0, other), second, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }

  EXPECT_EQ(gpu.calls("cuMemAlloc"), 2u);
  gpu.set_stream_state(CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(PoolTest, AsksOnceOfAStreamThatIsNone) {
  static DriverTable table;
  static int asked;
  asked = 0;
  start(1 * kGiB, 1, [](PoolConfig& config) {
    table = *config.driver;
    config.driver = &table;
  });
  table.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus*) { return CUDA_ERROR_INVALID_VALUE; };
  table.cuMemFreeAsync = [](CUdeviceptr, CUstream) {
    ++asked;
    return CUDA_ERROR_INVALID_VALUE;
  };
  const CUdeviceptr block = get(1000);

  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(pool->release_async(caller_on(0), block, reinterpret_cast<CUstream>(16)), CUDA_ERROR_INVALID_VALUE);
  }

  EXPECT_EQ(asked, 3);
  EXPECT_EQ(gpu.calls("cuMemAlloc"), 1u);
}

TEST_F(PoolTest, AStreamOrderedFreeIsNotProhibitedByACapture) {
  start(1 * kGiB);
  const CUdeviceptr block = get(5 * kMiB);
  gpu.set_prohibited(true);
  Caller prohibited = caller_on(0);
  prohibited.capture = {.open = true, .prohibited = true};

  EXPECT_EQ(pool->release_async(prohibited, block, reinterpret_cast<CUstream>(gpu.context_of(0))), CUDA_SUCCESS);

  EXPECT_EQ(gpu.calls("cuMemFree"), 0u);  // it would break the capture
  gpu.set_prohibited(false);
}

TEST_F(PoolTest, WhatACaptureProhibitsTheDriverRefuses) {
  start(1 * kGiB);
  const CUdeviceptr block = get(5 * kMiB);
  gpu.set_prohibited(true);
  Caller prohibited = caller_on(0);
  prohibited.capture = {.open = true, .prohibited = true};
  CUdeviceptr out = 0;

  EXPECT_EQ(allocate(1000, &out, prohibited), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(free(block, prohibited), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);

  gpu.set_prohibited(false);
  EXPECT_EQ(free(block), CUDA_SUCCESS);
}

// What a driver says for reasons of its own (a failed or an ended context, the end of the process) it would say of plain memory.
TEST_F(PoolTest, WhatIsWrongWithTheDriverIsNotAnsweredForIt) {
  static DriverTable table;
  static CUresult wrong;
  start(1 * kGiB, 1, [](PoolConfig& config) {
    table = *config.driver;
    config.driver = &table;
  });
  table.cuPointerSetAttribute = [](const void*, CUpointer_attribute, CUdeviceptr) { return wrong; };
  table.cuPointerGetAttribute = [](void*, CUpointer_attribute, CUdeviceptr) { return wrong; };
  table.cuMemGetAddressRange_v2 = [](CUdeviceptr*, size_t*, CUdeviceptr) { return wrong; };
  const CUdeviceptr block = get(1000);
  unsigned on = 1;
  unsigned long long id = 0;
  std::size_t size = 0;

  for (const CUresult each : {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_DEINITIALIZED}) {
    wrong = each;
    for (const CUdeviceptr address : {block, block + 1 * kMiB}) {  // the second is a hole
      EXPECT_EQ(pool->set_pointer_attribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address), each);
      EXPECT_EQ(pool->pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address), each);
      EXPECT_EQ(pool->address_range(nullptr, &size, address), each);
    }
  }

  wrong = CUDA_ERROR_NOT_SUPPORTED;  // of mapped memory
  EXPECT_EQ(pool->set_pointer_attribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block), CUDA_SUCCESS);
  EXPECT_EQ(pool->pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block), CUDA_SUCCESS);
}

// ---- contexts and peers

TEST_F(PoolTest, AnEndedContextTakesItsBlocksAlong) {
  start(1 * kGiB);
  const auto dying = gpu.new_context(0);
  const CUdeviceptr lost = get(30 * kMiB, caller_on(0, dying));
  const CUdeviceptr kept = get(5 * kMiB);
  gpu.launch(dying, lost, 1000);

  gpu.end_context(dying);
  pool->context_ended(dying, 0, true);

  EXPECT_EQ(free(lost), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(free(kept), CUDA_SUCCESS);
  EXPECT_LE(gpu.used(), 6 * kMiB);
}

TEST_F(PoolTest, TheNextLifeOfAContextOwnsNothingOfTheLast) {
  start(1 * kGiB);
  const auto context = gpu.context_of(0);
  const CUdeviceptr first = get(5 * kMiB, caller_on(0, context, 0));
  pool->context_ended(context, 0, true);
  const CUdeviceptr second = get(5 * kMiB, caller_on(0, context, 1));
  ASSERT_NE(first, 0u);

  pool->context_ended(context, 0, true);

  EXPECT_EQ(free(second, caller_on(0, context, 1)), CUDA_SUCCESS);
}

TEST_F(PoolTest, AFreeWaitsForAContextWhoseFormerEndIsToldLate) {
  start(1 * kGiB);
  const auto context = gpu.new_context(0);
  const CUdeviceptr block = get(5 * kMiB);
  pool->context_met(context, 0, 0);
  pool->context_met(context, 1, 0);  // made again by another thread, before the one that ended it says so
  pool->context_ended(context, 0, true);
  gpu.launch(context, block, 5 * kMiB);

  ASSERT_EQ(free(block), CUDA_SUCCESS);

  EXPECT_FALSE(gpu.is_busy(context));
}

TEST_F(PoolTest, AContextThatAnotherThreadEndedIsNotServed) {
  start(1 * kGiB);
  std::atomic<std::uint64_t> life{0};
  Caller caller = caller_on(0);
  caller.life = {&life, 0};
  EXPECT_EQ(free(get(5 * kMiB, caller), caller), CUDA_SUCCESS);
  const auto made = gpu.calls("cuMemCreate");
  life = 1;

  CUdeviceptr block = 0;
  EXPECT_EQ(allocate(5 * kMiB, &block, caller), CUDA_SUCCESS);
  EXPECT_EQ(flags, 0);  // the driver's answer
  EXPECT_EQ(allocate(50 * kMiB, &block, caller), CUDA_SUCCESS);

  EXPECT_EQ(gpu.calls("cuMemCreate"), made);
  EXPECT_EQ(pool->figures(0).blocks, 0u);
}

// The end comes while the driver is being asked for the memory.
TEST_F(PoolTest, AnEndThatOvertakesAnAllocationLeavesNothingBehind) {
  for (const std::size_t bytes : {1000ul, 5 * kMiB, 50 * kMiB}) {
    static std::atomic<std::uint64_t> life;
    static Pool* ending;
    static DriverTable table;
    life = 0;
    start(1 * kGiB, 1, [](PoolConfig& config) {
      table = *config.driver;
      config.driver = &table;
    });
    ending = pool.get();
    ASSERT_EQ(free(get(100)), CUDA_SUCCESS);  // arms
    pool->frozen(true);
    pool->frozen(false);
    table.cuMemSetAccess = [](CUdeviceptr address, size_t size, const CUmemAccessDesc* access, size_t count) {
      std::thread([] {
        life = 1;
        ending->context_ended(fake::FakeDriver::context_of(0), 0, true);
      }).join();
      return fake::driver().set_access(address, size, access, count);
    };
    Caller caller = caller_on(0);
    caller.life = {&life, 0};

    CUdeviceptr block = 0;
    EXPECT_EQ(allocate(bytes, &block, caller), CUDA_SUCCESS);

    EXPECT_EQ(flags, 0) << bytes;
    EXPECT_EQ(pool->figures(0).blocks, 0u) << bytes;
    EXPECT_TRUE(pool->is_valid());
  }
}

TEST_F(PoolTest, NothingIsAskedOfAContextThatIsBeingEnded) {
  start(1 * kGiB, 1, [](PoolConfig& config) { config.ordered_free = true; });
  const auto dying = gpu.new_context(0);
  std::atomic<std::uint64_t> life{0};
  pool->context_met(dying, 0, 0, {&life, 0});
  const CUdeviceptr block = get(5 * kMiB);
  gpu.launch(dying, block, 1000);
  ASSERT_EQ(free(block), CUDA_SUCCESS);
  get(20 * kMiB);  // asks for a fence of both contexts
  life = 1;      // under way
  gpu.end_context(dying);

  free_bytes();  // an event of it would be a dead one
  const CUdeviceptr other = get(5 * kMiB);
  EXPECT_NE(other, block);
  pool->context_ended(dying, 0, true);

  free_bytes();
  EXPECT_EQ(pool->figures(0).waiting_bytes, 0u);
}

TEST_F(PoolTest, AContextThatDidNotEndKeepsItsBlocks) {
  start(1 * kGiB);
  const CUdeviceptr block = get(5 * kMiB);

  pool->context_ended(gpu.context_of(0), 0, false);

  EXPECT_EQ(free(block), CUDA_SUCCESS);
}

TEST_F(PoolTest, ADeviceThatTheProcessWorksOnReachesOldAndNewMemory) {
  start(1 * kGiB, 2);
  const CUdeviceptr before = get(5 * kMiB);
  const CUdeviceptr huge = get(50 * kMiB);
  EXPECT_FALSE(gpu.is_open_to(before, 5 * kMiB, 1));

  pool->context_met(gpu.context_of(1), 0, 1);
  const CUdeviceptr after = get(20 * kMiB);

  for (const int device : {0, 1}) {
    EXPECT_TRUE(gpu.is_open_to(before, 5 * kMiB, device));
    EXPECT_TRUE(gpu.is_open_to(huge, 50 * kMiB, device));
    EXPECT_TRUE(gpu.is_open_to(after, 20 * kMiB, device));
  }
}

TEST_F(PoolTest, ADeviceThatWasThereBeforeReachesTheMemory) {
  start(1 * kGiB, 2);
  pool->context_met(gpu.context_of(1), 0, 1);

  EXPECT_TRUE(gpu.is_open_to(get(5 * kMiB), 5 * kMiB, 1));
}

TEST_F(PoolTest, ADeviceThatIsMetWhileAnotherIsArmedReachesItsMemory) {
  static Pool* arming;
  static DriverTable table;
  start(1 * kGiB, 2, [](PoolConfig& config) {
    table = *config.driver;
    config.driver = &table;
  });
  arming = pool.get();
  table.cuMemAddressFree = [](CUdeviceptr address, size_t size) {  // the last call of the self-test
    std::thread([] { arming->context_met(fake::FakeDriver::context_of(1), 0, 1); }).join();
    return fake::driver().unreserve(address, size);
  };

  EXPECT_TRUE(gpu.is_open_to(get(5 * kMiB), 5 * kMiB, 1));
}

// What is in transit is passed over when a device is met; it comes back to the books open to that device, wherever it ends.
TEST_F(PoolTest, ADeviceThatIsMetWhileAGrowthFailsReachesWhatStays) {
  static Pool* growing;
  static DriverTable table;
  static bool is_met;
  is_met = true;  // arming maps too
  start(1 * kGiB, 2, [](PoolConfig& config) {
    table = *config.driver;
    config.driver = &table;
  });
  growing = pool.get();
  table.cuMemMap = [](CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long) {
    if (is_met) return fake::driver().map(address, size, offset, handle);
    is_met = true;
    std::thread([] { growing->context_met(fake::FakeDriver::context_of(1), 0, 1); }).join();
    return CUDA_ERROR_NOT_SUPPORTED;
  };
  const CUdeviceptr first = get(10 * kMiB);
  const CUdeviceptr between = get(2 * kMiB);
  const CUdeviceptr last = get(10 * kMiB);
  for (const CUdeviceptr block : {first, last}) ASSERT_EQ(free(block), CUDA_SUCCESS);

  is_met = false;
  get(20 * kMiB);  // of the granules of both
  ASSERT_TRUE(is_met);

  EXPECT_EQ(pool->figures(0).steals, 0u);
  for (const CUdeviceptr block : {first, between, last}) EXPECT_TRUE(gpu.is_open_to(block, 2 * kMiB, 1)) << block;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(gpu.is_open_to(get(2 * kMiB), 2 * kMiB, 1));
}

TEST_F(PoolTest, ADeviceThatIsMetWhileMemoryCannotBeGivenBackReachesIt) {
  static Pool* giving;
  static DriverTable table;
  start(1 * kGiB, 2, [](PoolConfig& config) {
    table = *config.driver;
    config.driver = &table;
  });
  giving = pool.get();
  const CUdeviceptr huge = get(50 * kMiB);
  ASSERT_EQ(free(huge), CUDA_SUCCESS);
  table.cuMemUnmap = [](CUdeviceptr, size_t) {
    std::thread([] { giving->context_met(fake::FakeDriver::context_of(1), 0, 1); }).join();
    return CUDA_ERROR_INVALID_VALUE;
  };

  pool->relieve(0, 50 * kMiB);

  EXPECT_TRUE(gpu.is_open_to(huge, 50 * kMiB, 1));
  table.cuMemUnmap = [](CUdeviceptr address, size_t size) { return fake::driver().unmap(address, size); };
}

TEST_F(PoolTest, TheSelfTestTriesWhatTheOtherDevicesNeed) {
  static DriverTable table;
  start(1 * kGiB, 2, [](PoolConfig& config) {
    table = *config.driver;
    config.driver = &table;
  });
  table.cuMemSetAccess = [](CUdeviceptr address, size_t size, const CUmemAccessDesc* access, size_t count) {
    return count > 1 ? CUDA_ERROR_INVALID_DEVICE : fake::driver().set_access(address, size, access, count);
  };
  pool->context_met(gpu.context_of(1), 0, 1);

  EXPECT_NE(get(5 * kMiB), 0u);
  EXPECT_EQ(flags, 0);
  EXPECT_FALSE(pool->is_pooling(0));
}

TEST_F(PoolTest, EachDeviceThatServesReachesTheOthersMemory) {
  start(1 * kGiB, 2);
  const CUdeviceptr first = get(5 * kMiB);
  gpu.set_current(gpu.context_of(1));
  const CUdeviceptr second = get(5 * kMiB, caller_on(1));

  EXPECT_TRUE(gpu.is_open_to(first, 5 * kMiB, 1));
  EXPECT_TRUE(gpu.is_open_to(second, 5 * kMiB, 0));
}

// A copy that the host makes without peer access is staged for plain memory.
TEST_F(PoolTest, MemoryStaysOpenWhenPeerAccessIsTakenAway) {
  start(1 * kGiB, 2);
  const CUdeviceptr block = get(5 * kMiB);
  pool->peer_enabled(gpu.context_of(1), gpu.context_of(0));
  EXPECT_TRUE(gpu.is_open_to(block, 5 * kMiB, 1));

  pool->peer_disabled(gpu.context_of(1), gpu.context_of(0));

  EXPECT_TRUE(gpu.is_open_to(block, 5 * kMiB, 1));
}

TEST_F(PoolTest, StepsAsideWhereADeviceCannotReachTheMemory) {
  start(1 * kGiB, 3);
  gpu.set_peers_possible(false);
  const CUdeviceptr block = get(5 * kMiB);
  EXPECT_EQ(flags, kEventPooled);

  pool->context_met(gpu.context_of(1), 0, 1);

  EXPECT_NE(get(5 * kMiB), 0u);
  EXPECT_EQ(flags, 0);
  EXPECT_NE(get(5 * kMiB, caller_on(1)), 0u);
  EXPECT_EQ(flags, 0);
  EXPECT_EQ(free(block), CUDA_SUCCESS);
}

TEST_F(PoolTest, AHalfOpenedDeviceIsTakenBack) {
  start(1 * kGiB, 2);
  const CUdeviceptr first = get(5 * kMiB);
  const CUdeviceptr second = get(50 * kMiB);
  gpu.fail_once("cuMemSetAccess", 2, CUDA_ERROR_OUT_OF_MEMORY);

  pool->context_met(gpu.context_of(1), 0, 1);

  EXPECT_FALSE(gpu.is_open_to(first, 1, 1));
  EXPECT_NE(get(1000), 0u);
  EXPECT_EQ(flags, 0);  // direct from now on
  EXPECT_EQ(free(first), CUDA_SUCCESS);
  EXPECT_EQ(free(second), CUDA_SUCCESS);
}

TEST_F(PoolTest, DevicesHaveTheirOwnMemory) {
  start(64 * kMiB, 2);
  gpu.set_current(gpu.context_of(1));
  const CUdeviceptr block = get(40 * kMiB, caller_on(1));

  EXPECT_TRUE(gpu.is_open_to(block, 40 * kMiB, 1));
  EXPECT_EQ(gpu.used(0), 0u);
  EXPECT_EQ(gpu.used(1), 40 * kMiB);
  EXPECT_EQ(free(block, caller_on(0)), CUDA_SUCCESS);
}

// ---- truth

TEST_F(PoolTest, MemoryInfoCountsWhatCouldBeHandedOut) {
  start(1 * kGiB);
  EXPECT_EQ(free_bytes(), 1 * kGiB);
  const CUdeviceptr a = get(100 * kMiB);
  const CUdeviceptr b = get(10 * kMiB);
  const CUdeviceptr c = get(1000);
  EXPECT_EQ(free_bytes(), 1 * kGiB - 112 * kMiB);

  ASSERT_EQ(free(a), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), 1 * kGiB - 12 * kMiB);
  ASSERT_EQ(free(b), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), 1 * kGiB - 2 * kMiB);
  ASSERT_EQ(free(c), CUDA_SUCCESS);

  EXPECT_EQ(free_bytes(), 1 * kGiB);
}

TEST_F(PoolTest, WhatMemoryInfoPromisesCanBeHad) {
  start(256 * kMiB);
  std::mt19937_64 random(5);
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 200; ++i) {
    const CUdeviceptr block = get(1 + random() % (4 * kMiB));
    if (block != 0 && flags == kEventPooled) blocks.push_back(block);
  }
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (std::size_t i = 0; i < blocks.size(); i += 2) ASSERT_EQ(free(blocks[i]), CUDA_SUCCESS);
  const std::size_t promised = free_bytes();
  ASSERT_GT(promised, 2 * kMiB);

  EXPECT_NE(get(promised), 0u);
}

TEST_F(PoolTest, MemoryInfoSettlesPendingFrees) {
  start(1 * kGiB, 1, [](PoolConfig& config) { config.ordered_free = true; });
  const CUdeviceptr block = get(100 * kMiB);
  gpu.launch(gpu.context_of(0), block, 1000);
  ASSERT_EQ(free(block), CUDA_SUCCESS);

  EXPECT_EQ(free_bytes(), 1 * kGiB);
}

TEST_F(PoolTest, AnswersForBlocksAndTheirInsides) {
  start(1 * kGiB);
  for (const std::size_t bytes : {1000ul, 70000ul, 3 * kMiB + 17, 100 * kMiB + 3}) {
    const CUdeviceptr block = get(bytes);
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, bytes / 2, bytes - 1}) {
      CUdeviceptr base = 0;
      std::size_t size = 0;
      ASSERT_EQ(pool->address_range(&base, &size, block + offset), CUDA_SUCCESS) << bytes << "+" << offset;
      EXPECT_EQ(base, block);
      EXPECT_EQ(size, bytes);
      ASSERT_EQ(pool->pointer_attribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block + offset), CUDA_SUCCESS);
      EXPECT_EQ(base, block);
      ASSERT_EQ(pool->pointer_attribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block + offset), CUDA_SUCCESS);
      EXPECT_EQ(size, bytes);
      CUcontext context = nullptr;
      ASSERT_EQ(pool->pointer_attribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, block + offset), CUDA_SUCCESS);
      EXPECT_EQ(reinterpret_cast<std::uint64_t>(context), gpu.context_of(0));
    }
    CUdeviceptr base = 0;
    EXPECT_EQ(pool->address_range(&base, nullptr, block + bytes), CUDA_ERROR_NOT_FOUND);
  }
}

TEST_F(PoolTest, PointersInHolesMeanNothing) {
  start(1 * kGiB);
  const CUdeviceptr block = get(3 * kMiB);
  get(3 * kMiB);
  ASSERT_EQ(free(block), CUDA_SUCCESS);
  unsigned long long id = 0;
  CUcontext context = reinterpret_cast<CUcontext>(1);
  CUpointer_attribute which = CU_POINTER_ATTRIBUTE_CONTEXT;
  void* data = &context;

  EXPECT_EQ(pool->pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(pool->pointer_attributes(1, &which, &data, block), CUDA_SUCCESS);

  EXPECT_EQ(reinterpret_cast<std::uint64_t>(context) & 0xffffffffu, 0u);
}

TEST_F(PoolTest, BufferIdsAreNeverUsedTwice) {
  start(1 * kGiB);
  std::set<unsigned long long> ids;
  for (int i = 0; i < 50; ++i) {
    const CUdeviceptr block = get(1000);
    unsigned long long id = 0;
    ASSERT_EQ(pool->pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block), CUDA_SUCCESS);
    EXPECT_TRUE(ids.insert(id).second);
    ASSERT_EQ(free(block), CUDA_SUCCESS);
  }
}

TEST_F(PoolTest, ManyAttributesAtOnceArePatched) {
  start(1 * kGiB);
  const CUdeviceptr block = get(5 * kMiB + 1);
  CUcontext context = nullptr;
  CUmemorytype type{};
  std::size_t size = 0;
  int legacy = 1;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                 CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
  void* data[] = {&context, &type, &size, &legacy};

  ASSERT_EQ(pool->pointer_attributes(4, which, data, block + 100), CUDA_SUCCESS);

  EXPECT_EQ(reinterpret_cast<std::uint64_t>(context), gpu.context_of(0));
  EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(size, 5 * kMiB + 1);
  EXPECT_EQ(legacy, 0);
}

// ---- exposed blocks

TEST_F(PoolTest, AnExposedBlocksGranulesGoBackToTheDriver) {
  start(1 * kGiB);
  const CUdeviceptr block = get(8 * kMiB);
  unsigned long long id = 0;
  ASSERT_EQ(pool->pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block), CUDA_SUCCESS);

  ASSERT_EQ(free(block), CUDA_SUCCESS);

  EXPECT_EQ(gpu.used(), 0u);
  EXPECT_FALSE(gpu.is_open_to(block, 1, 0));
}

TEST_F(PoolTest, ANeighbourDelaysTheReturnButNobodyGetsTheExposedBytes) {
  start(1 * kGiB);
  const CUdeviceptr neighbour = get(300 * kKiB);
  const CUdeviceptr exposed = get(300 * kKiB);
  ASSERT_EQ(exposed / (2 * kMiB), neighbour / (2 * kMiB));
  CUipcMemHandle handle;
  EXPECT_EQ(pool->ipc_handle(&handle, exposed), CUDA_ERROR_INVALID_VALUE);

  ASSERT_EQ(free(exposed), CUDA_SUCCESS);
  for (int i = 0; i < 20; ++i) EXPECT_NE(get(300 * kKiB), exposed);
  EXPECT_TRUE(pool->is_valid());
  ASSERT_EQ(free(neighbour), CUDA_SUCCESS);

  EXPECT_TRUE(pool->is_valid());
}

// ---- life and death of the process

TEST_F(PoolTest, AForkChildForwardsEverything) {
  start(1 * kGiB);
  const CUdeviceptr block = get(5 * kMiB);

  pool->after_fork_in_child();

  EXPECT_EQ(free(block), CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(get(5 * kMiB), 0u);
  EXPECT_EQ(flags, 0);
}

TEST_F(PoolTest, AFrozenPoolHoldsNothingIdleAndForwards) {
  start(1 * kGiB);
  const CUdeviceptr block = get(5 * kMiB);
  const CUdeviceptr other = get(5 * kMiB);
  ASSERT_EQ(free(block), CUDA_SUCCESS);

  pool->frozen(true);
  EXPECT_LE(gpu.used(), 8 * kMiB);
  EXPECT_NE(get(1000), 0u);
  EXPECT_EQ(flags, 0);
  EXPECT_EQ(free(other), CUDA_SUCCESS);
  pool->frozen(false);

  EXPECT_NE(get(1000), 0u);
  EXPECT_EQ(flags, kEventPooled);
}

TEST_F(PoolTest, ChecksItsBooksAtEveryStepIfAsked) {
  start(1 * kGiB, 1, [](PoolConfig& config) { config.checks = true; });
  std::vector<CUdeviceptr> blocks;
  for (const std::size_t bytes : {1000ul, 3 * kMiB, 50 * kMiB}) blocks.push_back(get(bytes));
  for (const CUdeviceptr block : blocks) EXPECT_EQ(free(block), CUDA_SUCCESS);

  EXPECT_TRUE(pool->is_pooling(0));
}

TEST_F(PoolTest, LeavesTheHostsCaptureModeAsItWas) {
  start(1 * kGiB);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  gpu.exchange_mode(&mode);

  const CUdeviceptr block = get(5 * kMiB);
  ASSERT_EQ(free(block), CUDA_SUCCESS);

  mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  gpu.exchange_mode(&mode);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

}  // namespace
}  // namespace cuheap
