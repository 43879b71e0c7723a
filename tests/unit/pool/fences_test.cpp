#include "shim/pool/fences.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
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

TEST_F(FencesTest, NothingIsLearntOfALifeThatIsOver) {
  start(0);
  std::atomic<std::uint64_t> life{0};
  ContextSet set;

  contexts->learn(gpu.context_of(0), 0, 0, {&life, 1});
  EXPECT_TRUE(contexts->add_all(0, &set));
  EXPECT_EQ(set.count, 0u);
  contexts->learn(gpu.context_of(0), 0, 0, {&life, 0});

  EXPECT_TRUE(contexts->add_all(0, &set));
  EXPECT_EQ(set.count, 1u);
}

TEST_F(FencesTest, PeersAreCountedPerPairOfContexts) {
  start(2);
  const auto other = gpu.new_context(1);
  EXPECT_TRUE(contexts->pair(gpu.context_of(1), gpu.context_of(0)));
  EXPECT_FALSE(contexts->pair(other, gpu.context_of(0)));

  EXPECT_FALSE(contexts->unpair(gpu.context_of(1), gpu.context_of(0)));
  EXPECT_TRUE(contexts->unpair(other, gpu.context_of(0)));
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

TEST(CaptureGate, NumbersTheTimesWithoutABreakInWhichACaptureIsOpen) {
  CaptureGate gate;
  EXPECT_EQ(gate.period(), 0u);
  gate.begun();
  gate.begun();
  gate.ended();
  EXPECT_EQ(gate.period(), 1u);
  gate.ended();
  EXPECT_EQ(gate.period(), 1u);

  gate.begun();

  EXPECT_EQ(gate.period(), 2u);
  EXPECT_TRUE(gate.open());
}

TEST(Periods, AreExactWhileThereIsRoomAndNeverLoseOne) {
  Periods some;
  std::set<std::uint32_t> added;
  for (const std::uint32_t period : {40u, 10u, 20u, 11u, 9u, 30u, 41u, 39u}) {
    some.add(Periods(period));
    added.insert(period);
  }
  for (std::uint32_t period = 1; period < 60; ++period) EXPECT_EQ(some.has(period), added.count(period) != 0) << period;

  for (const unsigned seed : {1u, 2u, 3u}) {
    std::mt19937 random(seed);
    Periods many;
    added.clear();
    for (int i = 0; i < 200; ++i) {
      const auto period = static_cast<std::uint32_t>(1 + random() % 10'000);
      many.add(Periods(period));
      added.insert(period);
      for (const std::uint32_t each : added) ASSERT_TRUE(many.has(each)) << each;
    }
  }
}

TEST(GraphBook, KnowsAPeriodUntilTheLastOfTheKinIsGone) {
  GraphBook book;
  book.add(1, Periods(7));
  book.add(4, Periods(8));
  book.inherit(2, 1);
  book.inherit(3, 99);
  EXPECT_TRUE(book.knows(7));

  book.remove(1);
  book.remove(3);
  EXPECT_TRUE(book.knows(7));
  book.remove(2);

  EXPECT_FALSE(book.knows(7));
  EXPECT_TRUE(book.knows(8));
}

TEST(GraphBook, AParentKnowsWhatItKnewAndWhatItsChildKnows) {
  GraphBook book;
  book.add(1, Periods(3));
  book.add(2, Periods(5));

  book.inherit(1, 2);
  book.remove(2);

  EXPECT_TRUE(book.knows(3));
  EXPECT_TRUE(book.knows(5));
}

TEST(GraphBook, AnUpdatedExecutableKnowsWhatItsNewGraphKnowsAndNothingElse) {
  GraphBook book;
  book.add(1, Periods(3));
  book.add(2, Periods(5));
  book.inherit(10, 1);
  book.remove(1);

  book.replace(10, 2);
  book.remove(2);
  EXPECT_FALSE(book.knows(3));
  EXPECT_TRUE(book.knows(5));

  book.replace(10, 99);
  EXPECT_TRUE(book.known().is_empty());
}

TEST(GraphBook, WhatSomeGraphGotIsKnownForGood) {
  GraphBook book;
  book.add(1, Periods(3));

  book.inherit_somewhere(1);
  book.remove(1);

  EXPECT_TRUE(book.knows(3));
}

}  // namespace
}  // namespace cuheap
