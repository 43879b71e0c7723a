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
  EXPECT_EQ(only(b).oom_class, "limit");
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

TEST(Oom, WithoutTheDevicesSizeNothingIsGuessed) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100);
  refuse(b, Floor::Allocation, 3 * kGiB);
  EXPECT_EQ(only(b).oom_class, "unknown");
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
