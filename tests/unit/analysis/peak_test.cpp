#include "tools/analysis/peak.h"

#include <gtest/gtest.h>

#include "tests/unit/analysis/trace_builder.h"
#include "tools/analysis/phases.h"

namespace cuheap {
namespace {

using test::TraceBuilder;

TEST(Peak, IsTheLiveSetAtTheMostHeldMoment) {
  TraceBuilder b;
  const SiteId a = b.site({"main", "a"}), c = b.site({"main", "c"});
  b.cuda_malloc(0x1000, 100, a);
  b.cuda_malloc(0x2000, 50, c);
  b.cuda_malloc(0x3000, 50, c);  // peak: 200
  b.cuda_free(0x1000);
  b.cuda_malloc(0x4000, 80, a);
  const LiveSites peak = live_at(b.build(), When{});
  EXPECT_EQ(peak.floor, Floor::Allocation);
  EXPECT_EQ(peak.total, 200u);
  EXPECT_EQ(peak.count, 3u);
  ASSERT_EQ(peak.sites.size(), 2u);
  EXPECT_EQ(peak.sites[0].site, a);  // ties by site number
  EXPECT_EQ(peak.sites[1].count, 2u);
  EXPECT_EQ(peak.at.time_ns, TraceBuilder::kStart + 2000);
}

TEST(Peak, TellsThePhasesOfASitesBlocksApart) {
  TraceBuilder b;
  const SiteId a = b.site({"main", "a"});
  const PhaseId first = b.name("step 1"), second = b.name("step 2"), eval = b.name("eval");
  b.cuda_malloc(0x1000, 100, a).phase = first;
  b.cuda_malloc(0x2000, 50, a).phase = second;
  b.cuda_malloc(0x3000, 70, a).phase = eval;
  b.cuda_malloc(0x4000, 500, a);
  b.cuda_malloc(0x5000, 7, a).phase = eval;
  const Trace trace = b.build();

  const LiveSites peak = live_at(trace, When{});

  ASSERT_EQ(peak.sites.size(), 1u);
  EXPECT_EQ(peak.sites[0].bytes, 727u);
  EXPECT_EQ(peak.sites[0].count, 5u);
  const std::vector<PhaseKind> kinds = phases_by_kind(trace, peak.sites[0].phases);
  ASSERT_EQ(kinds.size(), 3u);
  EXPECT_EQ(kinds[0].name, "outside phases");
  EXPECT_EQ(kinds[0].bytes, 500u);
  EXPECT_EQ(kinds[1].name, "step");
  EXPECT_EQ(kinds[1].bytes, 150u);
  EXPECT_EQ(kinds[1].count, 2u);
  EXPECT_EQ(kinds[2].name, "eval");
  EXPECT_EQ(kinds[2].bytes, 77u);
}

TEST(Peak, HasNoPhasesWhereNoneWasOpen) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100);
  const Trace trace = b.build();
  EXPECT_TRUE(phases_by_kind(trace, live_at(trace, When{}).sites.at(0).phases).empty());
}

TEST(Peak, ManyEventsOfOneTimeAreToldApart) {
  TraceBuilder b;
  b.at(0).cuda_malloc(0x1000, 100);
  b.at(0).cuda_free(0x1000);
  b.at(0).cuda_malloc(0x2000, 10);
  EXPECT_EQ(live_at(b.build(), When{}).total, 100u);
}

// A cache keeps the physical floor at its maximum; the block that made it grow must be part of the peak.
TEST(Peak, TakesTheFullestMomentWhileTheCacheStaysLarge) {
  TraceBuilder b;
  b.cuda_malloc(0x100000, 1 << 20);
  b.tensor(0x100000, 512, 1);
  b.totals(512, 1 << 20);
  b.tensor(0x100200, 1024, 2);
  b.totals(1536, 1 << 20);
  b.tensor_free(0x100000);
  const LiveSites peak = live_at(b.build(), When{});
  EXPECT_EQ(peak.floor, Floor::Framework);
  EXPECT_EQ(peak.total, 1536u);
}

TEST(Peak, CanBeThatOfAnotherFloor) {
  TraceBuilder b;
  b.cuda_malloc(0x100000, 4096);
  b.tensor(0x100000, 2048, 1);
  b.tensor_free(0x100000);
  b.cuda_malloc(0x200000, 4096);  // most held here, with no tensor alive
  b.cuda_free(0x200000);
  EXPECT_EQ(live_at(b.build(), When{}).total, 0u);
  EXPECT_EQ(live_at(b.build(), When{When::Kind::Peak, 0, Floor::Framework}).total, 2048u);
}

TEST(Peak, EndAndTimes) {
  TraceBuilder b;
  b.at(0).cuda_malloc(0x1000, 1);
  b.at(1000).cuda_malloc(0x2000, 2);
  b.at(2000).cuda_malloc(0x3000, 4);
  const Trace trace = b.build();
  const auto at = [&](std::uint64_t ns) { return live_at(trace, When{When::Kind::Time, TraceBuilder::kStart + ns, Floor::None}).total; };
  EXPECT_EQ(live_at(trace, When{When::Kind::End, 0, Floor::None}).total, 7u);
  EXPECT_EQ(at(0), 1u);
  EXPECT_EQ(at(1999), 3u);
  EXPECT_EQ(live_at(trace, When{When::Kind::Time, 1, Floor::None}).total, 0u);  // before the first event
}

TEST(Peak, DevicesAreChosen) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100);
  b.cuda_malloc(0x2000, 10).device = 1;
  b.cuda_free(0x1000);
  Selection one;
  one.device = static_cast<std::int16_t>(1);
  EXPECT_EQ(live_at(b.build(), When{}, one).total, 10u);
  EXPECT_EQ(live_at(b.build(), When{}).total, 110u);
}

TEST(Peak, HostMemoryIsShownWhenTheHostIsChosen) {
  TraceBuilder b;
  b.tensor(0x5000, 7);
  b.allocate(Floor::Allocation, Family::Pinned, 0x1000, 100);
  b.free(Floor::Allocation, Family::Pinned, 0x1000);
  b.allocate(Floor::Allocation, Family::Pinned, 0x2000, 40);
  Selection host;
  host.device = kHostDevice;
  EXPECT_EQ(live_at(b.build(), When{}, host).total, 100u);
  EXPECT_EQ(live_at(b.build(), When{When::Kind::End, 0, Floor::None}, host).total, 40u);
  EXPECT_EQ(live_at(b.build(), When{}).total, 7u);
}

TEST(Peak, WindowKeepsWhatItAllocatedAndStillLives) {
  TraceBuilder b;
  b.at(0).cuda_malloc(0x1000, 1);
  b.at(1000).cuda_malloc(0x2000, 2);
  b.at(2000).cuda_malloc(0x3000, 4);
  b.at(3000).cuda_free(0x2000);
  b.at(4000).cuda_malloc(0x4000, 8);
  const std::uint64_t t = TraceBuilder::kStart;
  EXPECT_EQ(allocated_and_alive(b.build(), t + 1000, t + 3500).total, 4u);
  EXPECT_EQ(allocated_and_alive(b.build(), t + 1000, t + 2500).total, 6u);
}

TEST(Peak, DifferenceNamesWhatChanged) {
  LiveSites before, after;
  before.sites = {{1, 100, 1}, {2, 50, 1}, {3, 7, 1}};
  after.sites = {{1, 100, 1}, {2, 10, 1}, {4, 60, 1}};
  const std::vector<SiteChange> d = difference(before, after);
  ASSERT_EQ(d.size(), 3u);
  EXPECT_EQ(d[0].site, 4u);
  EXPECT_EQ(d[1].before, 50u);
  EXPECT_EQ(d[1].after, 10u);
  EXPECT_EQ(d[2].site, 3u);
}

}  // namespace
}  // namespace cuheap
