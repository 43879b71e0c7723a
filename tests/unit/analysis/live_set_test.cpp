#include "tools/analysis/live_set.h"

#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <string>
#include <unordered_map>

#include "tests/unit/analysis/trace_builder.h"
#include "tools/analysis/replay.h"

namespace cuheap {
namespace {

using test::TraceBuilder;

LiveSet replayed(const TraceBuilder& builder) {
  LiveSet set;
  replay(builder.build(), set, {});
  return set;
}
std::uint64_t live(const LiveSet& set, Floor floor, std::int16_t device = 0) { return (*set.device(device))[floor].live; }
std::uint64_t held(const LiveSet& set, Floor floor) { return (*set.device(0))[floor].held; }

TEST(LiveSet, DirectAllocationCountsOnAllocationAndPhysicalFloor) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100);
  const LiveSet set = replayed(b);
  EXPECT_EQ(live(set, Floor::Allocation), 100u);
  EXPECT_EQ(live(set, Floor::Physical), 100u);
  EXPECT_EQ(live(set, Floor::Framework), 0u);
  EXPECT_EQ(set.top_floor(), Floor::Allocation);
}

TEST(LiveSet, PooledAllocationIsBackedByGranulesOnly) {
  TraceBuilder b;
  b.allocate(Floor::Physical, Family::PoolGranule, 7, 2 << 20);
  b.cuda_malloc(0x1000, 1 << 20).flags = kEventPooled;
  const LiveSet set = replayed(b);
  EXPECT_EQ(live(set, Floor::Physical), 2u << 20);
  EXPECT_EQ(live(set, Floor::Allocation), 1u << 20);
  EXPECT_EQ(held(set, Floor::Allocation), 2u << 20);
}

TEST(LiveSet, HandleOfTheProgramPassesThroughTheAllocationFloor) {
  TraceBuilder b;
  b.allocate(Floor::Physical, Family::Handle, 7, 2 << 20);
  const LiveSet set = replayed(b);
  EXPECT_EQ(live(set, Floor::Physical), 2u << 20);
  EXPECT_EQ(live(set, Floor::Allocation), 2u << 20);
}

TEST(LiveSet, HostFamiliesAreReportedUnderTheHost) {
  TraceBuilder b;
  b.allocate(Floor::Allocation, Family::Pinned, 0x1000, 100);
  b.allocate(Floor::Allocation, Family::Registered, 0x2000, 10);
  const LiveSet set = replayed(b);
  EXPECT_EQ(live(set, Floor::Allocation, kHostDevice), 110u);
  EXPECT_EQ(live(set, Floor::Physical, kHostDevice), 100u);
  EXPECT_EQ(set.device(0), nullptr);
  EXPECT_FALSE(set.saw(Floor::Allocation));
}

TEST(LiveSet, ImportedMemoryIsOnNoFloor) {
  TraceBuilder b;
  b.allocate(Floor::Physical, Family::Imported, 0x1000, 100);
  const LiveSet set = replayed(b);
  EXPECT_EQ(live(set, Floor::Physical), 0u);
  EXPECT_EQ(set.device(0)->imported, 100u);
}

TEST(LiveSet, HandleAndAddressOfTheSameNumberAreTwoBlocks) {
  TraceBuilder b;
  b.allocate(Floor::Allocation, Family::Device, 0x1000, 1);
  b.allocate(Floor::Allocation, Family::Array, 0x1000, 2);
  b.allocate(Floor::Physical, Family::Handle, 0x1000, 4);
  b.allocate(Floor::Physical, Family::PoolGranule, 0x1000, 8);
  b.free(Floor::Allocation, Family::Array, 0x1000);
  const LiveSet set = replayed(b);
  EXPECT_EQ(set.size(), 3u);
  EXPECT_EQ(set.find(0, Floor::Allocation, Family::Array, 0x1000), nullptr);
  EXPECT_EQ(set.find(0, Floor::Allocation, Family::Device, 0x1000)->size, 1u);
  EXPECT_EQ(set.replaced(), 0u);
}

TEST(LiveSet, CuMemFreeEndsAnyDeviceAddressedFamily) {
  TraceBuilder b;
  b.allocate(Floor::Allocation, Family::AsyncPool, 0x1000, 1);
  b.allocate(Floor::Allocation, Family::Managed, 0x2000, 2);
  b.cuda_free(0x1000);
  b.cuda_free(0x2000);
  const LiveSet set = replayed(b);
  EXPECT_EQ(set.size(), 0u);
  EXPECT_EQ(live(set, Floor::Physical), 0u);
  EXPECT_EQ(set.unmatched_frees(), 0u);
}

TEST(LiveSet, AFreeThatDoesNotKnowItsKindFindsPinnedMemory) {
  for (const Family family : {Family::Device, Family::None}) {
    TraceBuilder b;
    b.allocate(Floor::Allocation, Family::Pinned, 0x1000, 100);
    b.free(Floor::Allocation, family, 0x1000);
    const LiveSet set = replayed(b);
    EXPECT_EQ(set.size(), 0u);
    EXPECT_EQ(set.unmatched_frees(), 0u);
  }
}

TEST(LiveSet, ReleaseOfAHandleFindsItsKind) {
  TraceBuilder b;
  b.allocate(Floor::Physical, Family::HostHandle, 9, 1);
  b.free(Floor::Physical, Family::Handle, 9);
  EXPECT_EQ(replayed(b).size(), 0u);
}

TEST(LiveSet, ProcessesDoNotMeet) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 1);
  b.cuda_malloc(0x1000, 2).process = 1;
  b.cuda_free(0x1000);
  const LiveSet set = replayed(b);
  EXPECT_EQ(set.size(), 1u);
  EXPECT_EQ(live(set, Floor::Allocation), 2u);
}

TEST(LiveSet, RefusedFreePutsTheBlockBack) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100, 3);
  b.cuda_free(0x1000);
  b.event(EventKind::FreeFailed, Floor::Allocation, Family::Device, 0x1000);
  const LiveSet set = replayed(b);
  EXPECT_EQ(live(set, Floor::Allocation), 100u);
  EXPECT_EQ((*set.device(0))[Floor::Allocation].frees, 0u);
  EXPECT_EQ((*set.device(0))[Floor::Allocation].allocations, 1u);
  EXPECT_EQ(set.find(0, Floor::Allocation, Family::Device, 0x1000)->site, 3u);
}

TEST(LiveSet, RefusedFreeOfOneThreadIgnoresTheFreesOfOthers) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100);
  for (std::uint64_t i = 0; i < 50; ++i) b.cuda_malloc(0x10000 + i * 0x100, 1).thread = 2;
  b.cuda_free(0x1000);
  for (std::uint64_t i = 0; i < 50; ++i) b.cuda_free(0x10000 + i * 0x100).thread = 2;
  b.event(EventKind::FreeFailed, Floor::Allocation, Family::Device, 0x1000);
  const LiveSet set = replayed(b);
  EXPECT_EQ(live(set, Floor::Allocation), 100u);
  EXPECT_EQ(set.lost_revivals(), 0u);
}

TEST(LiveSet, RefusedFreeOfAnUnknownBlockIsCounted) {
  TraceBuilder b;
  b.cuda_free(0x1000);
  b.event(EventKind::FreeFailed, Floor::Allocation, Family::Device, 0x1000);
  const LiveSet set = replayed(b);
  EXPECT_EQ(set.unmatched_frees(), 1u);
  EXPECT_EQ(set.lost_revivals(), 1u);
  EXPECT_EQ(set.size(), 0u);
}

TEST(LiveSet, BirthOnALivingAddressReplacesAndCounts) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100);
  b.cuda_malloc(0x1000, 30);
  const LiveSet set = replayed(b);
  EXPECT_EQ(set.replaced(), 1u);
  EXPECT_EQ(live(set, Floor::Allocation), 30u);
}

/// What observers were told, a word a change.
class Told : public LiveSetObserver {
 public:
  void born(Block& b, const Event&) override { say("born", b); }
  void died(const Block& b, const Event&, Death d) override { say(d == Death::Replaced ? "replaced" : "died", b); }
  std::string text;

 private:
  void say(const char* word, const Block& b) { text += std::string(word) + " " + std::to_string(b.size) + "; "; }
};

TEST(LiveSet, ObserversAreToldOfABlockThatIsReplaced) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100);
  b.cuda_malloc(0x1000, 30);
  LiveSet set;
  Told told;
  replay(b.build(), set, {&told});
  EXPECT_EQ(told.text, "born 100; replaced 100; born 30; ");
}

TEST(LiveSet, AContextEndsInItsOwnProcessOnly) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 1).context = 5;
  Event& other = b.cuda_malloc(0x1000, 2);
  other.process = 1;
  other.context = 5;  // the same number, another process
  b.event(EventKind::ContextEnd, Floor::None, Family::None, 0).context = 5;
  const LiveSet set = replayed(b);
  EXPECT_EQ(set.size(), 1u);
  EXPECT_EQ(live(set, Floor::Allocation), 2u);
}

TEST(LiveSet, ContextEndTakesItsBlocksButNotHandlesOrPools) {
  TraceBuilder b;
  const Family families[] = {Family::Device, Family::Pitch, Family::Managed, Family::Pinned, Family::Array, Family::AsyncPool};
  std::uint64_t address = 0x1000;
  for (const Family f : families) b.allocate(Floor::Allocation, f, address += 0x1000, 1).context = 5;
  b.allocate(Floor::Physical, Family::Handle, 1, 1).context = 5;
  b.allocate(Floor::Physical, Family::PoolGranule, 2, 1).context = 5;
  b.cuda_malloc(0x9000, 1).context = 6;
  b.event(EventKind::ContextEnd, Floor::None, Family::None, 0).context = 5;
  const LiveSet set = replayed(b);
  EXPECT_EQ(set.size(), 4u);  // async, handle, granule, the other context's
  EXPECT_EQ(live(set, Floor::Physical, kHostDevice), 0u);
}

TEST(LiveSet, FrameworkHoldsItsReportedReserve) {
  TraceBuilder b;
  b.cuda_malloc(0x100000, 20 << 20);
  b.tensor(0x100000, 512);
  b.totals(512, 20 << 20);
  const LiveSet set = replayed(b);
  EXPECT_EQ(held(set, Floor::Framework), 20u << 20);
  EXPECT_EQ(live(set, Floor::Framework), 512u);
  EXPECT_NEAR(fragmentation_of(512, 20 << 20), 1.0 - 512.0 / (20 << 20), 1e-12);
}

TEST(LiveSet, FrameworkHoldsNoLessThanLives) {
  TraceBuilder b;
  b.tensor(0x1000, 512);
  b.totals(512, 2 << 20);
  b.tensor(0x2000, 30 << 20);  // its totals follow
  EXPECT_EQ(held(replayed(b), Floor::Framework), 512u + (30u << 20));
}

TEST(LiveSet, FrameworkHoldsWhatItSaysAsItRunsOutOfMemory) {
  TraceBuilder b;
  b.cuda_malloc(0x100000, 20 << 20);
  b.cuda_malloc(0x8000000, 10 << 20);
  b.tensor(0x100000, 512);
  b.totals(512, 30 << 20);
  b.cuda_free(0x8000000);  // it empties its cache and tells nobody
  Event& oom = b.event(EventKind::OutOfMemory, Floor::Framework, Family::Tensor, 0, 90 << 20);
  oom.extra0 = 512;
  oom.extra1 = 20 << 20;
  EXPECT_EQ(held(replayed(b), Floor::Framework), 20u << 20);
  b.totals(512, 22 << 20);
  EXPECT_EQ(held(replayed(b), Floor::Framework), 22u << 20);
}

TEST(LiveSet, AnOutOfMemoryOfAnImportLeavesItsSegmentsTheMeasure) {
  TraceBuilder b;  // an imported recording has segments, and no totals that would follow
  b.allocate(Floor::Physical, Family::Segment, 0x100000, 4096);
  b.event(EventKind::OutOfMemory, Floor::Framework, Family::Tensor, 0, 90 << 20).extra1 = 4096;
  b.allocate(Floor::Physical, Family::Segment, 0x200000, 4096);
  EXPECT_EQ(held(replayed(b), Floor::Framework), 8192u);
}

TEST(LiveSet, FrameworkHoldsItsSegmentsWhereTotalsAreUnknown) {
  TraceBuilder b;
  b.allocate(Floor::Physical, Family::Segment, 0x100000, 4096);
  b.tensor(0x100000, 512);  // the address of its segment: another space
  const LiveSet set = replayed(b);
  EXPECT_EQ(set.size(), 2u);
  EXPECT_EQ(held(set, Floor::Framework), 4096u);
  EXPECT_EQ(live(set, Floor::Physical), 4096u);
}

TEST(LiveSet, PeaksKeepTheirTimes) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100);
  b.at(5000).cuda_malloc(0x2000, 50);
  b.cuda_free(0x1000);
  b.cuda_malloc(0x3000, 90);
  const LiveSet set = replayed(b);
  const FloorState& f = (*set.device(0))[Floor::Allocation];
  EXPECT_EQ(f.peak_live, 150u);
  EXPECT_EQ(f.peak_live_ns, TraceBuilder::kStart + 5000);
  EXPECT_EQ(f.live, 140u);
  EXPECT_EQ(f.allocations, 3u);
  EXPECT_EQ(f.frees, 1u);
}

TEST(LiveSet, CountsRefusals) {
  TraceBuilder b;
  b.event(EventKind::OutOfMemory, Floor::Allocation, Family::Device, 0, 1000);
  b.event(EventKind::AllocateFailed, Floor::Allocation, Family::Device, 0, 1000);
  const LiveSet set = replayed(b);
  const FloorState& f = (*set.device(0))[Floor::Allocation];
  EXPECT_EQ(f.ooms, 1u);
  EXPECT_EQ(f.failures, 1u);
}

TEST(LiveSet, RefusalsOfPinnedMemoryAreTheHosts) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 1);
  b.event(EventKind::OutOfMemory, Floor::Allocation, Family::Pinned, 0, 1000);  // asked for on device 0
  const LiveSet set = replayed(b);
  EXPECT_EQ((*set.device(kHostDevice))[Floor::Allocation].ooms, 1u);
  EXPECT_EQ((*set.device(0))[Floor::Allocation].ooms, 0u);
}

TEST(LiveSet, ResizeMovesTheFloors) {
  TraceBuilder b;
  b.cuda_malloc(0x1000, 100);
  b.event(EventKind::Resize, Floor::Allocation, Family::Device, 0x1000, 40);
  b.cuda_malloc(0x2000, 10);
  b.cuda_free(0x1000);
  EXPECT_EQ(live(replayed(b), Floor::Physical), 10u);
}

TEST(LiveSet, ResizeOfImportedMemoryKeepsItsPeak) {
  TraceBuilder b;
  b.allocate(Floor::Physical, Family::Imported, 0x1000, 100);
  b.event(EventKind::Resize, Floor::Physical, Family::Imported, 0x1000, 300);
  b.event(EventKind::Resize, Floor::Physical, Family::Imported, 0x1000, 40);
  const LiveSet set = replayed(b);
  EXPECT_EQ(set.device(0)->imported, 40u);
  EXPECT_EQ(set.device(0)->peak_imported, 300u);
}

TEST(LiveSet, AMappedRangeIsOnTheDeviceOfItsHandle) {
  TraceBuilder b;
  b.allocate(Floor::Physical, Family::Handle, 1, 2 << 20).device = 1;
  b.map(0x10000000, 2 << 20, 1);  // called while device 0 was current
  b.map(0x20000000, 2 << 20, 9).device = 2;  // of a handle that nobody saw
  const std::vector<MappedRange> mapped = replayed(b).mapped();
  ASSERT_EQ(mapped.size(), 2u);
  EXPECT_EQ(mapped[0].device, 1);
  EXPECT_EQ(mapped[1].device, 2);
}

TEST(LiveSet, UnmapForgetsTheRangesInside) {
  TraceBuilder b;
  b.allocate(Floor::Physical, Family::PoolGranule, 1, 2 << 20);
  b.map(0x10000000, 2 << 20, 1);
  b.map(0x10200000, 2 << 20, 1);
  b.event(EventKind::Unmap, Floor::Physical, Family::None, 0x10000000, 2 << 20);
  const std::vector<MappedRange> mapped = replayed(b).mapped();
  ASSERT_EQ(mapped.size(), 1u);
  EXPECT_EQ(mapped[0].address, 0x10200000u);
  EXPECT_TRUE(mapped[0].pool);
}

// The table against a plain map, over many collisions and removals.
TEST(LiveSet, AgreesWithAReferenceOverRandomTraffic) {
  std::mt19937_64 random(7);
  LiveSet set;
  std::unordered_map<std::uint64_t, std::uint64_t> reference;
  std::uint64_t bytes = 0;
  for (int i = 0; i < 200000; ++i) {
    Event e;
    e.time_ns = static_cast<std::uint64_t>(i);
    e.floor = Floor::Allocation;
    e.family = Family::Device;
    e.address = (random() % 3000) * 512;
    const auto it = reference.find(e.address);
    if (it == reference.end()) {
      e.kind = EventKind::Allocate;
      e.size = random() % 100000;
      reference[e.address] = e.size;
      bytes += e.size;
    } else {
      e.kind = EventKind::Free;
      bytes -= it->second;
      reference.erase(it);
    }
    set.apply(e);
    ASSERT_EQ(live(set, Floor::Allocation), bytes);
  }
  EXPECT_EQ(set.size(), reference.size());
  std::size_t visited = 0;
  set.for_each_block([&](const Block& b) { ++visited; EXPECT_EQ(reference.at(b.address), b.size); });
  EXPECT_EQ(visited, reference.size());
}

TEST(LiveSet, TakesMillionsOfEventsASecond) {
  constexpr std::uint64_t kLive = 100000;
  std::vector<Event> events(2'000'000);
  for (std::size_t i = 0; i < events.size(); ++i) {
    Event& e = events[i];
    const std::uint64_t n = i / 2;
    e.floor = Floor::Framework;
    e.family = Family::Tensor;
    e.kind = i % 2 == 0 ? EventKind::Allocate : EventKind::Free;
    e.address = (i % 2 == 0 ? n : n - kLive) * 512;  // first frees match nothing
    e.size = 512;
    e.thread = 1;
  }
  LiveSet set;
  const std::clock_t start = std::clock();
  for (const Event& e : events) set.apply(e);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  printf("live set: %.1f M events/s\n", static_cast<double>(events.size()) / seconds / 1e6);
  EXPECT_EQ(set.size(), kLive);
}

}  // namespace
}  // namespace cuheap
