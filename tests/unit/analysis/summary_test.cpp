#include "tools/analysis/summary.h"

#include <gtest/gtest.h>

#include "tests/unit/analysis/trace_builder.h"

namespace cuheap {
namespace {

using test::TraceBuilder;

TEST(Summary, SitesCarryPeakEndAndWholeRun) {
  TraceBuilder b;
  b.device(1 << 30, "card");
  const SiteId a = b.site({"a"}), c = b.site({"c"});
  b.cuda_malloc(0x1000, 100, a);
  b.cuda_malloc(0x2000, 50, c);  // peak: 150
  b.cuda_free(0x1000);
  b.cuda_malloc(0x3000, 20, a);
  const Summary s = summarize(b.build());
  EXPECT_EQ(s.events, 4u);
  EXPECT_EQ(s.peak.events, 2u);
  EXPECT_EQ(s.top_floor, Floor::Allocation);
  ASSERT_EQ(s.devices.size(), 1u);
  EXPECT_EQ(s.devices[0].name, "card");
  EXPECT_EQ(s.devices[0].total_bytes, 1u << 30);
  EXPECT_EQ(s.devices[0].state[Floor::Physical].peak_live, 150u);
  ASSERT_EQ(s.top_sites.size(), 4u);  // two sites on two floors
  const SiteSummary& first = s.top_sites[0];
  EXPECT_EQ(first.site, a);
  EXPECT_EQ(first.floor, Floor::Allocation);
  EXPECT_EQ(first.peak_bytes, 100u);
  EXPECT_EQ(first.end_bytes, 20u);
  EXPECT_EQ(first.allocations, 2u);
  EXPECT_EQ(first.allocated_bytes, 120u);
  EXPECT_EQ(first.median_life_ns, 1024u);  // 2000 ns, within a factor of two
}

TEST(Summary, TheMedianLifeIsTheMiddleOne) {
  TraceBuilder b;
  const SiteId site = b.site({"a"});
  for (const std::uint64_t life : {1'000'000u, 2'000u, 500'000'000u, 2'000u, 2'000u}) {
    b.cuda_malloc(0x1000, 1, site);
    b.at(b.now() - 1000 + life).cuda_free(0x1000);
  }
  EXPECT_EQ(summarize(b.build()).top_sites.at(0).median_life_ns, 1024u);  // 2000 ns, within a factor of two
}

TEST(Summary, ABlockWhoseFreeWasRefusedHasNoLifeYet) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100, b.site({"a"}));
  b.cuda_free(0x1000);
  b.event(EventKind::FreeFailed, Floor::Allocation, Family::Device, 0x1000);
  const Summary s = summarize(b.build());
  EXPECT_EQ(s.top_sites.at(0).median_life_ns, 0u);
  EXPECT_EQ(s.top_sites.at(0).end_bytes, 100u);
  EXPECT_EQ(s.top_sites.at(0).end_count, 1u);
}

TEST(Summary, SitesOfTheWholePeakAddUpToIt) {
  TraceBuilder b;
  for (std::uint64_t i = 1; i < 200; ++i) b.cuda_malloc(i << 20, i * 100, b.site({"f" + std::to_string(i % 17)}));
  for (std::uint64_t i = 1; i < 100; ++i) b.cuda_free(i << 20);
  SummaryOptions options;
  options.top_sites = 0;
  options.selection.floor = Floor::Allocation;
  const Summary s = summarize(b.build(), options);
  std::uint64_t sum = 0;
  for (const SiteSummary& site : s.top_sites) sum += site.peak_bytes;
  EXPECT_EQ(sum, s.devices[0].state[Floor::Allocation].peak_live);
}

TEST(Summary, HostMemoryIsADeviceOfItsOwn) {
  TraceBuilder b;
  b.allocate(Floor::Allocation, Family::Pinned, 0x1000, 100);
  b.cuda_malloc(0x2000, 5);
  const Summary s = summarize(b.build());
  ASSERT_EQ(s.devices.size(), 2u);
  EXPECT_EQ(s.devices[0].state.device, 0);
  EXPECT_EQ(s.devices[1].state.device, kHostDevice);
  EXPECT_EQ(s.devices[1].state[Floor::Allocation].live, 100u);
}

TEST(Summary, EmptyTraceIsEmpty) {
  const Summary s = summarize(TraceBuilder().build());
  EXPECT_EQ(s.events, 0u);
  EXPECT_TRUE(s.devices.empty());
  EXPECT_TRUE(s.top_sites.empty());
}

}  // namespace
}  // namespace cuheap
