#include "tools/analysis/fragmentation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/analysis/trace_builder.h"

namespace cuheap {
namespace {

using test::TraceBuilder;
constexpr std::uint64_t kMiB = 1 << 20;

FragmentationReport at_end(const TraceBuilder& b) { return fragmentation(b.build(), When{When::Kind::End, 0, Floor::None}); }
const FloorFragmentation& on(const FragmentationReport& r, Floor floor) {
  return *std::find_if(r.floors.begin(), r.floors.end(), [&](const FloorFragmentation& f) { return f.floor == floor; });
}

TEST(Fragmentation, ASmallBlockPinsItsSegment) {
  TraceBuilder b;
  const SiteId small = b.site({"small"}), large = b.site({"large"});
  b.cuda_malloc(0x100000000, 20 * kMiB);
  b.tensor(0x100000000, 16 * kMiB, large);
  b.tensor(0x100000000 + 16 * kMiB, 512, small);
  b.tensor_free(0x100000000);
  b.totals(512, 20 * kMiB);
  const FloorFragmentation f = on(at_end(b), Floor::Framework);
  EXPECT_TRUE(f.segments_known);
  EXPECT_EQ(f.live, 512u);
  EXPECT_EQ(f.held, 20 * kMiB);
  EXPECT_EQ(f.idle_bytes, 20 * kMiB - 512);
  EXPECT_EQ(f.largest_hole, 16 * kMiB);
  ASSERT_EQ(f.holes.size(), 2u);
  EXPECT_EQ(f.holes[0], (std::pair<std::uint64_t, std::uint64_t>(2 * kMiB, 1)));  // 4 MiB - 512
  EXPECT_EQ(f.holes[1], (std::pair<std::uint64_t, std::uint64_t>(16 * kMiB, 1)));
  ASSERT_EQ(f.pinning_sites.size(), 1u);
  EXPECT_EQ(f.pinning_sites[0].site, small);
  EXPECT_EQ(f.pinning_sites[0].live_bytes, 512u);
  EXPECT_EQ(f.pinning_sites[0].pinned_idle_bytes, 20 * kMiB - 512);
  EXPECT_EQ(f.pinning_sites[0].sole_idle_bytes, 20 * kMiB - 512);
  EXPECT_EQ(f.pinning_sites[0].segments, 1u);
}

TEST(Fragmentation, AnEmptySegmentIsACacheAndPinnedByNobody) {
  TraceBuilder b;
  b.cuda_malloc(0x100000000, 2 * kMiB);
  b.tensor(0x100000000, 512);
  b.tensor_free(0x100000000);
  b.cuda_malloc(0x200000000, 2 * kMiB);  // never held a tensor: not the framework's
  const FloorFragmentation f = on(at_end(b), Floor::Framework);
  EXPECT_EQ(f.segment_count, 1u);
  EXPECT_EQ(f.wholly_idle_bytes, 2 * kMiB);
  EXPECT_TRUE(f.pinning_sites.empty());
  EXPECT_EQ(f.largest_hole, 2 * kMiB);
}

TEST(Fragmentation, SharedSegmentsSplitTheirIdleBytes) {
  TraceBuilder b;
  const SiteId x = b.site({"x"}), y = b.site({"y"});
  b.allocate(Floor::Physical, Family::Segment, 0x1000000, 3001);
  b.tensor(0x1000000, 500, x);
  b.tensor(0x1000000 + 2000, 500, y);
  const FloorFragmentation f = on(at_end(b), Floor::Framework);
  ASSERT_EQ(f.pinning_sites.size(), 2u);
  EXPECT_EQ(f.pinning_sites[0].pinned_idle_bytes + f.pinning_sites[1].pinned_idle_bytes, 2001u);
  EXPECT_EQ(f.pinning_sites[0].sole_idle_bytes, 0u);
  EXPECT_EQ(f.idle_bytes, 2001u);
}

TEST(Fragmentation, HolesOfNeighbouringSegmentsDoNotMerge) {
  TraceBuilder b;
  b.allocate(Floor::Physical, Family::Segment, 0x1000000, 4096);
  b.allocate(Floor::Physical, Family::Segment, 0x1001000, 4096);
  b.tensor(0x1000000, 512);
  const FloorFragmentation f = on(at_end(b), Floor::Framework);
  EXPECT_EQ(f.largest_hole, 4096u);
  EXPECT_EQ(f.wholly_idle_bytes, 4096u);
}

TEST(Fragmentation, HolesRunThroughMappedGranulesOfThePool) {
  TraceBuilder b;
  const SiteId pin = b.site({"pin"});
  for (std::uint64_t i = 0; i < 4; ++i) {
    b.allocate(Floor::Physical, Family::PoolGranule, 100 + i, 2 * kMiB);
    b.map(0x100000000 + i * 2 * kMiB, 2 * kMiB, 100 + i);
  }
  b.cuda_malloc(0x100000000, kMiB, pin).flags = kEventPooled;                  // granule 0
  b.cuda_malloc(0x100000000 + 7 * kMiB, kMiB, pin).flags = kEventPooled;      // granule 3
  const FragmentationReport r = at_end(b);
  const FloorFragmentation& f = on(r, Floor::Allocation);
  EXPECT_EQ(f.live, 2 * kMiB);
  EXPECT_EQ(f.held, 8 * kMiB);
  EXPECT_EQ(f.largest_hole, 6 * kMiB);
  EXPECT_EQ(f.wholly_idle_bytes, 4 * kMiB);
  ASSERT_EQ(f.pinning_sites.size(), 1u);
  EXPECT_EQ(f.pinning_sites[0].pinned_idle_bytes, 2 * kMiB);
  EXPECT_EQ(f.pinning_sites[0].segments, 2u);
  ASSERT_EQ(r.segments.size(), 4u);
  EXPECT_TRUE(r.segments[0].joins_next);
  EXPECT_FALSE(r.segments[3].joins_next);
}

TEST(Fragmentation, HolesDoNotRunFromOneProcessIntoAnother) {
  TraceBuilder b;
  for (std::uint16_t process = 0; process < 2; ++process) {
    b.allocate(Floor::Physical, Family::PoolGranule, 100, 2 * kMiB).process = process;
    b.map(0x100000000 + process * 2 * kMiB, 2 * kMiB, 100).process = process;  // address spaces of their own
  }
  Event& block = b.cuda_malloc(0x100000000, kMiB);
  block.flags = kEventPooled;
  const FragmentationReport r = at_end(b);
  EXPECT_EQ(on(r, Floor::Allocation).largest_hole, 2 * kMiB);
  ASSERT_EQ(r.segments.size(), 2u);
  EXPECT_FALSE(r.segments[0].joins_next);
}

TEST(Fragmentation, HolesAreCountedOnTheirDevice) {
  TraceBuilder b;
  for (std::int16_t device = 0; device < 2; ++device) {
    const std::uint64_t base = 0x100000000u * (1 + static_cast<std::uint64_t>(device)), size = (device + 1) * 4 * kMiB;
    b.allocate(Floor::Physical, Family::Segment, base, size).device = device;
    b.tensor(base, kMiB).device = device;
  }
  const FragmentationReport r = at_end(b);
  std::vector<std::uint64_t> holes;
  for (const FloorFragmentation& f : r.floors) {
    if (f.floor != Floor::Framework) continue;
    ASSERT_EQ(f.holes.size(), 1u);
    EXPECT_EQ(f.holes[0].second, 1u);
    EXPECT_EQ(f.segment_count, 1u);
    holes.push_back(f.largest_hole);
  }
  EXPECT_EQ(holes, (std::vector<std::uint64_t>{3 * kMiB, 7 * kMiB}));
}

TEST(Fragmentation, ASegmentThatWasFreedHidesNoLargerOneAtItsPlace) {
  TraceBuilder b;
  b.cuda_malloc(0x100400000, 2 * kMiB);
  b.cuda_free(0x100400000);
  b.cuda_malloc(0x100000000, 20 * kMiB);
  b.tensor(0x100400000, kMiB);  // where the small one was
  const FloorFragmentation f = on(at_end(b), Floor::Framework);
  EXPECT_EQ(f.segment_count, 1u);
  EXPECT_EQ(f.segment_bytes, 20 * kMiB);
  EXPECT_EQ(f.idle_bytes, 19 * kMiB);
}

TEST(Fragmentation, ABlockAcrossGranulesShowsItsPartInEach) {
  TraceBuilder b;
  for (std::uint64_t i = 0; i < 2; ++i) {
    b.allocate(Floor::Physical, Family::PoolGranule, 100 + i, 2 * kMiB);
    b.map(0x100000000 + i * 2 * kMiB, 2 * kMiB, 100 + i);
  }
  b.cuda_malloc(0x100000000 + kMiB, 2 * kMiB).flags = kEventPooled;
  const FragmentationReport r = at_end(b);
  ASSERT_EQ(r.segments.size(), 2u);
  EXPECT_EQ(r.segments[0].live, kMiB);
  EXPECT_EQ(r.segments[1].live, kMiB);
  EXPECT_EQ(on(r, Floor::Allocation).largest_hole, kMiB);
}

TEST(Fragmentation, ExpandableSegmentsOfTheFrameworkAreFoundByTheirMaps) {
  TraceBuilder b;
  for (std::uint64_t i = 0; i < 3; ++i) {
    b.allocate(Floor::Physical, Family::Handle, 100 + i, 2 * kMiB);
    b.map(0x100000000 + i * 2 * kMiB, 2 * kMiB, 100 + i);
  }
  b.allocate(Floor::Physical, Family::Handle, 200, 2 * kMiB);
  b.map(0x900000000, 2 * kMiB, 200);  // somebody else's
  b.tensor(0x100000000 + kMiB, 512);
  const FloorFragmentation f = on(at_end(b), Floor::Framework);
  EXPECT_EQ(f.segment_bytes, 6 * kMiB);
  EXPECT_EQ(f.largest_hole, 5 * kMiB - 512);
}

TEST(Fragmentation, PlainAllocationsHaveNone) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100);
  const FragmentationReport r = at_end(b);
  ASSERT_EQ(r.floors.size(), 1u);
  EXPECT_EQ(r.floors[0].fragmentation, 0.0);
  EXPECT_FALSE(r.floors[0].segments_known);
}

// Whatever the layout: holes add up to the idle bytes, shares to the pinned part, pieces to the live bytes.
TEST(Fragmentation, SumsCloseOverRandomLayouts) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    TraceBuilder b;
    std::vector<SiteId> sites;
    for (int i = 0; i < 5; ++i) sites.push_back(b.site({"f" + std::to_string(i)}));
    std::uint64_t live = 0;
    for (std::uint64_t s = 0; s < 10; ++s) {
      const std::uint64_t base = 0x100000000 + s * 0x10000000, size = (1 + random() % 8) * kMiB;
      b.cuda_malloc(base, size);
      b.tensor(base, 512);
      b.tensor_free(base);
      for (std::uint64_t at = 0; at + 4096 < size;) {
        const std::uint64_t length = 512 * (1 + random() % 1000);
        if (at + length > size) break;
        if (random() % 3 == 0) { b.tensor(base + at, length, sites[random() % sites.size()]); live += length; }
        at += length;
      }
    }
    const FragmentationReport r = at_end(b);
    const FloorFragmentation& f = on(r, Floor::Framework);
    EXPECT_EQ(f.segment_bytes - f.idle_bytes, live);
    std::uint64_t pinned = 0, pieces = 0;
    for (const PinningSite& p : f.pinning_sites) pinned += p.pinned_idle_bytes;
    for (const Segment& s : r.segments) for (const SegmentBlock& piece : s.blocks) pieces += piece.size;
    EXPECT_EQ(pinned + f.wholly_idle_bytes, f.idle_bytes);
    EXPECT_EQ(pieces, live);
  }
}

}  // namespace
}  // namespace cuheap
