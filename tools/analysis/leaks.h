// leaks: the verdict on every site: does it leak, at what rate, until when. Procedure: docs/leaks.md; it works by what
// survives of what was born, never by the trend of a curve. Three passes, memory bounded by sites and the live set.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/analysis/replay.h"

namespace cuheap {

enum class Verdict : std::uint8_t {
  None, WarmUp, Filling, Bounded, Plateau, Backlog, Ratchet, Leak, GrowingLeak, Accumulates, Undecided,
};
/// As in --json: "leak", "growing_leak", "warm_up" ...
const char* verdict_name(Verdict verdict);

enum class ClockKind : std::uint8_t { Marks, Allocations, Time };

struct PhaseSurvivors {
  std::string phase;
  std::uint64_t count = 0;
};

struct LeakVerdict {
  Verdict verdict = Verdict::None;
  Floor floor = Floor::None;
  SiteId site = 0;
  std::vector<std::string> phases;            // that were judged alone; else those that most survivors were born in, up to three
  bool phases_of_survivors = false;           // the latter
  bool phases_apart = false;                  // the site's other phases were judged apart from this
  std::vector<PhaseSurvivors> survivor_phases;  // of all survivors, most first; empty where the run has no phases
  std::int16_t device = 0;
  std::uint16_t process = 0;
  std::uint64_t size_low = 0;                 // smallest and largest block of the classes judged together
  std::uint64_t size_high = 0;
  double bytes_per_second = 0;                // 0 where no rate is claimed
  std::array<double, 2> ci95{};               // of bytes_per_second
  double bytes_per_window = 0;                // window: a mark of the clock, or a birth group
  std::uint64_t windows = 0;
  std::string window;                         // what one is: "step", "52 births at this site"
  bool window_is_births = false;
  std::uint64_t live_bytes = 0;               // at the end
  std::uint64_t live_count = 0;
  std::uint64_t births = 0;
  std::uint64_t mature_births = 0;
  std::uint64_t survivors = 0;                // of the mature births
  double residue_share = 0;                   // survivors / mature births
  std::vector<std::uint64_t> group_births;    // oldest first
  std::vector<std::uint64_t> group_survivors;
  std::vector<std::uint64_t> group_bytes;     // surviving bytes
  std::vector<std::uint64_t> group_begin_ns;  // birth of each group's first block
  double longest_life_seconds = 0;            // of the completed ones
  double p_value = 1;                         // that the residue is nothing; before the correction over sites
  std::optional<double> oom_in_seconds;       // by all leaks of the device together; Accumulates: by itself, without them
  std::array<double, 2> oom_interval{};       // with the upper and the lower rates; only with oom_in_seconds
  std::uint64_t ran_out_ns = 0;               // instead of oom_in_seconds: the run ended out of the device's memory, then
  double taken_per_byte = 1;                  // what the driver takes for a byte of it, in granules
  double needs_seconds = 0;                   // Undecided: so much longer a run may decide; 0 if that is not what is missing
  std::string reason;                         // one clause that says what decided, e.g. "needs about 42 s more"
};

struct LeakClock {
  std::uint16_t process = 0;
  ClockKind kind = ClockKind::Allocations;
  std::string label;                          // of the mark or phase, for ClockKind::Marks; "epoch" for epoch 1, epoch 2 ...
  std::uint64_t ticks = 0;                    // over the whole run
  std::uint64_t warm_up_ticks = 0;            // dropped
};

struct LeakReport {
  Floor floor = Floor::None;                  // judged on the devices; the host's memory on the allocation floor
  std::vector<LeakClock> clocks;              // a clock a process
  std::vector<LeakVerdict> verdicts;          // worst first; sites judged None are left out
  std::uint64_t sites_judged = 0;
  std::uint64_t freed_late_bytes = 0;         // only after the last allocation, though older than 5 % of the run
  std::uint64_t freed_late_blocks = 0;
};

struct LeakOptions {
  Selection selection;
  std::uint64_t bootstrap_samples = 2000;
  bool keep_none = false;                     // also report sites judged None
};

LeakReport leaks(const Trace& trace, const LeakOptions& options = {});

}  // namespace cuheap
