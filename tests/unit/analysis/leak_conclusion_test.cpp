#include "tools/analysis/leak_conclusion.h"

#include <gtest/gtest.h>

#include "tests/unit/analysis/leak_evidence_sample.h"

namespace cuheap {
namespace {

using test::plain_leak;
using test::set_survivors;

LeakEvidenceSet set_of(std::vector<LeakEvidence> keys) {
  LeakEvidenceSet set;
  set.floor = Floor::Framework;
  set.processes = {test::plain_run()};
  set.devices = {test::growing_device()};
  for (const LeakEvidence& key : keys) {
    const bool known = std::any_of(set.sites.begin(), set.sites.end(), [&](const SiteSizes& s) { return s.site == key.site; });
    if (!known) set.sites.push_back(test::plain_sizes(key.site));
  }
  set.keys = std::move(keys);
  return set;
}

/// A leak by its groups alone: p = 0.02.
LeakEvidence faint_leak(SiteId site) {
  LeakEvidence e = plain_leak(site);
  set_survivors(e, {1, 2, 1, 1, 1, 8, 1, 2});
  return e;
}
/// Looked at by the same test, p = 0.18.
LeakEvidence chance(SiteId site) {
  LeakEvidence e = plain_leak(site);
  set_survivors(e, {0, 0, 0, 12, 0, 0, 0, 0});
  return e;
}

TEST(Conclude, AFaintLeakStandsAloneButNotAmongManySites) {
  std::vector<LeakEvidence> keys = {faint_leak(1)};
  const std::vector<LeakVerdict> alone = conclude(set_of(keys), 2000);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].verdict, Verdict::Leak) << alone[0].reason;

  for (SiteId site = 2; site <= 20; ++site) keys.push_back(chance(site));
  const std::vector<LeakVerdict> among = conclude(set_of(keys), 2000);
  ASSERT_EQ(among.size(), 20u);
  for (const LeakVerdict& v : among) {
    EXPECT_EQ(v.verdict, Verdict::Undecided) << v.reason;
    EXPECT_EQ(v.bytes_per_second, 0);
  }
}

TEST(Conclude, AClearLeakStandsAmongManySites) {
  std::vector<LeakEvidence> keys = {plain_leak(1)};
  for (SiteId site = 2; site <= 20; ++site) keys.push_back(chance(site));
  std::size_t leaks = 0;
  for (const LeakVerdict& v : conclude(set_of(keys), 2000)) leaks += v.verdict == Verdict::Leak ? 1u : 0u;
  EXPECT_EQ(leaks, 1u);
}

TEST(Conclude, SizeClassesOfASiteAreOneLineWithTheSumOfTheirRates) {
  LeakEvidence small = plain_leak(), large = plain_leak();
  large.size_low = large.size_high = 1 << 20;
  for (Survivor& s : large.survivors) s.bytes = 1 << 20;
  const std::vector<LeakVerdict> verdicts = conclude(set_of({small, large}), 2000);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_DOUBLE_EQ(verdicts[0].bytes_per_second, 80 * (4096.0 + (1 << 20)) / 800);
  EXPECT_DOUBLE_EQ(verdicts[0].bytes_per_window, 10 * (4096.0 + (1 << 20)));
  EXPECT_EQ(verdicts[0].size_low, 4096u);
  EXPECT_EQ(verdicts[0].size_high, 1u << 20);
  EXPECT_EQ(verdicts[0].survivors, 160u);
}

TEST(Conclude, MarksOfMergedClassesKeepTheirCount) {
  LeakEvidenceSet set = set_of({plain_leak(), plain_leak()});
  set.processes[0].clock.kind = ClockKind::Marks;
  set.processes[0].clock.label = "step";
  const std::vector<LeakVerdict> verdicts = conclude(set, 2000);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].window, "step");
  EXPECT_EQ(verdicts[0].windows, 800u);
  EXPECT_DOUBLE_EQ(verdicts[0].bytes_per_window, 2 * 80 * 4096.0 / 800);
}

TEST(Conclude, TimeToOomTakesWhatTheDriverCallsUsed) {
  LeakEvidenceSet set = set_of({plain_leak()});
  const double rate = 80 * 4096.0 / 800, gib = 1024.0 * 1024 * 1024;
  set.devices[0].held_physical = std::uint64_t{2} << 30;
  EXPECT_DOUBLE_EQ(conclude(set, 2000)[0].oom_in_seconds.value(), 8 * gib / rate);
  set.devices[0].driver_used = std::uint64_t{6} << 30;  // contexts and other processes
  EXPECT_DOUBLE_EQ(conclude(set, 2000)[0].oom_in_seconds.value(), 4 * gib / rate);
  set.devices[0].driver_used = std::uint64_t{1} << 30;  // a sample from before
  EXPECT_DOUBLE_EQ(conclude(set, 2000)[0].oom_in_seconds.value(), 8 * gib / rate);
}

TEST(Conclude, TimeToOomIsOfWhatTheDriverTakes) {
  LeakEvidence e = plain_leak();
  const double plain = conclude(set_of({e}), 2000)[0].oom_in_seconds.value();
  e.live_taken = 2 * e.live_bytes;
  EXPECT_DOUBLE_EQ(conclude(set_of({e}), 2000)[0].oom_in_seconds.value(), plain / 2);
}

TEST(Conclude, SizeClassesThatContradictEachOtherAreJudgedTogether) {
  LeakEvidence small = plain_leak(), large = plain_leak();
  large.size_low = large.size_high = 1 << 20;
  set_survivors(small, {40, 44, 36, 41, 43, 37, 42, 38});
  set_survivors(large, {2, 2, 3, 3, 4, 4, 5, 6});  // rises, too few to mean much beside those of the other class
  EXPECT_EQ(conclude(set_of({large}), 2000)[0].verdict, Verdict::Backlog);
  std::vector<LeakVerdict> verdicts = conclude(set_of({small, large}), 2000);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].verdict, Verdict::Leak);
  EXPECT_EQ(verdicts[0].survivors, 321u + 29u);
  set_survivors(small, {10, 11, 9, 10, 10, 9, 11, 10});
  set_survivors(large, {2, 3, 4, 6, 8, 10, 12, 14});  // and here it means something
  verdicts = conclude(set_of({small, large}), 2000);
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].verdict, Verdict::Leak);
  EXPECT_EQ(verdicts[1].verdict, Verdict::Backlog);
}

TEST(Conclude, LeaksOfADeviceShareItsFreeMemoryAndWhatAccumulatesStandsByItself) {
  LeakEvidence kept = plain_leak(3);
  kept.deaths = 0;
  LeakEvidence elsewhere = plain_leak(4);
  elsewhere.device = 1;
  LeakEvidenceSet set = set_of({plain_leak(1), plain_leak(2), kept, elsewhere});
  set.sites.back().device = 1;
  const double rate = 80 * 4096.0 / 800, free = static_cast<double>(set.devices[0].total);
  for (const LeakVerdict& v : conclude(set, 2000)) {
    if (v.device == 1) {
      EXPECT_FALSE(v.oom_in_seconds.has_value());
      continue;
    }
    const double share = v.verdict == Verdict::Accumulates ? 1 : 2;
    EXPECT_DOUBLE_EQ(v.oom_in_seconds.value(), free / (share * rate)) << verdict_name(v.verdict);
    EXPECT_LT(v.oom_interval[0], *v.oom_in_seconds);
    EXPECT_GT(v.oom_interval[1], *v.oom_in_seconds);
  }
}

TEST(Conclude, ARatchetsRateIsTheGrowthOfIdleMemoryOverTheSevenEighthsBetween) {
  LeakEvidence dies = plain_leak();
  dies.live_after_warm_up = dies.live_count = 0;
  LeakEvidenceSet set = set_of({dies});
  set.sites = {test::ratchet_sizes()};
  const std::vector<LeakVerdict> verdicts = conclude(set, 2000);
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].verdict, Verdict::None);
  EXPECT_EQ(verdicts[1].verdict, Verdict::Ratchet);
  EXPECT_DOUBLE_EQ(verdicts[1].bytes_per_second, 7 * 70e6 / (900 * 7.0 / 8));
  EXPECT_DOUBLE_EQ(verdicts[1].bytes_per_window, 70e6);
}

TEST(Conclude, ASiteThatIsAccusedAlreadyIsNoRatchetToo) {
  LeakEvidenceSet set = set_of({plain_leak()});
  set.sites = {test::ratchet_sizes()};
  const std::vector<LeakVerdict> verdicts = conclude(set, 2000);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].verdict, Verdict::Leak);
}

}  // namespace
}  // namespace cuheap
