// What the hooks keep in mind and write down: alive bytes, ends, losses.
#include "shim/hooks/accounting.h"

#include <sys/resource.h>

#include <thread>
#include <utility>

#include "shim/driver/driver.h"
#include "shim/hooks/contexts.h"
#include "tests/unit/shim/host.h"

namespace cuheap {
namespace {

using test::AllocatorWithIdleMemory;
using test::kMiB;
using Bytes64 = std::vector<std::int64_t>;

constexpr std::int64_t kSignedMiB = std::int64_t{1} << 20;

class Accounting : public test::HostTest {
 protected:
  CUcontext make_context() {
    CUcontext made = nullptr;
    EXPECT_EQ(cuCtxCreate_v4(&made, nullptr, 0, 0), CUDA_SUCCESS);
    return made;
  }
  CUarray make_array(std::size_t width) {
    CUarray array = nullptr;
    const CUDA_ARRAY_DESCRIPTOR_v2 flat = {width, 1, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    EXPECT_EQ(cuArrayCreate_v2(&array, &flat), CUDA_SUCCESS);
    return array;
  }
};

TEST_F(Accounting, AnOutOfMemorySaysWhatWasAlive) {
  run_out_of_memory();
  const CUdeviceptr first = allocate(3 * kMiB), second = allocate(5 * kMiB);
  run_out_of_memory();
  cuMemFree_v2(first);
  run_out_of_memory();
  cuMemFree_v2(second);
  run_out_of_memory();

  EXPECT_EQ(alive_since_the_first(), (Bytes64{0, 8 * kSignedMiB, 5 * kSignedMiB, 0}));
}

TEST_F(Accounting, AnOutOfMemorySaysWhatLayIdle) {
  AllocatorWithIdleMemory allocator;
  allocator.idle = 7 * kMiB;
  use(allocator);

  run_out_of_memory();

  const std::vector<Event> refused = events(EventKind::OutOfMemory);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].extra1 - refused[0].extra0, 7 * kMiB);
}

TEST_F(Accounting, MemoryInfoIsTheDriversWithoutWhatLiesIdle) {
  AllocatorWithIdleMemory allocator;
  allocator.idle = 7 * kMiB;
  use(allocator);
  std::size_t free = 0, total = 0;

  ASSERT_EQ(cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);

  const std::vector<Event> samples = events(EventKind::MemoryInfo);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].size, free - 7 * kMiB);
  EXPECT_EQ(samples[0].extra0, total);
}

TEST_F(Accounting, ABlockWhoseFreeWasRefusedIsAliveAndKnown) {
  run_out_of_memory();
  const CUdeviceptr block = allocate(3 * kMiB);
  simgpu_fail_call("cuMemFree", 1, CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuMemFree_v2(block), CUDA_ERROR_INVALID_CONTEXT);
  run_out_of_memory();
  EXPECT_EQ(cuMemFree_v2(block), CUDA_SUCCESS);
  run_out_of_memory();

  EXPECT_EQ(alive_since_the_first(), (Bytes64{0, 3 * kSignedMiB, 0}));
  const std::vector<Event> life = events_at(block);
  ASSERT_EQ(life.size(), 4u);
  EXPECT_EQ(life[2].kind, EventKind::FreeFailed);
  EXPECT_EQ(life[2].extra0, CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(life[3].kind, EventKind::Free);
  EXPECT_EQ(life[3].family, Family::Device);
}

TEST_F(Accounting, MemoryIsGoneForADriverThatIsItself) {
  run_out_of_memory();
  const CUdeviceptr block = allocate(3 * kMiB);
  simgpu_fail_call("cuMemFree", 1, CUDA_ERROR_DEINITIALIZED);
  EXPECT_EQ(cuMemFree_v2(block), CUDA_ERROR_DEINITIALIZED);
  run_out_of_memory();

  EXPECT_EQ(alive_since_the_first(), (Bytes64{0, 0}));
  EXPECT_TRUE(events(EventKind::FreeFailed).empty());
  cuMemFree_v2(block);
}

TEST_F(Accounting, AContextTakesItsBlocksAndArraysAlong) {
  run_out_of_memory();
  const CUcontext doomed = make_context();
  const CUdeviceptr block = allocate(3 * kMiB);
  make_array(5 * kMiB);
  run_out_of_memory();
  ASSERT_EQ(cuCtxDestroy_v2(doomed), CUDA_SUCCESS);
  run_out_of_memory();
  EXPECT_NE(cuMemFree_v2(block), CUDA_SUCCESS);

  EXPECT_EQ(alive_since_the_first(), (Bytes64{0, 8 * kSignedMiB, 0}));
  const std::vector<Event> refused = events(EventKind::FreeFailed);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].family, Family::None);  // nobody knows that address any more
}

TEST_F(Accounting, TheContextsOfOthersKeepTheirBlocks) {
  run_out_of_memory();
  const CUdeviceptr block = allocate(3 * kMiB);
  const CUcontext doomed = make_context();
  ASSERT_EQ(cuCtxDestroy_v2(doomed), CUDA_SUCCESS);
  run_out_of_memory();
  EXPECT_EQ(cuMemFree_v2(block), CUDA_SUCCESS);

  EXPECT_EQ(alive_since_the_first(), (Bytes64{0, 3 * kSignedMiB}));
}

TEST_F(Accounting, StreamOrderedMemoryOutlivesItsContext) {
  run_out_of_memory();
  const CUcontext doomed = make_context();
  CUstream stream = nullptr;
  CUdeviceptr block = 0;
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&block, 3 * kMiB, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxDestroy_v2(doomed), CUDA_SUCCESS);
  run_out_of_memory();
  EXPECT_EQ(cuMemFree_v2(block), CUDA_SUCCESS);
  run_out_of_memory();

  EXPECT_EQ(alive_since_the_first(), (Bytes64{0, 3 * kSignedMiB, 0}));
  const std::vector<Event> life = events_at(block);
  ASSERT_EQ(life.size(), 2u);
  EXPECT_EQ(life[0].context, 0u);
  EXPECT_EQ(life[1].family, Family::AsyncPool);
}

TEST_F(Accounting, AContextEndedBeforeTheDriverCouldHandItsAddressesOutAgain) {
  const CUcontext doomed = make_context();
  CUstream stream = nullptr;
  const CUdeviceptr block = allocate(4096);
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  simgpu_delay_stream(stream, 300'000'000);
  ASSERT_EQ(cuMemsetD8Async(block, 0, 1, stream), CUDA_SUCCESS);
  const std::uint64_t begin = now_ns();
  ASSERT_EQ(cuCtxDestroy_v2(doomed), CUDA_SUCCESS);  // waits for its work
  const std::uint64_t end = now_ns();
  ASSERT_GT(end - begin, 200'000'000u);

  const std::vector<Event> ends = events(EventKind::ContextEnd);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].context, reinterpret_cast<std::uint64_t>(doomed));
  EXPECT_LT(ends[0].time_ns, end - 200'000'000);
}

TEST_F(Accounting, AContextThatTheDriverKeptHasNotEnded) {
  simgpu_fail_call("cuCtxDestroy", 1, CUDA_ERROR_INVALID_CONTEXT);
  run_out_of_memory();
  const CUcontext kept = make_context();
  const CUdeviceptr block = allocate(3 * kMiB);
  EXPECT_EQ(cuCtxDestroy_v2(kept), CUDA_ERROR_INVALID_CONTEXT);
  run_out_of_memory();
  EXPECT_EQ(cuMemFree_v2(block), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy_v2(kept), CUDA_SUCCESS);

  EXPECT_EQ(alive_since_the_first(), (Bytes64{0, 3 * kSignedMiB}));
  EXPECT_EQ(events(EventKind::ContextEnd).size(), 1u);
}

/// What other threads do to the primary context between a release and the question whether it was the last.
class MeanwhileThe : public Accounting {
 protected:
  void SetUp() override {
    Accounting::SetUp();
    real_ = driver().cuDevicePrimaryCtxGetState;
    detail::driver_table.cuDevicePrimaryCtxGetState = [](CUdevice device, unsigned* flags, int* active) {
      if (const auto now = std::exchange(meanwhile_, nullptr); now != nullptr) now();
      return real_(device, flags, active);
    };
  }
  void TearDown() override {
    detail::driver_table.cuDevicePrimaryCtxGetState = real_;
    Accounting::TearDown();
  }
  static void retain() {
    CUcontext context = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
  }
  static void release() { EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(1), CUDA_SUCCESS); }

  static inline void (*meanwhile_)() = nullptr;
  static inline decltype(DriverTable::cuDevicePrimaryCtxGetState) real_ = nullptr;
};

TEST_F(MeanwhileThe, LastReleaseOfAPrimaryContextEndsItOnce) {
  retain();
  retain();
  meanwhile_ = release;
  release();

  EXPECT_EQ(events(EventKind::ContextEnd).size(), 1u);
}

TEST_F(MeanwhileThe, NextRetainOfAPrimaryContextSaysThatItEnded) {
  retain();
  meanwhile_ = retain;
  release();  // sees it active
  const CUcontext again = reinterpret_cast<CUcontext>(primary_context(1));
  ASSERT_EQ(cuCtxSetCurrent(again), CUDA_SUCCESS);
  EXPECT_FALSE(current_context().life.is_over());
  release();

  EXPECT_EQ(events(EventKind::ContextEnd).size(), 2u);
}

// It came back by a way that no hook sees. From now on frees must wait for its work.
TEST_F(Accounting, TheAllocatorHearsOfAContextThatServesThoughItWasTakenForEnded) {
  struct Listener : AllocatorWithIdleMemory {
    void context_met(std::uint64_t context, std::uint32_t generation, int, ContextLife life) override {
      if (!life.is_over()) met.emplace_back(context, generation);
    }
    std::vector<std::pair<std::uint64_t, std::uint32_t>> met;
  } listener;
  const auto context = reinterpret_cast<std::uint64_t>(context_);
  const std::uint32_t generation = context_is_ending(context);
  ASSERT_TRUE(context_end_is_decided(context, generation, true));
  use(listener);

  const CUdeviceptr block = allocate(4096);

  ASSERT_EQ(listener.met.size(), 1u);
  EXPECT_EQ(listener.met[0], std::pair(context, generation + 1));
  EXPECT_EQ(cuMemFree_v2(block), CUDA_SUCCESS);
}

// The sanitizers' ground: every table at work in several threads, while contexts come and go.
TEST_F(Accounting, KeepsTheBooksOfSeveralThreads) {
  constexpr int kThreads = 4, kRounds = 300;
  run_out_of_memory();
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([this, number] {
      ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      for (int i = 0; i < kRounds; ++i) {
        const CUdeviceptr block = allocate(static_cast<std::size_t>(20001 + number));
        if (i % 100 == 0) {
          EXPECT_EQ(cuCtxDestroy_v2(make_context()), CUDA_SUCCESS);
        }
        cuCtxSetCurrent(context_);
        EXPECT_EQ(cuMemFree_v2(block), CUDA_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  run_out_of_memory();

  EXPECT_EQ(alive_since_the_first(), (Bytes64{0, 0}));
  EXPECT_EQ(events(EventKind::Allocate).size(), std::size_t{kThreads} * kRounds);
  EXPECT_EQ(events(EventKind::ContextEnd).size(), 12u);
}

TEST_F(Accounting, CallsInsideItsOwnWorkAreCountedLosses) {
  CUdeviceptr block = 0;
  {
    const HookScope inside;  // as if a signal handler came in the middle of a hook
    ASSERT_EQ(cuMemAlloc_v2(&block, 20001), CUDA_SUCCESS);
    ASSERT_EQ(cuMemFree_v2(block), CUDA_SUCCESS);
  }

  EXPECT_EQ(lost(LossReason::Reentered), 2u);
  EXPECT_TRUE(events(EventKind::Allocate).empty());
  EXPECT_TRUE(events(EventKind::Free).empty());
}

TEST_F(Accounting, ABlockForWhichThereIsNoRoomIsACountedLoss) {
#ifdef CUHEAP_SANITIZED
  GTEST_SKIP() << "a sanitizer cannot live without address space";
#endif
  const std::size_t before = blocks().size();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  const rlimit none = {1, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  // No driver call: it needs memory too.
  const PendingAllocation pending = before_allocation(Family::Device, 512);
  constexpr std::uint64_t kBlocks = 200'000, kFirst = std::uint64_t{1} << 50;
  for (std::uint64_t i = 0; i < kBlocks; ++i) after_allocation(pending, CUDA_SUCCESS, kFirst + i * 512);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  const std::size_t held = blocks().size() - before;
  for (std::uint64_t i = 0; i < kBlocks; ++i) after_free(before_free(kFirst + i * 512), CUDA_SUCCESS);

  ASSERT_LT(held, kBlocks);
  EXPECT_EQ(lost(LossReason::TableFull), kBlocks - held);
}

}  // namespace
}  // namespace cuheap
