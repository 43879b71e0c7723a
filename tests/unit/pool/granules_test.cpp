#include "shim/pool/granules.h"

#include <gtest/gtest.h>

namespace cuheap {
namespace {

constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;

TEST(Granules, ReuseStockOfExactlyTheSize) {
  Granules granules;
  Granule* small = granules.adopt(1, kGranule);
  Granule* large = granules.adopt(2, 16 * kGranule);
  granules.stock(small);
  granules.stock(large);

  EXPECT_EQ(granules.take(8 * kGranule), nullptr);
  EXPECT_EQ(granules.take(kGranule), small);
  EXPECT_EQ(granules.take(kGranule), nullptr);
  EXPECT_EQ(granules.stock_bytes(), 16 * kGranule);
  EXPECT_EQ(granules.take_any(), large);
  EXPECT_EQ(granules.take_any(), nullptr);
}

TEST(Granules, CountIdleBytesByWholeHandles) {
  Granules granules;
  Granule* granule = granules.adopt(1, kGranule);
  EXPECT_EQ(granules.idle_bytes(), kGranule);

  granules.use(granule, 512);
  EXPECT_EQ(granules.idle_bytes(), 0u);
  granules.use(granule, 1024);
  granules.unuse(granule, 512);
  EXPECT_EQ(granules.idle_bytes(), 0u);
  granules.unuse(granule, 1024);
  EXPECT_EQ(granules.idle_bytes(), kGranule);
}

TEST(Granules, AnExposedByteIsNeverIdleAgain) {
  Granules granules;
  Granule* granule = granules.adopt(1, kGranule);
  granules.use(granule, 4096);

  granules.expose(granule, 4096);

  EXPECT_EQ(granule->used, 0u);
  EXPECT_EQ(granules.idle_bytes(), 0u);
  granules.forget(granule);
  EXPECT_EQ(granules.held_bytes(), 0u);
  EXPECT_EQ(granules.idle_bytes(), 0u);
}

}  // namespace
}  // namespace cuheap
