#include "shim/pool/free_index.h"

#include <gtest/gtest.h>

#include <bitset>
#include <map>
#include <random>

namespace cuheap {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

TEST(FreeIndex, MergesWithBothNeighbours) {
  FreeIndex index;
  ASSERT_TRUE(index.insert({0x1000, 0x1000}));
  ASSERT_TRUE(index.insert({0x3000, 0x1000}));

  ASSERT_TRUE(index.insert({0x2000, 0x1000}));

  EXPECT_EQ(index.count(), 1u);
  EXPECT_EQ(index.find(0x2fff), (FreeRange{0x1000, 0x3000}));
  EXPECT_TRUE(index.is_valid());
}

TEST(FreeIndex, KeepsTouchingRangesApartWhenMergingIsOff) {
  FreeIndex index(FreeIndex::Merging::Off);

  ASSERT_TRUE(index.insert({0x1000, 0x1000}));
  ASSERT_TRUE(index.insert({0x2000, 0x1000}));

  EXPECT_EQ(index.count(), 2u);
  EXPECT_FALSE(index.best_fit(0x2000, 1));
  EXPECT_TRUE(index.is_valid());
}

TEST(FreeIndex, RefusesOverlapsAndEmptyRanges) {
  FreeIndex index;
  ASSERT_TRUE(index.insert({0x2000, 0x1000}));

  EXPECT_FALSE(index.insert({0x2800, 0x100}));
  EXPECT_FALSE(index.insert({0x1800, 0x1000}));
  EXPECT_FALSE(index.insert({0x2000, 0x1000}));
  EXPECT_FALSE(index.insert({0x5000, 0}));
  EXPECT_FALSE(index.insert({~std::uint64_t{0} - 10, 100}));

  EXPECT_EQ(index.bytes(), 0x1000u);
  EXPECT_TRUE(index.is_valid());
}

TEST(FreeIndex, TakesTheSmallestRangeThatFitsAndTheLowestAmongEquals) {
  FreeIndex index;
  ASSERT_TRUE(index.insert({0x10000, 0x3000}));
  ASSERT_TRUE(index.insert({0x30000, 0x2000}));
  ASSERT_TRUE(index.insert({0x20000, 0x2000}));
  ASSERT_TRUE(index.insert({0x40000, 0x800}));

  EXPECT_EQ(index.best_fit(0x1800, 0x200), (FreeRange{0x20000, 0x1800}));
  EXPECT_EQ(index.best_fit(0x2001, 1), (FreeRange{0x10000, 0x2001}));
  EXPECT_FALSE(index.best_fit(0x3001, 1));
  EXPECT_FALSE(index.best_fit(0, 1));
}

TEST(FreeIndex, CountsTheRoomLostToAlignment) {
  FreeIndex index;
  ASSERT_TRUE(index.insert({2 * kMiB + 64 * kKiB, 2 * kMiB}));       // holds no aligned 2 MiB
  ASSERT_TRUE(index.insert({10 * kMiB - 64 * kKiB, 2 * kMiB + 64 * kKiB}));

  EXPECT_EQ(index.best_fit(2 * kMiB, 2 * kMiB), (FreeRange{10 * kMiB, 2 * kMiB}));
}

TEST(FreeIndex, FindsAFitBehindManyBadlyPlacedRanges) {
  FreeIndex index;
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(index.insert({i * 8 * kMiB + 64 * kKiB, 2 * kMiB}));
  ASSERT_TRUE(index.insert({2000 * kMiB + 512, 4 * kMiB}));

  EXPECT_EQ(index.best_fit(2 * kMiB, 2 * kMiB), (FreeRange{2002 * kMiB, 2 * kMiB}));
}

TEST(FreeIndex, SplitsFrontMiddleAndEnd) {
  FreeIndex index;
  ASSERT_TRUE(index.insert({0x1000, 0x4000}));

  EXPECT_TRUE(index.remove({0x2000, 0x1000}));
  EXPECT_TRUE(index.remove({0x1000, 0x800}));
  EXPECT_TRUE(index.remove({0x4000, 0x1000}));
  EXPECT_FALSE(index.remove({0x2000, 0x1000}));
  EXPECT_FALSE(index.remove({0x1800, 0x1000}));

  EXPECT_EQ(index.next_at(0), (FreeRange{0x1800, 0x800}));
  EXPECT_EQ(index.next_at(0x2000), (FreeRange{0x3000, 0x1000}));
  EXPECT_FALSE(index.next_at(0x3001));
  EXPECT_TRUE(index.is_valid());
}

TEST(FreeIndex, WalksBySize) {
  FreeIndex index;
  ASSERT_TRUE(index.insert({0x50000, 0x1000}));
  ASSERT_TRUE(index.insert({0x10000, 0x3000}));
  ASSERT_TRUE(index.insert({0x30000, 0x1000}));

  FreeRange at = index.next_by_size(0x1000, {});
  EXPECT_EQ(at.address, 0x30000u);
  at = index.next_by_size(0x1000, at);
  EXPECT_EQ(at.address, 0x50000u);
  at = index.next_by_size(0x1000, at);
  EXPECT_EQ(at, index.largest());
  EXPECT_FALSE(index.next_by_size(0x1000, at));
}

// A byte map is the model: the index must agree with it after every step.
class Model {
 public:
  static constexpr std::size_t kUnits = 512;

  bool is_free(std::size_t start, std::size_t count) const {
    for (std::size_t i = start; i < start + count; ++i) {
      if (!free_[i]) return false;
    }
    return true;
  }
  bool is_taken(std::size_t start, std::size_t count) const {
    for (std::size_t i = start; i < start + count; ++i) {
      if (free_[i]) return false;
    }
    return true;
  }
  void set(std::size_t start, std::size_t count, bool value) {
    for (std::size_t i = start; i < start + count; ++i) free_[i] = value;
  }
  std::size_t bytes() const { return free_.count(); }

  /// Smallest run that fits, lowest first: what best_fit must answer for alignment 1.
  FreeRange best_fit(std::size_t size) const {
    FreeRange best;
    for (std::size_t i = 0; i < kUnits;) {
      std::size_t end = i;
      while (end < kUnits && free_[end]) ++end;
      if (end - i >= size && (!best || end - i < best.size)) best = {i + 1, end - i};
      i = end + 1;
    }
    return best ? FreeRange{best.address, size} : best;
  }

 private:
  std::bitset<kUnits> free_;
};

TEST(FreeIndex, AgreesWithAByteMapOverARandomRun) {
  FreeIndex index;
  Model model;
  std::mt19937_64 random(20260101);
  for (int step = 0; step < 20000; ++step) {
    const std::size_t size = 1 + random() % 24;
    const std::size_t start = random() % (Model::kUnits - size);
    const FreeRange range{start + 1, size};

    switch (random() % 3) {
      case 0: {
        const bool possible = model.is_taken(start, size);
        ASSERT_EQ(index.insert(range), possible) << step;
        if (possible) model.set(start, size, true);
        break;
      }
      case 1: {
        const bool possible = model.is_free(start, size);
        ASSERT_EQ(index.remove(range), possible) << step;
        if (possible) model.set(start, size, false);
        break;
      }
      default: {
        const FreeRange found = index.best_fit(size, 1);
        ASSERT_EQ(found, model.best_fit(size)) << step;
        if (found) {
          ASSERT_TRUE(index.remove(found)) << step;
          model.set(found.address - 1, found.size, false);
        }
      }
    }

    ASSERT_EQ(index.bytes(), model.bytes()) << step;
    ASSERT_TRUE(index.is_valid()) << step;
  }
}

TEST(FreeIndex, AlignedFitsLieInsideFreeSpace) {
  FreeIndex index;
  std::mt19937_64 random(7);
  ASSERT_TRUE(index.insert({3 * kMiB, 512 * kMiB}));
  std::map<std::uint64_t, std::uint64_t> taken;
  for (int step = 0; step < 10000; ++step) {
    const std::uint64_t alignment = std::uint64_t{512} << (random() % 13);
    const std::uint64_t size = 512 * (1 + random() % 8192);
    const FreeRange found = index.best_fit(size, alignment);
    if (found && random() % 2 == 0) {
      ASSERT_EQ(found.address % alignment, 0u);
      ASSERT_TRUE(index.remove(found));
      taken[found.address] = found.size;
    } else if (!taken.empty()) {
      auto victim = taken.lower_bound(random() % (515 * kMiB));
      if (victim == taken.end()) victim = taken.begin();
      ASSERT_TRUE(index.insert({victim->first, victim->second}));
      taken.erase(victim);
    }
    ASSERT_TRUE(index.is_valid()) << step;
  }
  for (const auto& [address, size] : taken) ASSERT_TRUE(index.insert({address, size}));
  EXPECT_EQ(index.largest(), (FreeRange{3 * kMiB, 512 * kMiB}));
}

}  // namespace
}  // namespace cuheap
