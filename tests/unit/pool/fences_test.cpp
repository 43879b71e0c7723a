#include "shim/pool/fences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

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
  contexts->forget(dying, 0);

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

// Whoever ended a context may be told so after another thread has made it again.
TEST_F(FencesTest, CoverALifeWhoseFormerEndIsToldLate) {
  start(2);
  const auto context = gpu.context_of(0);
  contexts->learn(context, 0, 0);
  ASSERT_TRUE(contexts->pair(context, gpu.context_of(1)));
  contexts->learn(context, 1, 0);

  contexts->forget(context, 0);

  ContextSet all;
  ASSERT_TRUE(contexts->add_all(0, &all));
  EXPECT_EQ(std::count(all.items, all.items + all.count, context), 1);
  ContextSet of_peer;
  ASSERT_TRUE(contexts->add_all(1, &of_peer));
  for (unsigned i = 0; i < of_peer.count; ++i) {
    EXPECT_EQ(of_peer.is_foreign(i), of_peer.items[i] == context);  // its right went with the life that had it
  }
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

}  // namespace
}  // namespace cuheap
