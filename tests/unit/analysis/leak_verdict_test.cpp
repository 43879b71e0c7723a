#include "tools/analysis/leak_verdict.h"

#include <gtest/gtest.h>

#include "tests/unit/analysis/leak_evidence_sample.h"

namespace cuheap {
namespace {

using test::kSecond;
using test::plain_leak;
using test::plain_run;
using test::set_survivors;

LeakVerdict judged(const LeakEvidence& e, const ProcessRun& run = plain_run(), const SiteSizes& sizes = test::plain_sizes()) {
  return judge(e, {run, sizes, "allocations", "restart", 2000});
}
testing::AssertionResult is(const LeakVerdict& v, Verdict wanted, const std::string& because = "") {
  if (v.verdict == wanted && v.reason.find(because) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << verdict_name(v.verdict) << ": " << v.reason;
}

// Every test below changes one thing of this evidence.
TEST(Judge, AnEqualShareOfEveryAgeThatStaysIsALeak) {
  const LeakVerdict v = judged(plain_leak());
  EXPECT_TRUE(is(v, Verdict::Leak));
  EXPECT_DOUBLE_EQ(v.bytes_per_second, 80 * 4096 / 800.0);
  EXPECT_DOUBLE_EQ(v.bytes_per_window, 10 * 4096.0);
  EXPECT_GT(v.ci95[0], 0);
  EXPECT_LT(v.p_value, 0.001);
}

// --- guards ---------------------------------------------------------------------------------------------------------------

TEST(Judge, ADeathAmongTheOldestInTheLastQuarterIsNoLeak) {
  LeakEvidence e = plain_leak();
  e.late_deaths = 1;
  e.oldest_late_death = 20;  // two of the sixty that were old then are older
  EXPECT_TRUE(is(judged(e), Verdict::Undecided, "still being freed in the last quarter"));
  e.oldest_late_death = 590;  // young ones still die in the ordinary way
  EXPECT_TRUE(is(judged(e), Verdict::Leak));
}

TEST(Judge, LateDeathsAreWeighedAgainstWhatWasAliveThen) {
  // Of the survivors sixty, and of the dead forty more were alive at three quarters: a third of that is 33.
  LeakEvidence e = plain_leak();
  e.late_deaths = 40;
  e.oldest_late_death = 320;  // 32 survivors are older
  EXPECT_TRUE(is(judged(e), Verdict::Undecided));
  e.oldest_late_death = 350;
  EXPECT_TRUE(is(judged(e), Verdict::Leak));
}

TEST(Judge, FewestBlocksAliveThatDoNotBecomeMoreAreNoLeak) {
  LeakEvidence e = plain_leak();
  e.low_water.fill(50);
  EXPECT_TRUE(is(judged(e), Verdict::Plateau, "do not become more"));
  e.low_water = {10, 60, 20, 50, 15, 55, 12, 40};  // up and down, a little higher at the end
  EXPECT_TRUE(is(judged(e), Verdict::Undecided, "do not clearly become more"));
}

TEST(Judge, WhatIsFreedAtMarksNeedsThreeOfThem) {
  LeakEvidence e = plain_leak();
  e.deaths_on_marks = e.deaths / 2 + 1;
  ProcessRun run = plain_run();
  run.rare_marks = {100, 300, 600, 980};  // the first before, the last after the births that are judged
  EXPECT_TRUE(is(judged(e, run), Verdict::Undecided, "freed at marks"));
  run.rare_marks = {100, 300, 600, 900, 980};
  EXPECT_TRUE(is(judged(e, run), Verdict::Leak));
  run.rare_marks = {300, 600};
  e.deaths_on_marks = e.deaths / 2;  // not most of them
  EXPECT_TRUE(is(judged(e, run), Verdict::Leak));
}

TEST(Judge, ARateThatMayBeZeroIsNoLeak) {
  LeakEvidence e = plain_leak();
  for (Survivor& s : e.survivors) s.bytes = 0;
  EXPECT_TRUE(is(judged(e), Verdict::Undecided, "may be zero"));
  LeakEvidence instant = plain_leak();
  instant.mature_last_ns = instant.mature_first_ns;  // no time went by, so no rate can be claimed
  EXPECT_TRUE(is(judged(instant), Verdict::Undecided, "may be zero"));
}

TEST(Judge, SurvivorsMustComeFromSevenOfEightAges) {
  LeakEvidence e = plain_leak();
  set_survivors(e, {13, 14, 0, 13, 13, 0, 14, 13});
  EXPECT_TRUE(is(judged(e), Verdict::Undecided, "in bouts"));
  set_survivors(e, {13, 14, 1, 13, 13, 0, 14, 13});
  EXPECT_TRUE(is(judged(e), Verdict::Leak));
}

TEST(Judge, NineSurvivorsAreTooFew) {
  LeakEvidence e = plain_leak();
  set_survivors(e, {1, 1, 2, 1, 1, 1, 1, 1});
  EXPECT_TRUE(is(judged(e), Verdict::Undecided, "too few survivors"));
  set_survivors(e, {1, 1, 2, 1, 1, 2, 1, 1});
  EXPECT_TRUE(is(judged(e), Verdict::Leak));
}

TEST(Judge, BirthsThatSpanTooLittleDecideNothing) {
  LeakEvidence e = plain_leak();
  e.mature_first_tick = 660;  // to 950: 29 % of the run
  EXPECT_TRUE(is(judged(e), Verdict::Undecided, "span too little"));
  e.mature_first_tick = 640;
  EXPECT_TRUE(is(judged(e), Verdict::Leak));
}

TEST(Judge, MoreAmongTheYoungIsABacklogAndAmongTheOldACache) {
  LeakEvidence e = plain_leak();
  set_survivors(e, {2, 4, 6, 8, 10, 12, 14, 16});
  e.survivors.resize(59);  // too few for a growing leak
  EXPECT_TRUE(is(judged(e), Verdict::Backlog));
  set_survivors(e, {16, 14, 12, 10, 8, 6, 4, 2});
  EXPECT_TRUE(is(judged(e), Verdict::Filling));
}

TEST(Judge, WhereNearlyNothingDiesItAccumulates) {
  LeakEvidence e = plain_leak();
  set_survivors(e, {96, 95, 96, 95, 95, 96, 95, 96});
  const LeakVerdict v = judged(e);
  EXPECT_TRUE(is(v, Verdict::Accumulates, "next to nothing"));
  EXPECT_GT(v.bytes_per_second, 0);
  set_survivors(e, {100, 100, 99, 98, 97, 96, 95, 94});  // a few more of the young died: no cache that fills
  EXPECT_TRUE(is(judged(e), Verdict::Accumulates));
  set_survivors(e, {94, 95, 94, 95, 94, 95, 94, 95});
  EXPECT_TRUE(is(judged(e), Verdict::Leak));
}

TEST(Judge, TheRateCoversTheTimeToTheNextBirth) {
  LeakEvidence e = plain_leak();
  e.mature_end_ns = 960 * kSecond;  // after 950, the last that counts
  e.mature_end_tick = 960;
  EXPECT_DOUBLE_EQ(judged(e).bytes_per_second, 80 * 4096 / 810.0);
  ProcessRun run = plain_run();
  run.clock.kind = ClockKind::Marks;
  EXPECT_EQ(judged(e, run).windows, 810u);
}

TEST(Judge, UnevenTimesMakeARateUncertain) {
  LeakEvidence e = plain_leak();
  set_survivors(e, {10, 10, 10, 10, 10, 10, 10, 10});
  EXPECT_DOUBLE_EQ(judged(e).ci95[0], judged(e).ci95[1]);
  const std::uint64_t begins[] = {150, 200, 250, 450, 550, 600, 650, 850};
  for (std::uint32_t g = 0; g < 8; ++g) e.birth_times.emplace_back(g * 100, begins[g] * kSecond);
  const LeakVerdict v = judged(e);
  EXPECT_LT(v.ci95[0], 0.95 * v.bytes_per_second);
  EXPECT_GT(v.ci95[1], 1.05 * v.bytes_per_second);
}

// --- births that stopped --------------------------------------------------------------------------------------------------

TEST(Judge, ASilenceIsMeasuredByTheUsualGap) {
  LeakEvidence e = plain_leak();
  e.last_birth = 650;  // silent for 35 % of the run
  EXPECT_TRUE(is(judged(e), Verdict::Plateau, "births stopped"));
  // Four births, 167 ticks apart: a silence of 350 is nothing new.
  LeakEvidence rare = plain_leak();
  rare.births = rare.births_after_warm_up = rare.live_count = rare.live_after_warm_up = rare.mature_births = 4;
  rare.deaths = 0;
  rare.last_birth = 650;
  rare.survivors.resize(4);
  EXPECT_TRUE(is(judged(rare), Verdict::Undecided, "too few blocks"));
  rare.first_birth = 500;  // 50 apart
  EXPECT_TRUE(is(judged(rare), Verdict::Plateau, "births stopped"));
}

TEST(Judge, AShorterSilenceDoesForRegularBirths) {
  LeakEvidence e = plain_leak();
  e.last_birth = 880;  // 12 % of the run; births came every tick
  EXPECT_TRUE(is(judged(e), Verdict::Plateau, "births stopped"));
  e.longest_gap = 61;  // there was half as long a silence before
  EXPECT_TRUE(is(judged(e), Verdict::Leak));
  e.longest_gap = 1;
  e.last_birth = 905;
  EXPECT_TRUE(is(judged(e), Verdict::Leak));
}

// --- growing leaks --------------------------------------------------------------------------------------------------------

LeakEvidence growing() {
  LeakEvidence e = plain_leak();
  std::vector<std::uint32_t> survivors;
  for (std::uint32_t g = 0; g < 20; ++g) survivors.push_back(1 + g / 2);
  set_survivors(e, survivors);
  return e;
}

TEST(Judge, AShareThatGrowsOverTwentyAgesIsAGrowingLeak) {
  EXPECT_TRUE(is(judged(growing()), Verdict::GrowingLeak));
}

TEST(Judge, AGrowingLeakNeedsARisingLowWater) {
  LeakEvidence e = growing();
  e.low_water.fill(50);
  const LeakVerdict v = judged(e);
  EXPECT_TRUE(is(v, Verdict::Backlog));
  EXPECT_EQ(v.bytes_per_second, 0);
  EXPECT_EQ(v.group_survivors.size(), 8u);
}

TEST(Judge, AGrowingLeakNeedsItsOldOnesToLive) {
  LeakEvidence e = growing();
  e.late_deaths = 1;
  e.oldest_late_death = 0;
  EXPECT_TRUE(is(judged(e), Verdict::Backlog));
}

// --- cycles ---------------------------------------------------------------------------------------------------------------

/// Eight restarts a hundred seconds apart, each of which leaves a block of a million bytes.
LeakEvidence one_a_restart() {
  LeakEvidence e = plain_leak();
  e.mature_births = 10;
  e.survivors.clear();
  for (std::uint32_t cycle = 0; cycle < 8; ++cycle) e.survivors.push_back({cycle, 1000000, (150 + 100 * cycle) * kSecond});
  return e;
}
ProcessRun restarts() {
  ProcessRun run = plain_run();
  for (std::uint64_t cycle = 1; cycle <= 8; ++cycle) run.cycle_ns.push_back(cycle * 100 * kSecond);
  run.cycle_label = "restart";
  return run;
}

TEST(Judge, WhatEveryRestartLeavesIsALeakPerRestart) {
  const LeakVerdict v = judged(one_a_restart(), restarts());
  EXPECT_TRUE(is(v, Verdict::Leak, "every restart"));
  EXPECT_EQ(v.window, "restart");
  EXPECT_EQ(v.windows, 6u);  // less the first, which warms up, and the last, which may be under way
  EXPECT_DOUBLE_EQ(v.bytes_per_window, 1e6);
  EXPECT_DOUBLE_EQ(v.bytes_per_second, 6e6 / 600);
}

TEST(Judge, ARestartThatLeavesNothingAcquits) {
  LeakEvidence e = one_a_restart();
  e.survivors.erase(e.survivors.begin() + 4);
  EXPECT_TRUE(is(judged(e, restarts()), Verdict::Undecided, "too few survivors"));
}

TEST(Judge, RestartsTooYoungToJudgeSayNothing) {
  LeakEvidence e = one_a_restart();
  e.mature_last_ns = 560 * kSecond;  // the cycles from 600 s on are too young
  e.survivors.resize(5);
  const LeakVerdict v = judged(e, restarts());
  EXPECT_TRUE(is(v, Verdict::Leak, "every restart"));
  EXPECT_EQ(v.windows, 4u);
  EXPECT_DOUBLE_EQ(v.bytes_per_second, 4e6 / 400);
}

TEST(Judge, TwoRestartsAreTooFew) {
  LeakEvidence e = one_a_restart();
  e.mature_last_ns = 360 * kSecond;
  e.survivors.resize(3);
  EXPECT_TRUE(is(judged(e, restarts()), Verdict::Undecided, "too few survivors"));
}

// --- full caches, ratchets ------------------------------------------------------------------------------------------------

TEST(Judge, AFullCacheIsAPlateauThoughItsResidueLooksLikeALeak) {
  LeakEvidence e = plain_leak();
  e.bytes.low.fill(1e6);
  e.bytes.high.fill(1.04e6);
  EXPECT_TRUE(is(judged(e), Verdict::Plateau, "full"));
  e.deaths = e.live_count - 1;  // not all of it was replaced: it may still fill
  EXPECT_TRUE(is(judged(e), Verdict::Leak));
}

TEST(IsRatchet, SizesThatRiseWhileIdleMemoryGrows) { EXPECT_TRUE(is_ratchet(test::ratchet_sizes(), test::growing_device())); }

TEST(IsRatchet, NotWithoutRisingSizes) {
  SiteSizes s = test::ratchet_sizes();
  s.window_bytes[4] = s.window_bytes[3];
  EXPECT_FALSE(is_ratchet(s, test::growing_device()));
}

TEST(IsRatchet, NotWhereATenthIsKept) {
  SiteSizes s = test::ratchet_sizes();
  s.deaths = 719;
  EXPECT_FALSE(is_ratchet(s, test::growing_device()));
  s.deaths = 720;
  EXPECT_TRUE(is_ratchet(s, test::growing_device()));
}

TEST(IsRatchet, NotWhereLiveGrowsToo) {
  SiteSizes s = test::ratchet_sizes();
  for (std::size_t w = 0; w < kWindows; ++w) s.low_water[w] = 3.0 * static_cast<double>(w);
  EXPECT_FALSE(is_ratchet(s, test::growing_device()));
}

TEST(IsRatchet, NotWhereIdleMemoryGrowsNoMoreThanOneRequest) {
  DeviceRun d = test::growing_device();
  for (std::size_t w = 0; w < kWindows; ++w) d.idle.low[w] = 0.09e6 * static_cast<double>(w);
  EXPECT_FALSE(is_ratchet(test::ratchet_sizes(), d));
}

}  // namespace
}  // namespace cuheap
