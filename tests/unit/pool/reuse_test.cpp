// When memory changes hands: which contexts a free's fence covers, what a batch of frees shares, what a capture that begins
// waits for. Each test is of work that would meet the next owner of the memory if the fence missed it.
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <thread>

#include "pool_host.h"

namespace {

/// What a yield of this thread does besides; a wait without a lock is a sequence of yields.
thread_local const std::function<void()>* on_yield = nullptr;

}  // namespace

// Stands before libc's in this program.
extern "C" int sched_yield() {
  if (on_yield != nullptr) (*on_yield)();
  return static_cast<int>(syscall(SYS_sched_yield));
}

namespace cuheap {
namespace {

void ordered(PoolConfig& config) { config.ordered_free = true; }

// ---- whose work a free waits for

TEST_F(PoolTest, AFreeWaitsForItsOwnContextOnAnotherDevice) {
  start(1 * kGiB, 2);
  const CUdeviceptr block = get(5 * kMiB);
  gpu.launch(gpu.context_of(1), 0, 0);

  ASSERT_EQ(free(block, caller_on(1)), CUDA_SUCCESS);

  EXPECT_FALSE(gpu.is_busy(gpu.context_of(1)));
}

TEST_F(PoolTest, AFreeWaitsForItsOwnContextThoughThereAreMoreThanThePoolKnows) {
  start(1 * kGiB);
  const CUdeviceptr block = get(5 * kMiB);
  for (int i = 0; i < 60; ++i) pool->context_met(gpu.new_context(0), 0, 0);
  const auto stranger = gpu.new_context(0);
  gpu.launch(stranger, block, 5 * kMiB);

  ASSERT_EQ(free(block, caller_on(0, stranger)), CUDA_SUCCESS);

  EXPECT_FALSE(gpu.is_busy(stranger));
}

TEST_F(PoolTest, ABatchOfFreesCoversContextsThatNeitherOwnNorFreeItsBlocks) {
  start(1 * kGiB, 2, ordered);
  const auto other = gpu.new_context(0);
  const auto peer = gpu.context_of(1);
  pool->context_met(other, 0, 0);
  pool->peer_enabled(peer, gpu.context_of(0));
  for (const auto user : {other, peer}) {
    const CUdeviceptr block = get(5 * kMiB);
    gpu.launch(user, block, 5 * kMiB);
    ASSERT_EQ(free(block), CUDA_SUCCESS);

    const CUdeviceptr next = get(5 * kMiB);
    EXPECT_NE(next, block);
    gpu.finish(user);

    const CUdeviceptr last = get(5 * kMiB);
    EXPECT_EQ(last, block);
    ASSERT_EQ(free(next), CUDA_SUCCESS);
    ASSERT_EQ(free(last), CUDA_SUCCESS);
    static_cast<void>(free_bytes());
  }
}

TEST_F(PoolTest, ABatchOfFreesWaitsForTheContextThatFreedIt) {
  start(1 * kGiB, 2, ordered);
  const CUdeviceptr block = get(5 * kMiB);
  gpu.launch(gpu.context_of(1), 0, 0);
  ASSERT_EQ(free(block, caller_on(1)), CUDA_SUCCESS);

  static_cast<void>(free_bytes());  // the host asks: what is freed is settled

  EXPECT_FALSE(gpu.is_busy(gpu.context_of(1)));
  EXPECT_EQ(pool->figures(0).waiting_bytes, 0u);
}

TEST_F(PoolTest, OrderedFreesShareOneFenceUpTo64MiB) {
  start(1 * kGiB, 1, ordered);
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 9; ++i) blocks.push_back(get(8 * kMiB));

  for (int i = 0; i < 8; ++i) ASSERT_EQ(free(blocks[static_cast<std::size_t>(i)]), CUDA_SUCCESS);
  EXPECT_EQ(gpu.calls("cuCtxRecordEvent"), 0u);
  ASSERT_EQ(free(blocks[8]), CUDA_SUCCESS);

  EXPECT_EQ(gpu.calls("cuCtxRecordEvent"), 1u);
}

// ---- lives of a context

TEST(Contexts, AnEventThatDiedWithItsContextIsNotUsedInTheNextLife) {
  fake::FakeDriver& gpu = fake::driver();
  gpu.reset(1 * kGiB);
  const auto contexts = std::make_unique<Contexts>();
  contexts->start(gpu.table(), true);
  const auto context = gpu.context_of(0);
  contexts->learn(context, 0, 0);
  CaptureGate captures;
  ContextSet set;
  ASSERT_TRUE(set.add(context));
  Fence fence;
  ASSERT_EQ(contexts->record(captures, set, &fence), CUDA_SUCCESS);
  gpu.end_context(context);
  gpu.new_life(context, 0);
  contexts->learn(context, 1, 0);

  contexts->recycle(&fence);
  ASSERT_EQ(contexts->record(captures, set, &fence), CUDA_SUCCESS);

  EXPECT_EQ(contexts->query(fence), CUDA_SUCCESS);
  EXPECT_TRUE(gpu.violations().empty()) << gpu.violations().front();
}

// While it lasts, a free of the memory waits for every context of the peer's device.
TEST(Contexts, APeersRightEndsWithEitherContext) {
  fake::FakeDriver& gpu = fake::driver();
  gpu.reset(1 * kGiB, 2);
  const auto contexts = std::make_unique<Contexts>();
  contexts->start(gpu.table(), true);
  const auto other = gpu.new_context(1);
  contexts->learn(other, 0, 1);
  const auto is_waited_for = [&] {
    ContextSet set;
    EXPECT_TRUE(contexts->add_all(0, &set));
    for (unsigned i = 0; i < set.count; ++i) {
      if (set.items[i] == other) return !set.is_foreign(i);
    }
    return false;
  };
  for (const auto dying : {gpu.context_of(1), gpu.context_of(0)}) {
    ASSERT_TRUE(contexts->pair(gpu.context_of(1), gpu.context_of(0)));
    ASSERT_TRUE(is_waited_for());

    contexts->forget(dying, 0);

    EXPECT_FALSE(is_waited_for());
  }
}

// ---- fills

TEST_F(PoolTest, ABlockThatIsFilledIsHandedOutWhenTheFillIsOver) {
  start(1 * kGiB, 1, [](PoolConfig& config) { config.fill = 0; });

  ASSERT_NE(get(5 * kMiB), 0u);

  EXPECT_EQ(gpu.calls("cuMemsetD8"), 1u);
  EXPECT_FALSE(gpu.is_busy(gpu.context_of(0)));
}

// ---- captures

/// A recording of a fence that takes as long as the test wants.
struct SlowRecording {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_inside = false;
  bool may_end = false;
  std::atomic<bool> is_over{false};

  void run() {
    std::unique_lock lock(mutex);
    is_inside = true;
    changed.notify_all();
    changed.wait(lock, [this] { return may_end; });
    is_over.store(true);
  }
  void wait_until_inside() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return is_inside; });
  }
  void end() {
    const std::lock_guard lock(mutex);
    may_end = true;
    changed.notify_all();
  }
};
SlowRecording* slow_recording = nullptr;

TEST_F(PoolTest, ACaptureBeginsWhenTheFenceOfAnotherThreadIsRecorded) {
  SlowRecording recording;
  slow_recording = &recording;
  DriverTable slow;
  start(1 * kGiB, 1, [&](PoolConfig& config) {
    slow = gpu.table();
    slow.cuCtxRecordEvent = [](CUcontext context, CUevent event) {
      slow_recording->run();
      return fake::driver().context_record(context, event);
    };
    config.driver = &slow;
  });
  const CUdeviceptr block = get(5 * kMiB);
  std::thread freeing([&] {
    gpu.set_current(gpu.context_of(0));
    EXPECT_EQ(free(block), CUDA_SUCCESS);
  });
  recording.wait_until_inside();
  int yields = 0;
  const std::function<void()> patience = [&] {
    if (++yields == 3) recording.end();
    if (yields > 3) usleep(1000);  // the other thread needs the processor
  };

  on_yield = &patience;
  pool->capture_begun(gpu.context_of(0), nullptr);
  on_yield = nullptr;

  EXPECT_TRUE(recording.is_over.load());
  recording.end();
  freeing.join();
  pool->capture_ended(nullptr, nullptr);
}

TEST(CaptureGate, ACaptureBeginsThoughARecordingNeverEnds) {
  CaptureGate gate;
  ASSERT_TRUE(gate.enter());

  gate.begun();

  EXPECT_TRUE(gate.open());
  gate.leave();
  EXPECT_FALSE(gate.enter());
}

TEST_F(PoolTest, NothingIsGivenBackWhileACaptureIsOpen) {
  start(1 * kGiB);
  ASSERT_EQ(free(get(100 * kMiB)), CUDA_SUCCESS);
  gpu.begin_capture();
  pool->capture_begun(gpu.context_of(0), nullptr);

  EXPECT_FALSE(pool->relieve(0, 1));
  EXPECT_EQ(gpu.used(), 100 * kMiB);
  pool->capture_ended(nullptr, nullptr);
  gpu.end_capture();

  EXPECT_TRUE(pool->relieve(0, 1));
  EXPECT_EQ(gpu.used(), 0u);
}

}  // namespace
}  // namespace cuheap
