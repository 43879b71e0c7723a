#include "shim/pool/graph_book.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <thread>

namespace cuheap {
namespace {

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

  Periods few;
  for (std::uint32_t period = 1; period <= 1000; ++period) few.add(Periods(period));
  for (const std::uint32_t period : {5000u, 7000u, 9000u}) few.add(Periods(period));
  EXPECT_FALSE(few.has(3000));

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
