#include "tools/analysis/statistics.h"

#include <gtest/gtest.h>

namespace cuheap {
namespace {

TEST(Statistics, KendallKnowsUpDownAndNothing) {
  const double up[] = {1, 2, 3, 4, 5, 6, 7, 8}, down[] = {8, 7, 6, 5, 4, 3, 2, 1}, flat[] = {3, 3, 3, 3, 3, 3, 3, 3};
  EXPECT_LT(kendall(up).rising, 0.001);
  EXPECT_GT(kendall(up).falling, 0.99);
  EXPECT_LT(kendall(down).falling, 0.001);
  EXPECT_EQ(kendall(flat).rising, 1);
  EXPECT_EQ(kendall(flat).falling, 1);
}

// S = 16 of 8 values: exact one-sided p is 0.031 (tables of Kendall's S).
TEST(Statistics, KendallIsCloseToTheExactTable) {
  const double values[] = {1, 2, 5, 3, 8, 4, 7, 6};  // 6 inversions: S = 28 - 12
  EXPECT_NEAR(kendall(values).rising, 0.031, 0.004);
}

TEST(Statistics, StudentMatchesTables) {
  // mean 1, deviation 1, n = 8: t = 2.8284, one-sided p of 7 degrees = 0.0127
  const double d = 0.9354143466934853;
  const double values[] = {1 - d, 1 + d, 1 - d, 1 + d, 1 - d, 1 + d, 1 - d, 1 + d};
  EXPECT_NEAR(mean_above_zero(values), 0.0127, 0.0005);
  const double negative[] = {-1, -2, -1};
  EXPECT_EQ(mean_above_zero(negative), 1);
}

TEST(Statistics, BootstrapIsRepeatableAndHoldsTheRate) {
  const double values[] = {3, 5, 4, 6, 2, 5, 4, 3}, spans[] = {2, 2, 2, 2, 2, 2, 2, 2};
  const auto interval = bootstrap_rate(values, spans, 2000);
  EXPECT_EQ(interval, bootstrap_rate(values, spans, 2000));
  EXPECT_LT(interval[0], 2);
  EXPECT_GT(interval[1], 2);
  EXPECT_GT(interval[0], 1);
  const double zero[] = {0, 0, 0, 0, 0, 0, 0, 40};
  EXPECT_EQ(bootstrap_rate(zero, spans, 2000)[0], 0);
}

TEST(Statistics, BootstrapDrawsAValueWithItsSpan) {
  // Equal values, uneven spans: what is not sure is the time.
  const double equal[] = {4, 4, 4, 4, 4, 4, 4, 4}, uneven[] = {1, 3, 1, 3, 2, 2, 3, 1};
  const auto interval = bootstrap_rate(equal, uneven, 2000);
  EXPECT_LT(interval[0], 1.9);
  EXPECT_GT(interval[1], 2.1);
  // As much in each second: then the rate is sure, however uneven both are.
  const double same[] = {2, 6, 2, 6, 4, 4, 6, 2};
  const auto sure = bootstrap_rate(same, uneven, 2000);
  EXPECT_DOUBLE_EQ(sure[0], 2);
  EXPECT_DOUBLE_EQ(sure[1], 2);
  const double no_time[8] = {};
  EXPECT_EQ(bootstrap_rate(same, no_time, 2000)[1], 0);
}

TEST(Statistics, FalseDiscoveryRateKeepsTheSmallOnes) {
  const double p[] = {0.001, 0.9, 0.012, 0.04, 0.5};
  EXPECT_EQ(benjamini_hochberg(p, 0.05), (std::vector<bool>{true, false, true, false, false}));
  EXPECT_TRUE(benjamini_hochberg({}, 0.05).empty());
}

}  // namespace
}  // namespace cuheap
