// leak_evidence_sample: the evidence of a plain leak, by hand: a site that keeps every tenth of its blocks, over a run of a
// thousand seconds and as many ticks. Tests change one thing of it and look at what that alone does to the verdict.
#pragma once
#include <vector>

#include "tools/analysis/leak_evidence.h"

namespace cuheap::test {

constexpr std::uint64_t kSecond = 1'000'000'000;

inline ProcessRun plain_run() {
  ProcessRun run;
  run.clock.kind = ClockKind::Allocations;
  run.clock.ticks = run.end_tick = 1000;
  run.clock.warm_up_ticks = 100;
  run.end_ns = 1000 * kSecond;
  return run;
}

/// So many survivors in each of the groups of a hundred mature births.
inline void set_survivors(LeakEvidence& e, const std::vector<std::uint32_t>& per_group) {
  const std::uint32_t births = static_cast<std::uint32_t>(e.mature_births / per_group.size());
  e.survivors.clear();
  for (std::uint32_t g = 0; g < per_group.size(); ++g) {
    for (std::uint32_t i = 0; i < per_group[g]; ++i) {
      const std::uint32_t ordinal = g * births + i * births / per_group[g];
      e.survivors.push_back({ordinal, 4096, (150 + ordinal) * kSecond});
    }
  }
  e.live_count = e.live_after_warm_up = e.survivors.size() + 5;  // five are too young to judge
  e.live_bytes = e.live_count * 4096;
  e.deaths = e.births - e.live_count;
}

inline LeakEvidence plain_leak(SiteId site = 1) {
  LeakEvidence e;
  e.site = site;
  e.size_low = e.size_high = 4096;
  e.births = e.births_after_warm_up = 850;
  e.longest_life = 10;
  e.first_birth = 150;
  e.last_birth = 1000;
  e.longest_gap = 1;
  e.maturity = 50;
  e.mature_births = 800;
  e.mature_first_tick = 150;
  e.mature_last_tick = 950;
  e.mature_first_ns = 150 * kSecond;
  e.mature_last_ns = 950 * kSecond;
  e.births_by_last_quarter = 600;
  set_survivors(e, {10, 11, 9, 10, 10, 9, 11, 10});
  for (std::size_t w = 0; w < kWindows; ++w) {
    e.low_water[w] = 10.0 * static_cast<double>(w);
    e.bytes.low[w] = e.low_water[w] * 4096;
    e.bytes.high[w] = e.bytes.low[w] + 10 * 4096;
  }
  return e;
}

/// The sizes of its site: level.
inline SiteSizes plain_sizes(SiteId site = 1) {
  SiteSizes s;
  s.site = site;
  s.births = 850;
  s.deaths = 765;
  return s;
}

/// A workspace that is asked for a little larger each time, and a floor whose idle memory grows by it.
inline SiteSizes ratchet_sizes(SiteId site = 1) {
  SiteSizes s;
  s.site = site;
  s.births = 800;
  s.deaths = 799;
  for (std::size_t w = 0; w < kWindows; ++w) {
    s.window_births[w] = 100;
    s.window_bytes[w] = 100e6 * (1 + 0.1 * static_cast<double>(w));
    s.low_water[w] = 0;
  }
  return s;
}
inline DeviceRun growing_device() {
  DeviceRun d;
  d.total = std::uint64_t{10} << 30;
  for (std::size_t w = 0; w < kWindows; ++w) d.idle.low[w] = 70e6 * static_cast<double>(w);
  return d;
}

}  // namespace cuheap::test
