#include "shim/pool/fences.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "fake_driver.h"

namespace cuheap {
namespace {

class FencesTest : public testing::Test {
 protected:
  void start(int devices = 1, bool has_events = true) {
    gpu.reset(std::uint64_t{1} << 30, devices);
    contexts->start(gpu.table(), has_events);
    for (int i = 0; i < devices; ++i) contexts->learn(gpu.context_of(i), 0, i);
  }
  static ContextSet set_of(std::initializer_list<std::uint64_t> items) {
    ContextSet set;
    for (const std::uint64_t item : items) EXPECT_TRUE(set.add(item));
    return set;
  }
  void TearDown() override {
    for (const std::string& violation : gpu.violations()) ADD_FAILURE() << violation;
  }

  fake::FakeDriver& gpu = fake::driver();
  std::unique_ptr<Contexts> contexts = std::make_unique<Contexts>();
  CaptureGate captures;
  Fence fence;
};

void use(fake::FakeDriver& gpu, std::uint64_t context) { gpu.launch(context, 0, 0); }

TEST_F(FencesTest, PassWhenTheWorkQueuedBeforeThemIsDone) {
  start();
  const auto context = gpu.context_of(0);
  use(gpu, context);
  ASSERT_EQ(contexts->record(captures, set_of({context}), &fence), CUDA_SUCCESS);
  EXPECT_EQ(contexts->query(fence), CUDA_ERROR_NOT_READY);

  gpu.finish(context);
  use(gpu, context);  // later work does not hold it up

  EXPECT_EQ(contexts->query(fence), CUDA_SUCCESS);
  contexts->recycle(&fence);
}

TEST_F(FencesTest, CoverEveryContextOfTheSet) {
  start(2);
  use(gpu, gpu.context_of(1));
  ASSERT_EQ(contexts->record(captures, set_of({gpu.context_of(0), gpu.context_of(1)}), &fence), CUDA_SUCCESS);

  EXPECT_EQ(contexts->query(fence), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(contexts->wait(captures, fence), CUDA_SUCCESS);

  EXPECT_FALSE(gpu.is_busy(gpu.context_of(1)));
  contexts->recycle(&fence);
}

TEST_F(FencesTest, ReuseTheirEvents) {
  start();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(contexts->record(captures, set_of({gpu.context_of(0)}), &fence), CUDA_SUCCESS);
    ASSERT_EQ(contexts->wait(captures, fence), CUDA_SUCCESS);
    contexts->recycle(&fence);
  }
  EXPECT_EQ(gpu.calls("cuEventCreate"), 1u);
}

TEST_F(FencesTest, AreNotMadeWhileACaptureIsOpen) {
  start();
  gpu.begin_capture();
  captures.begun();

  EXPECT_EQ(contexts->record(captures, set_of({gpu.context_of(0)}), &fence), CUDA_ERROR_NOT_READY);

  captures.ended();
  gpu.end_capture();
  EXPECT_EQ(gpu.calls("cuCtxRecordEvent"), 0u);
}

TEST_F(FencesTest, OfAnEndedContextHavePassed) {
  start(2);
  const auto dying = gpu.context_of(1);
  use(gpu, dying);
  ASSERT_EQ(contexts->record(captures, set_of({dying}), &fence), CUDA_SUCCESS);

  gpu.end_context(dying);
  contexts->forget(dying);

  EXPECT_EQ(contexts->query(fence), CUDA_SUCCESS);
  EXPECT_EQ(contexts->wait(captures, fence), CUDA_SUCCESS);
  contexts->recycle(&fence);  // does not touch the dead event
}

TEST_F(FencesTest, OfAFormerLifeOfAContextDoNotAskTheNewOne) {
  start();
  const auto context = gpu.context_of(0);
  ASSERT_EQ(contexts->record(captures, set_of({context}), &fence), CUDA_SUCCESS);
  gpu.end_context(context);

  contexts->learn(context, 1, 0);

  EXPECT_EQ(contexts->query(fence), CUDA_SUCCESS);
  contexts->recycle(&fence);
}

TEST_F(FencesTest, WithoutContextEventsAreSynchronisations) {
  start(1, false);
  use(gpu, gpu.context_of(0));
  ASSERT_EQ(contexts->record(captures, set_of({gpu.context_of(0)}), &fence), CUDA_SUCCESS);

  EXPECT_EQ(contexts->query(fence), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(contexts->wait(captures, fence), CUDA_SUCCESS);

  EXPECT_FALSE(gpu.is_busy(gpu.context_of(0)));
}

TEST_F(FencesTest, StickyErrorsComeThrough) {
  start();
  ASSERT_EQ(contexts->record(captures, set_of({gpu.context_of(0)}), &fence), CUDA_SUCCESS);
  gpu.set_sticky(CUDA_ERROR_ILLEGAL_ADDRESS);

  EXPECT_EQ(contexts->query(fence), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(contexts->wait(captures, fence), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FencesTest, ManyContextsAreStillWaitedFor) {
  start();
  std::uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    last = gpu.new_context(0);
    contexts->learn(last, 0, 0);
  }
  use(gpu, last);
  ASSERT_EQ(contexts->record(captures, set_of({last}), &fence), CUDA_SUCCESS);

  EXPECT_EQ(contexts->query(fence), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(contexts->wait(captures, fence), CUDA_SUCCESS);

  EXPECT_FALSE(gpu.is_busy(last));
}

TEST_F(FencesTest, PeersAreCountedPerPairOfContexts) {
  start(2);
  const auto other = gpu.new_context(1);
  EXPECT_TRUE(contexts->pair(gpu.context_of(1), gpu.context_of(0)));
  EXPECT_FALSE(contexts->pair(other, gpu.context_of(0)));
  int devices[4] = {};

  EXPECT_EQ(contexts->accessors(0, devices, 4), 1u);
  EXPECT_EQ(devices[0], 1);
  EXPECT_FALSE(contexts->unpair(gpu.context_of(1), gpu.context_of(0)));
  EXPECT_TRUE(contexts->unpair(other, gpu.context_of(0)));

  EXPECT_EQ(contexts->accessors(0, devices, 4), 0u);
}

TEST(CaptureGate, KeepsFencesAndCapturesApart) {
  CaptureGate gate;
  std::atomic<bool> is_recording{false}, is_capturing{false};
  std::atomic<int> met{0};
  const auto fence = [&] {
    for (int i = 0; i < 20000; ++i) {
      if (!gate.enter()) continue;
      is_recording.store(true);
      if (is_capturing.load()) met.fetch_add(1);
      is_recording.store(false);
      gate.leave();
    }
  };
  const auto capture = [&] {
    for (int i = 0; i < 2000; ++i) {
      gate.begun();
      is_capturing.store(true);
      if (is_recording.load()) met.fetch_add(1);
      is_capturing.store(false);
      gate.ended();
    }
  };

  std::thread a(fence), b(capture);
  a.join();
  b.join();

  EXPECT_EQ(met.load(), 0);
  EXPECT_FALSE(gate.open());
}

TEST(CaptureGate, AnEndWithoutABeginningCountsNothing) {
  CaptureGate gate;
  gate.ended();
  EXPECT_FALSE(gate.open());
  gate.begun();
  EXPECT_TRUE(gate.open());
}

TEST(GraphBook, IsEmptyWhenTheLastOfTheKinIsGone) {
  GraphBook book;
  book.add(1);
  book.add(1);
  book.add_if_known(2, 1);
  book.add_if_known(3, 99);
  EXPECT_FALSE(book.is_empty());

  book.remove(1);
  book.remove(3);
  EXPECT_FALSE(book.is_empty());
  book.remove(2);

  EXPECT_TRUE(book.is_empty());
}

}  // namespace
}  // namespace cuheap
