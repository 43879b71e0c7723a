#include "shim/hooks/contexts.h"

#include <gtest/gtest.h>

namespace cuheap {
namespace {

// Each test has a context of its own: what is known of one stays known.
TEST(ContextLife, GoesOnAfterAnEndThatTheDriverRefused) {
  const std::uint64_t context = 0x1000;
  const CurrentContext made = context_was_made(context, 3);
  EXPECT_EQ(made.device, 3);
  EXPECT_FALSE(made.life.is_over());

  EXPECT_EQ(context_is_ending(context), made.generation);
  EXPECT_TRUE(made.life.is_over());
  context_end_is_decided(context, false);

  EXPECT_FALSE(made.life.is_over());
  EXPECT_EQ(context_was_made(context, 3).generation, made.generation);
}

TEST(ContextLife, IsOverWhileOneOfTwoEndsIsUndecided) {
  const std::uint64_t context = 0x2000;
  const CurrentContext made = context_was_made(context, 0);
  static_cast<void>(context_is_ending(context));
  static_cast<void>(context_is_ending(context));

  context_end_is_decided(context, false);
  EXPECT_TRUE(made.life.is_over());
  context_end_is_decided(context, false);

  EXPECT_FALSE(made.life.is_over());
}

TEST(ContextLife, BeginsAgainWhenTheContextIsMadeAgain) {
  const std::uint64_t context = 0x3000;
  const CurrentContext first = context_was_made(context, 0);
  EXPECT_EQ(context_is_ending(context), first.generation);
  context_end_is_decided(context, true);

  EXPECT_TRUE(first.life.is_over());
  const CurrentContext second = context_was_made(context, 1);

  EXPECT_TRUE(first.life.is_over());
  EXPECT_FALSE(second.life.is_over());
  EXPECT_EQ(second.generation, first.generation + 1);
  EXPECT_EQ(second.device, 1);
}

// A way back that no hook sees: the driver serves a request of a life that we take for over.
TEST(ContextLife, BeginsAgainWhenTheDriverServesIt) {
  const std::uint64_t context = 0x4000;
  const CurrentContext first = context_was_made(context, 0);
  static_cast<void>(context_is_ending(context));
  context_end_is_decided(context, true);
  const ContextLife next{first.life.word, first.life.at_work + (std::uint64_t{1} << 32)};
  EXPECT_TRUE(next.is_over());

  context_has_answered(context, first.life);  // one that was in time for the first
  EXPECT_TRUE(next.is_over());
  context_has_answered(context, next);

  EXPECT_FALSE(next.is_over());
  EXPECT_TRUE(first.life.is_over());
}

}  // namespace
}  // namespace cuheap
