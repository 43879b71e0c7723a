// statistics: the few tests that the leak verdict stands on. Small samples (8 to 20 groups), no randomness but a fixed seed.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace cuheap {

struct TrendTest {
  double rising = 1;   // one-sided p: a trend this much upwards by chance
  double falling = 1;  // the same downwards
};
/// Kendall's test of a trend in the order given, corrected for ties and for continuity.
TrendTest kendall(std::span<const double> values);

/// One-sided p that the mean is not above 0 (Student, n - 1 degrees of freedom).
double mean_above_zero(std::span<const double> values);

/// 95 % interval of sum(values) / sum(spans), by circular block bootstrap (blocks of two neighbours), fixed seed. A value is
/// drawn with its span: where the values are equal, the spans alone tell how sure the rate is.
std::array<double, 2> bootstrap_rate(std::span<const double> values, std::span<const double> spans, std::uint64_t samples);

/// Which hypotheses stand at this false discovery rate.
std::vector<bool> benjamini_hochberg(std::span<const double> p_values, double rate);

}  // namespace cuheap
