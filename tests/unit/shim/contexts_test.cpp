#include "shim/hooks/contexts.h"

#include <gtest/gtest.h>

namespace cuheap {
namespace {

// Each test has a context of its own: what is known of one stays known.
TEST(ContextLife, GoesOnAfterAnEndThatTheDriverRefused) {
  const std::uint64_t context = 0x1000;
  const CurrentContext made = context_was_made(context, 3, 0).now;
  EXPECT_EQ(made.device, 3);
  EXPECT_FALSE(made.life.is_over());

  EXPECT_EQ(context_is_ending(context), made.generation);
  EXPECT_TRUE(made.life.is_over());
  EXPECT_FALSE(context_end_is_decided(context, made.generation, false));

  EXPECT_FALSE(made.life.is_over());
  EXPECT_EQ(context_was_made(context, 3, 0).now.generation, made.generation);
}

TEST(ContextLife, IsOverWhileOneOfTwoEndsIsUndecided) {
  const std::uint64_t context = 0x2000;
  const CurrentContext made = context_was_made(context, 0, 0).now;
  static_cast<void>(context_is_ending(context));
  static_cast<void>(context_is_ending(context));

  EXPECT_FALSE(context_end_is_decided(context, made.generation, false));
  EXPECT_TRUE(made.life.is_over());
  EXPECT_FALSE(context_end_is_decided(context, made.generation, false));

  EXPECT_FALSE(made.life.is_over());
}

TEST(ContextLife, BeginsAgainWhenTheContextIsMadeAgain) {
  const std::uint64_t context = 0x3000;
  const CurrentContext first = context_was_made(context, 0, 0).now;
  EXPECT_EQ(context_is_ending(context), first.generation);
  EXPECT_TRUE(context_end_is_decided(context, first.generation, true));

  EXPECT_TRUE(first.life.is_over());
  const CurrentContext second = context_was_made(context, 1, 0).now;

  EXPECT_TRUE(first.life.is_over());
  EXPECT_FALSE(second.life.is_over());
  EXPECT_EQ(second.generation, first.generation + 1);
  EXPECT_EQ(second.device, 1);
}

// A way back that no hook sees: the driver serves a request of a life that we take for over.
TEST(ContextLife, BeginsAgainWhenTheDriverServesIt) {
  const std::uint64_t context = 0x4000;
  const CurrentContext first = context_was_made(context, 0, 0).now;
  static_cast<void>(context_is_ending(context));
  EXPECT_TRUE(context_end_is_decided(context, first.generation, true));
  const ContextLife next{first.life.word, first.life.at_work + (std::uint64_t{1} << 32)};
  EXPECT_TRUE(next.is_over());

  context_has_answered(context, first.life);  // one that was in time for the first
  EXPECT_TRUE(next.is_over());
  context_has_answered(context, next);

  EXPECT_FALSE(next.is_over());
  EXPECT_TRUE(first.life.is_over());
}

// Two threads release a primary context; by the time they look, both see that it is gone.
TEST(ContextLife, EndsOnce) {
  const std::uint64_t context = 0x5000;
  const CurrentContext made = context_was_made(context, 0, 1).now;
  EXPECT_EQ(context_is_ending(context), made.generation);
  EXPECT_EQ(context_is_ending(context), made.generation);

  EXPECT_TRUE(context_end_is_decided(context, made.generation, true));
  EXPECT_FALSE(context_end_is_decided(context, made.generation, true));

  const MadeContext next = context_was_made(context, 0, 2);
  EXPECT_FALSE(next.has_ended_unseen);
  EXPECT_EQ(next.now.generation, made.generation + 1);
  EXPECT_FALSE(next.now.life.is_over());
}

// One thread releases a primary context for the last time while another retains it: whoever released it sees it active.
TEST(ContextLife, ThatBeginsBeforeTheEndOfTheLastIsDecidedIsNotOver) {
  for (const bool ended : {false, true}) {
    const std::uint64_t context = ended ? 0x6000 : 0x7000;
    const CurrentContext first = context_was_made(context, 0, 1).now;
    EXPECT_EQ(context_is_ending(context), first.generation);

    const MadeContext second = context_was_made(context, 0, 2);

    EXPECT_TRUE(second.has_ended_unseen);
    EXPECT_EQ(second.ended_generation, first.generation);
    EXPECT_TRUE(first.life.is_over());
    EXPECT_FALSE(second.now.life.is_over());
    EXPECT_FALSE(context_end_is_decided(context, first.generation, ended));
    EXPECT_FALSE(second.now.life.is_over());
  }
}

TEST(ContextLife, IsTheSameWhileTheDriverNamesItSo) {
  const std::uint64_t context = 0x8000;
  const CurrentContext first = context_was_made(context, 0, 1).now;

  const MadeContext again = context_was_made(context, 0, 1);

  EXPECT_FALSE(again.has_ended_unseen);
  EXPECT_EQ(again.now.generation, first.generation);
  EXPECT_FALSE(first.life.is_over());
}

}  // namespace
}  // namespace cuheap
