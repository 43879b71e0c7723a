// leak_evidence: what the leak verdict is reached from, collected in three passes over a trace:
//   scan       which clock, which floor, where the run ends
//   lifetimes  per site and size class: the longest completed life (it decides which births are old enough to judge)
//   residue    of the births old enough, which survive; low-water marks; late deaths
// Nothing is judged here (leak_verdict.h).
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/analysis/leaks.h"

namespace cuheap {

constexpr std::size_t kWindows = 8;  // of equal clock, for low-water marks and sizes
constexpr std::size_t kTickTimes = 256;
constexpr const char* kOtherPhasesName = "other phases";  // rare at the site, or not among the busiest of the run
constexpr const char* kNoPhaseName = "outside phases";

/// The least and the most of something in each window.
struct Levels {
  std::array<double, kWindows> low{}, high{};
  double now = 0;
  std::uint32_t window = 0;
  void move(std::uint32_t to) { for (; window < to; ++window) low[window + 1] = high[window + 1] = now; }
  void add(double delta) {
    now += delta;
    low[window] = std::min(low[window], now);
    high[window] = std::max(high[window], now);
  }
};

/// A birth that is old enough to judge and still alive when the run ends.
struct Survivor {
  std::uint32_t ordinal = 0;  // nth mature birth of its key, from 0
  std::uint64_t bytes = 0;
  std::uint64_t time_ns = 0;  // birth
};

/// Of one site, phase and size class (or of a site's rare phases, and of a phase's rare classes, together).
struct LeakEvidence {
  SiteId site = 0;
  std::string phase;                     // of the births; empty if the site knows only one
  std::int16_t device = 0;
  std::uint16_t process = 0;
  std::uint64_t size_low = ~std::uint64_t{0};
  std::uint64_t size_high = 0;

  std::uint64_t births = 0;              // all
  std::uint64_t deaths = 0;
  std::uint64_t births_after_warm_up = 0;
  std::uint64_t longest_life = 0;        // ticks, completed lives only
  std::uint64_t live_count = 0;          // when the run ends
  std::uint64_t live_bytes = 0;
  std::uint64_t live_taken = 0;          // the same with the driver's rounding; 0: unknown
  std::uint64_t live_after_warm_up = 0;  // of those born after it
  std::uint64_t first_birth = 0;         // ticks, after the warm-up
  std::uint64_t last_birth = 0;
  std::uint64_t longest_gap = 0;         // between two births

  std::uint64_t maturity = 0;            // ticks: younger births say nothing
  std::uint64_t mature_births = 0;
  std::uint64_t mature_first_tick = 0, mature_last_tick = 0;
  std::uint64_t mature_first_ns = 0, mature_last_ns = 0;
  // The birth after the last mature one, else where mature births could have come last: so many births took so long. 0: unknown.
  std::uint64_t mature_end_tick = 0, mature_end_ns = 0;
  std::vector<Survivor> survivors;       // by ordinal
  std::vector<PhaseSurvivors> survivor_phases;  // most first; empty where the run has no phases
  std::vector<std::pair<std::uint32_t, std::uint64_t>> birth_times;  // (ordinal, ns), a bounded sample by ordinal

  std::uint32_t births_by_last_quarter = 0;  // mature births older than the last quarter
  std::uint64_t late_deaths = 0;             // of those, died in the last quarter
  std::uint32_t oldest_late_death = ~std::uint32_t{0};  // its ordinal
  std::array<double, kWindows> low_water{};  // fewest blocks alive in each window
  Levels bytes;                              // alive
  std::uint64_t deaths_on_marks = 0;         // right at a rare mark or phase border

  std::uint64_t live_now = 0;                // while collecting
  std::uint32_t window_now = 0;
};

/// Sizes of a site, all classes together: what a ratchet shows itself by.
struct SiteSizes {
  SiteId site = 0;
  std::int16_t device = 0;
  std::uint16_t process = 0;
  std::uint64_t births = 0, deaths = 0;
  std::uint64_t live_count = 0, live_bytes = 0;
  std::array<std::uint64_t, kWindows> window_births{};
  std::array<double, kWindows> window_bytes{};
  std::array<double, kWindows> low_water{};
  std::uint32_t window_now = 0;
  Levels bytes;  // alive
};

struct ProcessRun {
  LeakClock clock;
  std::uint64_t end_tick = 0;
  std::uint64_t begin_ns = 0, end_ns = 0;         // of what the clock counts
  std::uint64_t tear_down_event = ~std::uint64_t{0};  // the number of the event from which the program is tidying up
  std::uint64_t freed_late_bytes = 0;             // only after the last birth, though older than 5 % of the run
  std::uint64_t freed_late_blocks = 0;
  std::vector<std::uint64_t> rare_marks;          // ticks of marks and phase borders that are not the clock
  std::vector<bool> clock_marks;                  // by NameId: marks and phases that are the clock
  std::vector<bool> cycle_marks;                  // those that came a handful of times, e.g. an engine restart
  std::string cycle_label;
  std::vector<std::uint64_t> cycle_ns;            // when it began
  std::vector<std::uint64_t> tick_ns;             // when the clock had gone so many of kTickTimes-ths of its way
  std::uint64_t idle_ns = 0;                      // from its last allocation to its last event
  std::uint64_t ran_out_ns = 0;                   // it ended out of memory, then; 0: it did not
  std::int16_t ran_out_device = 0;
  double seconds_per_tick() const;
  std::uint64_t ns_at(std::uint64_t tick) const;
};

struct DeviceRun {
  std::int16_t device = 0;
  Levels idle;                                    // what the judged floor holds and is not live
  std::uint64_t held_physical = 0;                // when the run ends, with the driver's rounding
  std::uint64_t ran_out_ns = 0;                   // a process ended out of its memory, then
  std::uint64_t driver_used = 0;                  // 0: unknown
  std::uint64_t total = 0;                        // 0: unknown
};

struct LeakEvidenceSet {
  Floor floor = Floor::None;
  std::vector<ProcessRun> processes;              // by index
  std::vector<DeviceRun> devices;
  std::vector<LeakEvidence> keys;
  std::vector<SiteSizes> sites;
};

void sort_most_first(std::vector<PhaseSurvivors>& phases);

/// `host_seen`, if given, says afterwards whether anything was allocated on the host.
LeakEvidenceSet collect_leak_evidence(const Trace& trace, const Selection& selection, bool* host_seen = nullptr);

}  // namespace cuheap
