#include "shim/pool/segment.h"

#include <gtest/gtest.h>

#include <memory>

#include "fake_driver.h"

namespace cuheap {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGranule = 2 * kMiB;

class SegmentTest : public testing::Test {
 protected:
  void SetUp() override { gpu.reset(1024 * kMiB); }
  Segment* make(SizeClass size_class, std::uint64_t bytes) {
    Segment segment;
    if (SegmentTable::reserve(gpu.table(), 0, size_class, kGranule, bytes, &segment) != CUDA_SUCCESS) return nullptr;
    return table->publish(segment);
  }

  fake::FakeDriver& gpu = fake::driver();
  std::unique_ptr<SegmentTable> table = std::make_unique<SegmentTable>();
};

TEST_F(SegmentTest, NeighboursInAddressSpaceAreKeptApartByAGuard) {
  Segment* first = make(SizeClass::Large, 64 * kMiB);
  Segment* second = make(SizeClass::Large, 64 * kMiB);

  EXPECT_GE(second->base, first->end() + kGranule);
  EXPECT_EQ(table->find(first->end()), nullptr);
  EXPECT_EQ(table->find(first->end() - 1), first);
  EXPECT_EQ(table->find(second->base), second);
  EXPECT_EQ(table->find(0), nullptr);
  EXPECT_EQ(table->find(~std::uint64_t{0}), nullptr);
}

TEST_F(SegmentTest, FindsABlockFromItsInside) {
  for (const SizeClass size_class : {SizeClass::Small, SizeClass::Large}) {
    Segment* segment = make(size_class, 64 * kMiB);
    PoolBlock block;
    block.address = segment->base + 64 * kKiB;
    block.held = size_class == SizeClass::Small ? 960 * kKiB : 31 * kMiB;
    segment->start_at(block.address) = &block;

    EXPECT_EQ(segment->block_at(block.address), &block);
    EXPECT_EQ(segment->block_at(block.address + block.held - 1), &block);
    EXPECT_EQ(segment->block_at(block.address + block.held), nullptr);
    EXPECT_EQ(segment->block_at(block.address - 1), nullptr);
  }
}

TEST_F(SegmentTest, FindsAHugeBlockByItsHandle) {
  Segment* segment = make(SizeClass::Huge, 512 * kMiB);
  Granule granule;
  granule.address = segment->base + 32 * kMiB;
  granule.size = 300 * kMiB;
  for (std::uint64_t at = granule.address; at < granule.address + granule.size; at += kGranule) segment->slot_at(at) = &granule;
  PoolBlock block;
  block.address = granule.address;
  block.held = granule.size;
  segment->start_at(block.address) = &block;

  EXPECT_EQ(segment->block_at(block.address + 299 * kMiB), &block);
  EXPECT_EQ(segment->block_at(block.address + 300 * kMiB), nullptr);
}

TEST_F(SegmentTest, AReservationThatFailsLeavesNothing) {
  gpu.fail_once("cuMemAddressReserve", 1, CUDA_ERROR_OUT_OF_MEMORY);

  EXPECT_EQ(make(SizeClass::Large, 64 * kMiB), nullptr);

  EXPECT_EQ(table->count(), 0u);
}

TEST_F(SegmentTest, ATableThatIsFullSaysSo) {
  for (int i = 0; i < 512; ++i) ASSERT_NE(make(SizeClass::Huge, kGranule), nullptr) << i;

  EXPECT_EQ(make(SizeClass::Huge, kGranule), nullptr);
  EXPECT_EQ(table->count(), 512u);
}

}  // namespace
}  // namespace cuheap
