#include "tools/analysis/oom.h"

#include <gtest/gtest.h>

#include "tests/unit/analysis/trace_builder.h"

namespace cuheap {
namespace {

using test::TraceBuilder;
constexpr std::uint64_t kGiB = 1 << 30;

Event& refuse(TraceBuilder& b, Floor floor, std::uint64_t size) {
  return b.event(EventKind::OutOfMemory, floor, floor == Floor::Framework ? Family::Tensor : Family::Device, 0, size);
}
Event& sample(TraceBuilder& b, std::uint64_t free, std::uint64_t total) {
  Event& e = b.event(EventKind::MemoryInfo, Floor::Physical, Family::None, 0, free);
  e.extra0 = total;
  return e;
}
std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}
bool says(const std::vector<std::string>& lines, const std::string& what) { return joined(lines).find(what) != std::string::npos; }
OomReport only(const TraceBuilder& b, const LeakReport* leaks = nullptr) {
  const std::vector<OomReport> reports = ooms(b.build(), leaks);
  EXPECT_EQ(reports.size(), 1u);
  return reports.empty() ? OomReport{} : reports.front();
}
/// A device of 10 GiB with a segment of 8 GiB of which `live` are tensors.
TraceBuilder card(std::uint64_t live) {
  TraceBuilder b;
  b.device(10 * kGiB);
  b.cuda_malloc(0x100000000, 8 * kGiB, b.site({"main", "c10::malloc"}));
  b.tensor(0x100000000, live, b.site({"main", "model"}));
  b.totals(live, 8 * kGiB);
  return b;
}

TEST(Oom, IdleMemoryOfTheFrameworkIsFragmentation) {
  TraceBuilder b = card(4 * kGiB);
  refuse(b, Floor::Framework, 3 * kGiB);
  const OomReport r = only(b);
  EXPECT_EQ(r.oom_class, "fragmentation");
  EXPECT_EQ(r.request, 3 * kGiB);
  EXPECT_EQ(r.state[Floor::Framework].live, 4 * kGiB);
  EXPECT_EQ(r.device_free, 2 * kGiB);
  ASSERT_FALSE(r.top_sites.sites.empty());
  EXPECT_EQ(r.top_sites.sites[0].bytes, 4 * kGiB);
  EXPECT_FALSE(r.evidence.empty());
  EXPECT_FALSE(r.advice.empty());
  EXPECT_FALSE(r.will_not_help.empty());
}

TEST(Oom, RefusalOfTheDriverWhileTheFrameworkIsIdleIsASiblings) {
  TraceBuilder b = card(4 * kGiB);
  refuse(b, Floor::Allocation, 3 * kGiB);
  EXPECT_EQ(only(b).oom_class, "sibling_idle");
}

TEST(Oom, FullDeviceIsTooBig) {
  TraceBuilder b = card(8 * kGiB);
  refuse(b, Floor::Framework, 3 * kGiB);
  EXPECT_EQ(only(b).oom_class, "too_big");
}

TEST(Oom, FreeAndIdleTogetherAreNamed) {
  TraceBuilder b = card(6 * kGiB);
  refuse(b, Floor::Framework, 3 * kGiB);  // 2 idle, 2 free
  EXPECT_EQ(only(b).oom_class, "partly_fragmentation");
}

TEST(Oom, EnoughFreeMemoryMeansALimit) {
  TraceBuilder b = card(8 * kGiB);
  refuse(b, Floor::Framework, 1 * kGiB);
  sample(b, 2 * kGiB, 10 * kGiB);
  const OomReport r = only(b);
  EXPECT_EQ(r.oom_class, "limit");
  EXPECT_TRUE(r.free_is_exact);
}

TEST(Oom, WithoutTheDriversFigureOfThatMomentNoLimitIsClaimed) {
  TraceBuilder b = card(8 * kGiB);  // the context takes memory too, which no call reports
  refuse(b, Floor::Framework, 1 * kGiB);
  const OomReport r = only(b);
  EXPECT_EQ(r.oom_class, "unknown");
  EXPECT_FALSE(r.free_is_exact);
  EXPECT_TRUE(says(r.evidence, "at most 2.00 GiB of 10.00 GiB")) << joined(r.evidence);
}

TEST(Oom, TheDriversFigureAfterTheRefusalCountsAndNotTheOneBefore) {
  TraceBuilder b;
  b.device(10 * kGiB);
  sample(b, 9 * kGiB + kGiB / 2, 10 * kGiB);
  b.cuda_malloc(0x100000000, 8 * kGiB);
  refuse(b, Floor::Allocation, 2 * kGiB - kGiB / 4);
  sample(b, 1 * kGiB + kGiB / 2, 10 * kGiB);
  const OomReport r = only(b);
  EXPECT_EQ(r.oom_class, "too_big");
  EXPECT_EQ(r.device_free, 1 * kGiB + kGiB / 2);
}

TEST(Oom, AnOlderFigureOfTheDriverIsMovedOnByWhatChangedSince) {
  TraceBuilder b;
  b.device(10 * kGiB);
  sample(b, 9 * kGiB, 10 * kGiB);  // the context takes one
  b.cuda_malloc(0x100000000, 8 * kGiB);
  refuse(b, Floor::Allocation, 2 * kGiB);
  b.cuda_free(0x100000000);
  sample(b, 9 * kGiB, 10 * kGiB);  // speaks of another moment
  const OomReport r = only(b);
  EXPECT_EQ(r.oom_class, "too_big");
  EXPECT_EQ(r.device_free, 1 * kGiB);
  EXPECT_TRUE(says(r.evidence, "at most 1.00 GiB")) << joined(r.evidence);
}

TEST(Oom, AFrameworksRefusalIsJudgedByWhatItHeldAtThatMoment) {
  TraceBuilder b;
  b.device(24 * kGiB);
  b.cuda_malloc(0x100000000, 18 * kGiB);
  b.cuda_malloc(0x900000000, 5 * kGiB);
  b.tensor(0x100000000, 17 * kGiB);
  b.totals(17 * kGiB, 23 * kGiB);
  b.cuda_free(0x900000000);  // given back before it failed; no sums of the framework follow
  sample(b, 5 * kGiB, 24 * kGiB);
  Event& e = refuse(b, Floor::Framework, 5 * kGiB + kGiB / 2);
  e.extra0 = 17 * kGiB;
  e.extra1 = 18 * kGiB;
  const OomReport r = only(b);
  EXPECT_EQ(r.oom_class, "partly_fragmentation");
  EXPECT_EQ(r.state[Floor::Framework].held, 18 * kGiB);
  EXPECT_LE(r.state[Floor::Framework].held + r.device_free, r.device_total);
}

TEST(Oom, ThePoolIsNoAdviceForAFrameworksOwnCache) {
  TraceBuilder b = card(4 * kGiB);
  refuse(b, Floor::Framework, 3 * kGiB);
  const OomReport r = only(b);
  ASSERT_FALSE(r.advice.empty());
  EXPECT_NE(r.advice[0].find("expandable_segments:True"), std::string::npos) << joined(r.advice);
  EXPECT_TRUE(says(r.advice, "max_split_size_mb"));
  EXPECT_TRUE(says(r.advice, "PYTORCH_NO_CUDA_MEMORY_CACHING=1 with cuheap run --pool on"));
  EXPECT_FALSE(says(r.advice, "run with the pool"));
}

TEST(Oom, WhatIsSwitchedOnAlreadyIsNotAdvised) {
  TraceBuilder b = card(4 * kGiB);
  b.allocate(Floor::Physical, Family::PoolGranule, 0x77, kGiB);
  refuse(b, Floor::Framework, 3 * kGiB);
  Trace trace = b.build();
  trace.processes[0].meta["env.PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True";
  const std::vector<OomReport> reports = ooms(trace);
  ASSERT_EQ(reports.size(), 1u);
  ASSERT_EQ(reports[0].oom_class, "fragmentation");
  EXPECT_FALSE(says(reports[0].advice, "expandable_segments"));
  EXPECT_FALSE(says(reports[0].advice, "--pool on")) << joined(reports[0].advice);
}

TEST(Oom, LargerThanTheDevice) {
  TraceBuilder b = card(8 * kGiB);
  refuse(b, Floor::Framework, 11 * kGiB);
  EXPECT_EQ(only(b).oom_class, "exceeds_device");
}

TEST(Oom, OtherProcessesShowInTheDriversFigure) {
  TraceBuilder b;
  b.device(10 * kGiB);
  b.cuda_malloc(0x100000000, 2 * kGiB);
  b.event(EventKind::MemoryInfo, Floor::None, Family::None, 0, kGiB).extra0 = 10 * kGiB;
  refuse(b, Floor::Allocation, 3 * kGiB);
  const OomReport r = only(b);
  EXPECT_EQ(r.oom_class, "foreign_process");
  EXPECT_EQ(r.device_free, kGiB);
}

TEST(Oom, ALeakIsTheClassIfOneIsKnown) {
  TraceBuilder b = card(8 * kGiB);
  refuse(b, Floor::Framework, 3 * kGiB);
  LeakReport leaks;
  leaks.verdicts.resize(1);
  leaks.verdicts[0].verdict = Verdict::Leak;
  leaks.verdicts[0].site = 4;
  leaks.verdicts[0].live_bytes = 5 * kGiB;
  leaks.verdicts[0].bytes_per_second = 1000;
  const OomReport r = only(b, &leaks);
  EXPECT_EQ(r.oom_class, "growth_leak");
  EXPECT_NE(r.evidence[1].find("model"), std::string::npos);
}

TEST(Oom, ALeakSmallerThanTheRequestCountsFromATwentiethOfWhatLives) {
  TraceBuilder b = card(8 * kGiB);
  refuse(b, Floor::Framework, 3 * kGiB);
  LeakReport leaks;
  leaks.verdicts.resize(1);
  leaks.verdicts[0].verdict = Verdict::Leak;
  leaks.verdicts[0].live_bytes = kGiB;
  EXPECT_EQ(only(b, &leaks).oom_class, "growth_leak");
  leaks.verdicts[0].live_bytes = kGiB / 8;
  EXPECT_NE(only(b, &leaks).oom_class, "growth_leak");
}

LeakReport leak_of(Verdict verdict, std::uint64_t bytes) {
  LeakReport leaks;
  leaks.verdicts.resize(1);
  leaks.verdicts[0].verdict = verdict;
  leaks.verdicts[0].live_bytes = bytes;
  leaks.verdicts[0].bytes_per_second = 1000;
  return leaks;
}

TEST(Oom, WhatGrowsPastTheIdleMemoryIsTheCauseAndNotTheHoles) {
  TraceBuilder b = card(6 * kGiB);
  refuse(b, Floor::Framework, 1 * kGiB);  // 2 are idle
  const LeakReport larger = leak_of(Verdict::Leak, 3 * kGiB - kGiB / 4), smaller = leak_of(Verdict::Leak, 2 * kGiB - 1);
  EXPECT_EQ(only(b, &larger).oom_class, "growth_leak");
  EXPECT_EQ(only(b, &smaller).oom_class, "fragmentation");
  // What merely accumulates may be a cache: it has to be most of what lives.
  const LeakReport some = leak_of(Verdict::Accumulates, 3 * kGiB - 1), most = leak_of(Verdict::Accumulates, 3 * kGiB);
  EXPECT_EQ(only(b, &some).oom_class, "fragmentation");
  EXPECT_EQ(only(b, &most).oom_class, "growth_leak");
}

TEST(Oom, LeakInThePoolIsNoFragmentation) {
  // Blocks of 3 MiB begin on granules of 2 MiB: a quarter of what is held lies behind them.
  TraceBuilder b;
  b.device(kGiB);
  const SiteId site = b.site({"main", "lose"});
  for (std::uint64_t i = 0; i < 254; ++i) {
    b.allocate(Floor::Physical, Family::PoolGranule, 2 * i + 1, 2 << 20);
    b.allocate(Floor::Physical, Family::PoolGranule, 2 * i + 2, 2 << 20);
    b.cuda_malloc((i + 1) << 22, 3 << 20, site).flags = kEventPooled;
  }
  refuse(b, Floor::Allocation, 3 << 20);
  const LeakReport leaks = leak_of(Verdict::Accumulates, 254 * (3 << 20));
  const OomReport leak = only(b, &leaks);
  EXPECT_EQ(leak.oom_class, "growth_leak");
  EXPECT_FALSE(says(leak.will_not_help, "cache")) << joined(leak.will_not_help);
  b.event(EventKind::MemoryInfo, Floor::Physical, Family::None, 0, 0).extra0 = kGiB;
  const OomReport r = only(b);
  EXPECT_EQ(r.oom_class, "too_big") << joined(r.evidence);
  EXPECT_FALSE(says(r.will_not_help, "cache"));
}

TEST(Oom, HolesInThePoolAreFragmentationAndNoFrameworkIsBlamed) {
  TraceBuilder b;
  b.device(kGiB);
  for (std::uint64_t i = 0; i < 510; ++i) {
    b.allocate(Floor::Physical, Family::PoolGranule, i + 1, 2 << 20);
    b.cuda_malloc((i + 1) << 21, 64 << 10).flags = kEventPooled;
  }
  refuse(b, Floor::Allocation, 16 << 20);
  const OomReport r = only(b);
  EXPECT_EQ(r.oom_class, "fragmentation");
  for (const char* word : {"the framework has", "max_split", "PYTORCH"}) {
    EXPECT_FALSE(says(r.advice, word)) << joined(r.advice);
    EXPECT_FALSE(says(r.will_not_help, word)) << joined(r.will_not_help);
  }
}

TEST(Oom, ASliverOfIdleMemoryIsNotTheCause) {
  constexpr std::uint64_t kMiB = 1 << 20;
  TraceBuilder b = card(8 * kGiB - 12 * kMiB);
  refuse(b, Floor::Framework, 2 * kGiB + 10 * kMiB);  // free and idle memory would do, by chance
  EXPECT_EQ(only(b).oom_class, "too_big");
  TraceBuilder half = card(8 * kGiB - 200 * kMiB);    // less than a twentieth, but half of the request
  half.allocate(Floor::Physical, Family::Handle, 0x99, 2 * kGiB - 200 * kMiB);
  refuse(half, Floor::Framework, 400 * kMiB);
  EXPECT_EQ(only(half).oom_class, "partly_fragmentation");
}

TEST(Oom, ItIsSaidHowOldWhatLivesIs) {
  TraceBuilder b;
  b.device(10 * kGiB);
  b.at(0).cuda_malloc(0x100000000, 6 * kGiB, b.site({"main", "weights"}));
  b.at(9'000'000'000).cuda_malloc(0x500000000, 3 * kGiB, b.site({"main", "late"}));
  b.at(10'000'000'000);
  refuse(b, Floor::Allocation, 2 * kGiB);
  const OomReport r = only(b);
  EXPECT_TRUE(says(r.evidence, "6.00 GiB of 9.00 GiB are older than 5 s")) << joined(r.evidence);
  EXPECT_EQ(r.old_ns, 5'000'000'000u);
  ASSERT_EQ(r.top_sites.sites.size(), 2u);
  EXPECT_EQ(r.top_sites.sites[0].old_bytes, 6 * kGiB);
  EXPECT_EQ(r.top_sites.sites[1].old_bytes, 0u);
}

/// Weights and a cache of 7 GiB that stay; requests of half a GiB each, one at a time, then `at_once` together.
TraceBuilder load(std::uint64_t at_once) {
  TraceBuilder b;
  b.device(10 * kGiB);
  b.cuda_malloc(0x100000000, 7 * kGiB, b.site({"main", "reserve"}));
  const SiteId prefill = b.site({"main", "prefill"});
  for (std::uint64_t i = 0; i < 40; ++i) {
    b.cuda_malloc(0x900000000, kGiB / 2, prefill);
    b.cuda_free(0x900000000);
  }
  for (std::uint64_t i = 0; i < at_once; ++i) b.cuda_malloc(0x900000000 + (i << 30), kGiB / 2, prefill);
  return b;
}

TEST(Oom, ManyShortLivedBlocksAtOnceAreAPeak) {
  TraceBuilder b = load(6);
  refuse(b, Floor::Allocation, kGiB / 2);
  const OomReport r = only(b);
  EXPECT_EQ(r.oom_class, "peak");
  EXPECT_TRUE(says(r.evidence, "7.00 GiB stay")) << joined(r.evidence);
  EXPECT_TRUE(says(r.evidence, "room beside them was 3.00 GiB")) << joined(r.evidence);
  EXPECT_TRUE(says(r.evidence, "on top 3.00 GiB in 6 short-lived blocks at once")) << joined(r.evidence);
  EXPECT_TRUE(says(r.evidence, "prefill")) << joined(r.evidence);
}

TEST(Oom, ARequestThatWouldNotFitAloneIsNoPeak) {
  TraceBuilder b = load(5);
  refuse(b, Floor::Allocation, 3 * kGiB + 1);
  EXPECT_EQ(only(b).oom_class, "too_big");
}

TEST(Oom, AsMuchOnTopAsEverIsNoPeak) {
  // Five at a time all along, and one more than fits.
  TraceBuilder b;
  b.device(10 * kGiB);
  b.cuda_malloc(0x100000000, 7 * kGiB);
  const SiteId work = b.site({"main", "work"});
  for (std::uint64_t i = 0; i < 60; ++i) {
    if (i >= 6) b.cuda_free(0x900000000 + (i - 6) * kGiB);
    b.cuda_malloc(0x900000000 + i * kGiB, kGiB / 2, work);
  }
  refuse(b, Floor::Allocation, kGiB / 2);
  EXPECT_EQ(only(b).oom_class, "too_big");
}

TEST(Oom, WhatIsNeverGivenBackIsNoPeak) {
  TraceBuilder b;
  b.device(10 * kGiB);
  const SiteId keep = b.site({"main", "keep"});
  b.mark(b.name("start"));
  b.at(10'000'000'000);  // much more than usual all at once
  for (std::uint64_t i = 0; i < 20; ++i) b.cuda_malloc(0x900000000 + i * kGiB, kGiB / 2, keep);
  refuse(b, Floor::Allocation, kGiB / 2);
  EXPECT_EQ(only(b).oom_class, "too_big");
}

TEST(Oom, ALeakThatHoldsMoreThanTheContextIsNoForeignProcess) {
  TraceBuilder b;
  b.device(10 * kGiB);
  b.cuda_malloc(0x100000000, 9 * kGiB, b.site({"main", "grow"}));
  refuse(b, Floor::Allocation, kGiB / 8);
  sample(b, kGiB / 16, 10 * kGiB);  // nearly one for the context
  EXPECT_EQ(only(b).oom_class, "foreign_process");
  LeakReport leaks;
  leaks.verdicts.resize(1);
  leaks.verdicts[0].verdict = Verdict::Leak;
  leaks.verdicts[0].live_bytes = 9 * kGiB;
  EXPECT_EQ(only(b, &leaks).oom_class, "growth_leak");
}

TEST(Oom, RefusalsOfTheDriverBeforeOneOfTheFrameworkAreItsCause) {
  TraceBuilder b = card(8 * kGiB);
  refuse(b, Floor::Allocation, 3 * kGiB).thread = 2;  // another thread's
  refuse(b, Floor::Allocation, 3 * kGiB);
  refuse(b, Floor::Allocation, 3 * kGiB);
  refuse(b, Floor::Framework, 3 * kGiB);
  const std::vector<OomReport> reports = ooms(b.build());
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].thread, 2u);
  EXPECT_EQ(reports[1].floor, Floor::Framework);
}

TEST(Oom, ARetryThatSucceedsIsRecovered) {
  TraceBuilder b = card(1 * kGiB);
  refuse(b, Floor::Allocation, 3 * kGiB);
  b.cuda_free(0x100000000);
  b.cuda_malloc(0x500000000, 3 * kGiB);
  const OomReport r = only(b);
  EXPECT_TRUE(r.recovered);
  EXPECT_EQ(r.oom_class, "recovered");
}

TEST(Oom, LessThanWasAskedForOrAnothersSuccessRecoversNothing) {
  for (const bool is_smaller : {true, false}) {
    TraceBuilder b = card(1 * kGiB);
    refuse(b, Floor::Allocation, 3 * kGiB);
    b.cuda_free(0x100000000);
    Event& next = b.cuda_malloc(0x500000000, is_smaller ? 2 * kGiB : 3 * kGiB);
    if (!is_smaller) next.thread = 9;
    EXPECT_FALSE(only(b).recovered) << is_smaller;
  }
}

TEST(Oom, WithoutTheDevicesSizeNothingIsGuessed) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100);
  refuse(b, Floor::Allocation, 3 * kGiB);
  EXPECT_EQ(only(b).oom_class, "unknown");
}

TEST(Oom, OneRefusalThroughAllFloorsIsOneReport) {
  TraceBuilder b = card(4 * kGiB);
  for (int attempt = 0; attempt < 2; ++attempt) {
    b.event(EventKind::OutOfMemory, Floor::Physical, Family::PoolGranule, 0, 3 * kGiB);
    refuse(b, Floor::Allocation, 3 * kGiB);
  }
  EXPECT_EQ(ooms(b.build()).size(), 2u);  // two attempts, of which nobody gave up
  refuse(b, Floor::Framework, 3 * kGiB);
  EXPECT_EQ(only(b).floor, Floor::Framework);
}

TEST(Oom, TheFatalOneIsTheLastThatWasNotRecovered) {
  TraceBuilder b;
  b.device(10 * kGiB);
  refuse(b, Floor::Allocation, 3 * kGiB).thread = 2;
  const std::uint64_t fatal = b.build().event_count;
  refuse(b, Floor::Allocation, 2 * kGiB);
  b.cuda_malloc(0x1000, 2 * kGiB);
  const std::vector<OomReport> reports = ooms(b.build());
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(fatal_of(reports), &reports[0]);
  ASSERT_TRUE(moment_of_oom(b.build()));
  EXPECT_EQ(moment_of_oom(b.build())->events, fatal);
  EXPECT_FALSE(moment_of_oom(TraceBuilder().build()));
}

TEST(Oom, TheLastRefusalIsAmongThoseListed) {
  TraceBuilder b;
  b.device(kGiB);
  for (std::uint64_t i = 0; i < 50; ++i) refuse(b, Floor::Framework, 2 * kGiB + i);
  OomOptions options;
  options.max_reports = 7;
  const std::vector<OomReport> reports = ooms(b.build(), nullptr, options);
  ASSERT_EQ(reports.size(), 7u);
  EXPECT_EQ(reports.front().request, 2 * kGiB);
  EXPECT_EQ(reports.back().request, 2 * kGiB + 49);
  std::uint64_t left_out = 0;
  for (const OomReport& r : reports) left_out += r.left_out;
  EXPECT_EQ(left_out, 43u);
}

TEST(Oom, ReportsAreBounded) {
  TraceBuilder b;
  b.device(kGiB);
  for (int i = 0; i < 50; ++i) refuse(b, Floor::Framework, 2 * kGiB);
  OomOptions options;
  options.max_reports = 7;
  EXPECT_EQ(ooms(b.build(), nullptr, options).size(), 7u);
}

}  // namespace
}  // namespace cuheap
