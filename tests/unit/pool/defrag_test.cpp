#include "shim/pool/defrag.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "fake_driver.h"

namespace cuheap {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGranule = 2 * kMiB;
constexpr std::uint64_t kBase = std::uint64_t{1} << 40;

/// Addresses in MiB from the base.
FreeRange at(std::uint64_t begin, std::uint64_t end) { return {kBase + begin * kMiB, (end - begin) * kMiB}; }

class PlanTest : public testing::Test {
 protected:
  bool plan_for(std::uint64_t size, std::uint64_t alignment = kGranule) {
    return plan_window(ready, unmapped, size, alignment, kGranule, &plan);
  }
  FreeIndex ready, unmapped;
  Plan plan;
};

TEST_F(PlanTest, FillsTheGapBesideAMappedHole) {
  ASSERT_TRUE(ready.insert(at(0, 4)));
  ASSERT_TRUE(unmapped.insert(at(4, 100)));

  ASSERT_TRUE(plan_for(8 * kMiB));

  EXPECT_EQ(plan.block, at(0, 8));
  ASSERT_EQ(plan.count, 2u);
  EXPECT_EQ(plan.moves[0].to, at(4, 6).address);
  EXPECT_EQ(plan.moves[1].to, at(6, 8).address);
}

TEST_F(PlanTest, PrefersTheWindowThatNeedsTheFewestGranules) {
  ASSERT_TRUE(unmapped.insert(at(0, 16)));
  ASSERT_TRUE(unmapped.insert(at(20, 24)));
  ASSERT_TRUE(ready.insert(at(24, 30)));
  ASSERT_TRUE(unmapped.insert(at(30, 40)));

  ASSERT_TRUE(plan_for(8 * kMiB));

  EXPECT_EQ(plan.count, 1u);
  EXPECT_TRUE(plan.block == at(22, 30) || plan.block == at(24, 32));
}

TEST_F(PlanTest, NeedsNothingWhereTheHoleIsMapped) {
  ASSERT_TRUE(ready.insert(at(0, 8)));

  ASSERT_TRUE(plan_for(8 * kMiB));

  EXPECT_EQ(plan.count, 0u);
  EXPECT_EQ(plan.block, at(0, 8));
}

TEST_F(PlanTest, FailsWithoutARunThatIsLongEnough) {
  ASSERT_TRUE(ready.insert(at(0, 6)));
  ASSERT_TRUE(unmapped.insert(at(10, 16)));

  EXPECT_FALSE(plan_for(8 * kMiB));
}

TEST_F(PlanTest, StealsWhollyFreeGranulesOfTheSmallestHolesFirst) {
  ASSERT_TRUE(unmapped.insert(at(100, 108)));
  ASSERT_TRUE(ready.insert(at(0, 10)));                                        // five granules
  ASSERT_TRUE(ready.insert({kBase + 20 * kMiB + 64 * kKiB, 4 * kMiB}));        // one whole granule: at 22
  ASSERT_TRUE(ready.insert({kBase + 30 * kMiB + 64 * kKiB, 3 * kMiB + 64 * kKiB}));  // none
  plan.block = at(100, 108);
  plan.count = 4;
  for (unsigned i = 0; i < 4; ++i) plan.moves[i] = {.to = at(100 + 2 * i, 102 + 2 * i).address, .size = kGranule};

  EXPECT_EQ(plan_steals(ready, kGranule, &plan), 4u);

  EXPECT_EQ(plan.moves[0].from, at(22, 24).address);
  std::set<std::uint64_t> sources;
  for (const Move& move : plan.moves) {
    EXPECT_TRUE(move.from == 0 || sources.insert(move.from).second);
  }
}

TEST_F(PlanTest, NeverStealsFromTheWindowItself) {
  ASSERT_TRUE(ready.insert(at(0, 6)));
  ASSERT_TRUE(unmapped.insert(at(6, 8)));
  ASSERT_TRUE(plan_for(8 * kMiB));

  EXPECT_EQ(plan_steals(ready, kGranule, &plan), 0u);
}

// Brute force over every start is the model for the number of granules needed.
TEST(PlanWindow, IsNeverWorseThanTryingEveryPlace) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 500; ++round) {
    constexpr unsigned kSlots = 24;
    FreeIndex ready, unmapped;
    char state[kSlots];  // mapped and free, unmapped, taken
    for (unsigned i = 0; i < kSlots; ++i) {
      state[i] = "mut"[random() % 3];
      const FreeRange slot{kBase + i * kGranule, kGranule};
      ASSERT_TRUE(state[i] != 'm' || ready.insert(slot));
      ASSERT_TRUE(state[i] != 'u' || unmapped.insert(slot));
    }
    const unsigned slots = 1 + static_cast<unsigned>(random() % 6);
    unsigned least = ~0u;
    for (unsigned start = 0; start + slots <= kSlots; ++start) {
      unsigned needed = 0;
      bool possible = true;
      for (unsigned i = start; i < start + slots; ++i) {
        possible = possible && state[i] != 't';
        needed += state[i] == 'u';
      }
      if (possible && needed < least) least = needed;
    }

    Plan plan;
    const bool found = plan_window(ready, unmapped, slots * kGranule, kGranule, kGranule, &plan);

    ASSERT_EQ(found, least != ~0u) << round;
    ASSERT_TRUE(!found || plan.count == least) << round;
  }
}

// ---- the executor

class ExecuteTest : public testing::Test {
 protected:
  void SetUp() override {
    gpu.reset(64 * kMiB);
    ASSERT_EQ(gpu.reserve(&base, 64 * kMiB, kGranule), CUDA_SUCCESS);
    access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ground = {&gpu.table(), 0, {}, &access, 1};
    // One granule at home at 32 MiB, to be stolen.
    Plan first;
    first.count = 1;
    first.moves[0] = {.to = base + 32 * kMiB, .size = kGranule};
    ASSERT_EQ(execute(ground, &first), CUDA_SUCCESS);
    stolen.handle = first.moves[0].handle;
    stolen.size = kGranule;
    plan.count = 3;
    plan.moves[0] = {.to = base, .size = kGranule};
    plan.moves[1] = {.to = base + kGranule, .from = base + 32 * kMiB, .size = kGranule, .granule = &stolen};
    plan.moves[2] = {.to = base + 8 * kMiB, .size = kGranule};
  }
  void TearDown() override {
    for (const std::string& violation : gpu.violations()) ADD_FAILURE() << violation;
  }

  fake::FakeDriver& gpu = fake::driver();
  CUdeviceptr base = 0;
  CUmemAccessDesc access = {};
  Ground ground;
  Granule stolen;
  Plan plan;
};

TEST_F(ExecuteTest, OpensNeighboursInOneCall) {
  const auto before = gpu.calls("cuMemSetAccess");

  ASSERT_EQ(execute(ground, &plan), CUDA_SUCCESS);

  EXPECT_EQ(gpu.calls("cuMemSetAccess"), before + 2);
  EXPECT_TRUE(gpu.is_open_to(base, 2 * kGranule, 0));
  EXPECT_TRUE(gpu.is_open_to(base + 8 * kMiB, kGranule, 0));
  EXPECT_FALSE(gpu.is_open_to(base + 32 * kMiB, 1, 0));
}

TEST_F(ExecuteTest, WhateverFailsTheStolenGranuleIsAtHomeAndNothingIsHalfOpen) {
  const char* names[] = {"cuMemCreate", "cuMemCreate", "cuMemUnmap",     "cuMemMap",
                         "cuMemMap",    "cuMemMap",    "cuMemSetAccess", "cuMemSetAccess"};
  const unsigned nth[] = {1, 2, 1, 1, 2, 3, 1, 2};
  for (unsigned i = 0; i < 8; ++i) {
    SetUp();
    gpu.fail_once(names[i], nth[i], CUDA_ERROR_OUT_OF_MEMORY);

    EXPECT_EQ(execute(ground, &plan), CUDA_ERROR_OUT_OF_MEMORY) << names[i];

    EXPECT_EQ(plan.moves[1].outcome, Move::Outcome::Home) << names[i] << nth[i];
    EXPECT_TRUE(gpu.is_open_to(base + 32 * kMiB, kGranule, 0)) << names[i];
    EXPECT_FALSE(gpu.is_open_to(base, 1, 0)) << names[i];
    for (const Move& move : {plan.moves[0], plan.moves[2]}) {
      EXPECT_TRUE(move.outcome == Move::Outcome::Stray || move.outcome == Move::Outcome::Absent) << names[i];
    }
    EXPECT_TRUE(gpu.violations().empty());
  }
}

TEST_F(ExecuteTest, SaysWhatIsStuckWhenUndoingFailsToo) {
  gpu.fail_once("cuMemSetAccess", 1, CUDA_ERROR_OUT_OF_MEMORY);
  gpu.fail_once("cuMemUnmap", 2, CUDA_ERROR_OUT_OF_MEMORY);  // the first undo

  EXPECT_EQ(execute(ground, &plan), CUDA_ERROR_OUT_OF_MEMORY);

  EXPECT_EQ(plan.moves[0].outcome, Move::Outcome::Stuck);
  EXPECT_EQ(plan.moves[1].outcome, Move::Outcome::Home);
  EXPECT_EQ(plan.moves[2].outcome, Move::Outcome::Stray);
}

}  // namespace
}  // namespace cuheap
