#include "tools/analysis/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/analysis/trace_builder.h"

namespace cuheap {
namespace {

using test::TraceBuilder;

const FloorSeries& series_of(const Timeline& t, Floor floor) {
  const auto it = std::find_if(t.floors.begin(), t.floors.end(), [&](const FloorSeries& s) { return s.floor == floor && s.device == 0; });
  EXPECT_NE(it, t.floors.end());
  return *it;
}
std::uint64_t highest(const Series& s) {
  std::uint64_t m = 0;
  for (const MinMaxLast& v : s.buckets) m = std::max(m, v.max);
  return m;
}

TEST(Timeline, NoExtremeIsLostAtAnyResolution) {
  TraceBuilder b;
  std::mt19937_64 random(3);
  std::vector<std::uint64_t> alive;
  for (int i = 0; i < 20000; ++i) {
    b.at(b.now() + random() % 100000);
    if (alive.empty() || random() % 2 == 0) {
      const std::uint64_t address = static_cast<std::uint64_t>(i) * 1024 + 512;
      b.cuda_malloc(address, random() % 1000);
      alive.push_back(address);
    } else {
      b.cuda_free(alive.back());
      alive.pop_back();
    }
  }
  const Trace trace = b.build();
  LiveSet set;
  replay(trace, set, {});
  const std::uint64_t peak = (*set.device(0))[Floor::Allocation].peak_live;
  for (const std::uint32_t buckets : {1u, 7u, 64u, 4096u}) {
    TimelineOptions options;
    options.max_buckets = buckets;
    const Timeline t = timeline(trace, options);
    EXPECT_LE(t.buckets, buckets);
    Series s = series_of(t, Floor::Allocation).live;
    EXPECT_EQ(s.buckets.size(), t.buckets);
    EXPECT_EQ(s.buckets.back().last, (*set.device(0))[Floor::Allocation].live);
    while (s.buckets.size() > 1) {
      EXPECT_EQ(highest(s), peak);
      s = s.coarser();
    }
    EXPECT_EQ(highest(s), peak);
  }
}

TEST(Timeline, BucketsWidenWhenTheEndIsUnknown) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100);
  b.cuda_free(0x1000);
  b.at(1'000'000'000).cuda_malloc(0x2000, 5);
  Trace trace = b.build();
  trace.end_ns = trace.start_ns;  // as of a process that was killed
  TimelineOptions options;
  options.max_buckets = 16;
  const Timeline t = timeline(trace, options);
  EXPECT_LE(t.buckets, 16u);
  EXPECT_EQ(highest(series_of(t, Floor::Physical).held), 100u);
  EXPECT_EQ(series_of(t, Floor::Physical).held.buckets.back().last, 5u);
}

TEST(Timeline, QuietBucketsRepeatTheLevel) {
  TraceBuilder b;
  b.at(0).cuda_malloc(0x1000, 100);
  b.at(1000000);
  TimelineOptions options;
  options.max_buckets = 10;
  const Timeline t = timeline(b.build(), options);
  for (const MinMaxLast& v : series_of(t, Floor::Allocation).live.buckets) EXPECT_EQ(v.last, 100u);
  EXPECT_EQ(series_of(t, Floor::Allocation).live.buckets[0].min, 0u);
  EXPECT_EQ(series_of(t, Floor::Allocation).live.buckets[5].min, 100u);
}

TEST(Timeline, PhasesNestAndUnfinishedOnesEndWithTheTrace) {
  TraceBuilder b;
  const NameId load = b.name("load"), inner = b.name("inner");
  b.at(0).phase(EventKind::PhaseBegin, load);
  b.at(1000).phase(EventKind::PhaseBegin, inner);
  b.at(2000).phase(EventKind::PhaseEnd, load);
  b.at(3000).phase(EventKind::PhaseBegin, inner);
  b.at(4000).mark(load);
  b.at(5000);
  const Timeline t = timeline(b.build());
  ASSERT_EQ(t.phases.size(), 3u);
  EXPECT_EQ(t.phases[0].end_ns, TraceBuilder::kStart + 2000);
  EXPECT_EQ(t.phases[1].end_ns, TraceBuilder::kStart + 2000);
  EXPECT_FALSE(t.phases[2].ended);
  EXPECT_EQ(t.phases[2].end_ns, TraceBuilder::kStart + 5000);
  ASSERT_EQ(t.marks.size(), 1u);
  EXPECT_EQ(t.marks[0].name, load);
}

TEST(Timeline, DriverUseFollowsTheSamples) {
  TraceBuilder b;
  b.event(EventKind::MemoryInfo, Floor::None, Family::None, 0, 600).extra0 = 1000;
  const Timeline t = timeline(b.build());
  ASSERT_EQ(t.driver.size(), 1u);
  EXPECT_EQ(t.driver[0].used.buckets.back().last, 400u);
  EXPECT_EQ(t.driver[0].total, 1000u);
}

TEST(Timeline, SiteSeriesEndAtTheSitesBytes) {
  TraceBuilder b;
  const SiteId a = b.site({"a"}), c = b.site({"c"});
  for (std::uint64_t i = 1; i <= 100; ++i) b.cuda_malloc(i << 20, 10, i % 2 == 0 ? a : c);
  for (std::uint64_t i = 2; i <= 60; i += 2) b.cuda_free(i << 20);
  const Trace trace = b.build();
  Selection selection;
  selection.floor = Floor::Allocation;
  TimelineOptions options;
  options.max_buckets = 20;
  const std::vector<SiteSeries> series = site_series(trace, timeline(trace, options), {a, c}, selection);
  ASSERT_EQ(series.size(), 2u);
  EXPECT_EQ(series[0].steps.back().last, 200u);
  EXPECT_EQ(series[1].steps.back().last, 500u);
  std::uint64_t most = 0;
  for (const SiteSeries::Step& s : series[0].steps) most = std::max(most, s.max);
  EXPECT_EQ(most, 500u);
}

}  // namespace
}  // namespace cuheap
