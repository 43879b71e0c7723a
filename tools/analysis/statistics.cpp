#include "tools/analysis/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace cuheap {
namespace {

double normal_tail(double z) { return 0.5 * std::erfc(z / std::sqrt(2.0)); }

// Continued fraction of the incomplete beta function (Lentz); converges fast for x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::fabs(d) < kTiny ? kTiny : d);
  double result = d;
  for (int m = 1; m <= 200; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double change = 1;
    for (const double term : {even, odd}) {
      d = 1 + term * d;
      d = 1 / (std::fabs(d) < kTiny ? kTiny : d);
      c = 1 + term / c;
      if (std::fabs(c) < kTiny) c = kTiny;
      change = c * d;
      result *= change;
    }
    if (std::fabs(change - 1) < 1e-12) break;
  }
  return result;
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log(1 - x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

std::uint64_t next_random(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

TrendTest kendall(std::span<const double> values) {
  const std::size_t n = values.size();
  if (n < 3) return {};
  double s = 0;
  std::map<double, double> ties;
  for (std::size_t i = 0; i < n; ++i) {
    ++ties[values[i]];
    for (std::size_t j = i + 1; j < n; ++j) s += values[j] > values[i] ? 1 : values[j] < values[i] ? -1 : 0;
  }
  const auto term = [](double k) { return k * (k - 1) * (2 * k + 5); };
  double variance = term(static_cast<double>(n));
  for (const auto& [value, count] : ties) variance -= term(count);
  variance /= 18;
  if (variance <= 0) return {};
  const double deviation = std::sqrt(variance);
  return {normal_tail((s - 1) / deviation), normal_tail((-s - 1) / deviation)};
}

double mean_above_zero(std::span<const double> values) {
  const double n = static_cast<double>(values.size());
  if (n < 2) return 1;
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  const double error = std::sqrt(squares / (n - 1) / n);
  if (mean <= 0) return 1;
  if (error == 0) return 0;
  const double t = mean / error, degrees = n - 1;
  return 0.5 * incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

std::array<double, 2> bootstrap_rate(std::span<const double> values, std::span<const double> spans, std::uint64_t samples) {
  const std::size_t n = values.size();
  const double whole = std::accumulate(spans.begin(), spans.end(), 0.0);
  if (n == 0 || samples == 0 || spans.size() != n || whole <= 0) return {0, 0};
  constexpr std::size_t kBlock = 2;
  std::uint64_t state = 0x63756865617021;
  std::vector<double> rates(samples);
  for (double& rate : rates) {
    double sum = 0, span = 0;
    for (std::size_t taken = 0; taken < n;) {
      const std::size_t start = next_random(state) % n;
      for (std::size_t i = 0; i < kBlock && taken < n; ++i, ++taken) {
        sum += values[(start + i) % n];
        span += spans[(start + i) % n];
      }
    }
    rate = sum / (span > 0 ? span : whole);
  }
  std::sort(rates.begin(), rates.end());
  const auto quantile = [&](double q) { return rates[static_cast<std::size_t>(q * static_cast<double>(samples - 1))]; };
  return {quantile(0.025), quantile(0.975)};
}

std::vector<bool> benjamini_hochberg(std::span<const double> p_values, double rate) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::size_t standing = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double bound = rate * static_cast<double>(i + 1) / static_cast<double>(order.size());
    if (p_values[order[i]] <= bound) standing = i + 1;
  }
  std::vector<bool> result(p_values.size());
  for (std::size_t i = 0; i < standing; ++i) result[order[i]] = true;
  return result;
}

}  // namespace cuheap
