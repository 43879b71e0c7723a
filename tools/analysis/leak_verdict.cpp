#include "tools/analysis/leak_verdict.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "tools/analysis/statistics.h"

namespace cuheap {
namespace {

constexpr std::size_t kGroups = 8;
constexpr std::size_t kGrowthGroups = 20;         // a growing leak needs more than a trend over eight
constexpr std::size_t kPersistentGroups = 7;
constexpr std::uint64_t kEnoughSurvivors = 10;
constexpr std::uint64_t kEnoughForGrowth = 60;
constexpr double kNearlyAll = 0.95;               // survive: then too little dies to tell a leak from a cache
constexpr double kLeastSpan = 0.30;               // of the run
constexpr double kLeastIdle = 0.10;               // of the run, where births were regular before
constexpr std::size_t kFlatWindows = 5;           // the last ones: five eighths of the run
constexpr double kSignificant = 0.05;
constexpr double kGrowthSignificant = 0.01;
constexpr std::size_t kEnoughMarks = 3;
constexpr std::size_t kEnoughCycles = 3;           // whole ones, after the first
constexpr std::size_t kPhasesNamed = 3;

std::string seconds_text(double s) {
  char text[48];
  if (s < 120) std::snprintf(text, sizeof text, "%.3g s", s);
  else if (s < 7200) std::snprintf(text, sizeof text, "%.0f min", s / 60);
  else std::snprintf(text, sizeof text, "%.1f h", s / 3600);
  return text;
}

/// Over so many of the last windows what is alive stays within a twentieth and does not rise.
bool is_level(const Levels& bytes, std::size_t windows) {
  const std::size_t from = kWindows - windows;
  const auto first = static_cast<std::ptrdiff_t>(from);
  const double most = *std::max_element(bytes.high.begin() + first, bytes.high.end());
  const double least = *std::min_element(bytes.low.begin() + first, bytes.low.end());
  return most > 0 && most - least <= 0.05 * most && bytes.low[kWindows - 1] - bytes.low[from] <= 0.01 * most &&
         bytes.high[kWindows - 1] - bytes.high[from] <= 0.01 * most;
}
std::size_t level_windows(const Levels& bytes) {
  std::size_t windows = 0;
  while (windows < kWindows && is_level(bytes, windows + 1)) ++windows;
  return windows;
}

/// A cache that is full: what is alive is level, while all of it was replaced.
bool is_flat(const Levels& bytes, std::uint64_t deaths, std::uint64_t live_count) {
  return deaths >= live_count && is_level(bytes, kFlatWindows);
}

class Judge {
 public:
  Judge(const LeakEvidence& e, const JudgeContext& c)
      : e_(e), c_(c), run_(static_cast<double>(std::max<std::uint64_t>(c.run.end_tick, 1))) {}

  LeakVerdict verdict() {
    describe();
    if (!decide_without_groups()) decide_by_groups();
    return v_;
  }

 private:
  // A verdict and its reason; true, so that steps can return it.
  bool is(Verdict verdict, std::string reason) {
    v_.verdict = verdict;
    v_.reason = std::move(reason);
    return true;
  }
  bool undecided(double more_ticks, const std::string& why) {
    // There is no more of a run that ended out of memory.
    if (c_.run.ran_out_ns != 0) return is(Verdict::Undecided, "the run ended out of memory too early to tell: " + why);
    v_.needs_seconds = std::max(0.0, more_ticks) * c_.run.seconds_per_tick();
    return is(Verdict::Undecided, v_.needs_seconds > 0 ? "needs about " + seconds_text(v_.needs_seconds) + " more: " + why : why);
  }

  void describe() {
    v_.site = e_.site;
    describe_phases();
    v_.device = e_.device;
    v_.process = e_.process;
    v_.size_low = e_.size_low;
    v_.size_high = e_.size_high;
    v_.live_bytes = e_.live_bytes;
    v_.live_count = e_.live_count;
    v_.births = e_.births;
    v_.mature_births = e_.mature_births;
    v_.survivors = e_.survivors.size();
    v_.residue_share = e_.mature_births == 0 ? 0 : static_cast<double>(v_.survivors) / static_cast<double>(e_.mature_births);
    if (e_.live_bytes != 0 && e_.live_taken > e_.live_bytes)
      v_.taken_per_byte = static_cast<double>(e_.live_taken) / static_cast<double>(e_.live_bytes);
    v_.longest_life_seconds = static_cast<double>(e_.longest_life) * c_.run.seconds_per_tick();
    group(kGroups);
  }

  /// What was judged as a whole, or together for its few births, is told by where its survivors come from.
  void describe_phases() {
    v_.phases_apart = !e_.phase.empty();
    if (v_.phases_apart) v_.phases = {e_.phase};
    v_.survivor_phases = e_.survivor_phases;
    const std::vector<PhaseSurvivors>& born_in = e_.survivor_phases;
    if (v_.phases_apart && e_.phase != kOtherPhasesName) return;
    if (born_in.empty() || born_in[0].phase == kOtherPhasesName) return;  // a name that says nothing
    if (!v_.phases_apart && born_in.size() == 1 && born_in[0].phase == kNoPhaseName) return;
    v_.phases.clear();
    v_.phases_of_survivors = true;
    for (const PhaseSurvivors& p : born_in) {
      if (v_.phases.size() < kPhasesNamed && p.phase != kOtherPhasesName) v_.phases.push_back(p.phase);
    }
  }

  void group(std::size_t groups) {
    v_.group_births.assign(groups, 0);
    v_.group_survivors.assign(groups, 0);
    v_.group_bytes.assign(groups, 0);
    v_.group_begin_ns.assign(groups, 0);
    if (e_.mature_births == 0) return;
    const std::uint64_t births = e_.mature_births;
    for (std::size_t g = 0; g < groups; ++g) {
      v_.group_births[g] = births * (g + 1) / groups - births * g / groups;
      v_.group_begin_ns[g] = birth_time(births * g / groups);
    }
    for (const Survivor& s : e_.survivors) {
      const std::size_t g = std::min<std::size_t>(static_cast<std::uint64_t>(s.ordinal) * groups / births, groups - 1);
      ++v_.group_survivors[g];
      v_.group_bytes[g] += s.bytes;
    }
  }

  // Between the births whose times were kept it is taken to be even.
  std::uint64_t birth_time(std::uint64_t ordinal) const {
    std::pair<std::uint64_t, std::uint64_t> before{0, e_.mature_first_ns}, after{e_.mature_births, mature_end_ns()};
    for (const auto& [o, t] : e_.birth_times) {
      if (o <= ordinal) before = {o, t};
      else if (o < after.first) after = {o, t};
    }
    if (after.first <= before.first || after.second <= before.second) return before.second;
    const double share = static_cast<double>(ordinal - before.first) / static_cast<double>(after.first - before.first);
    return before.second + static_cast<std::uint64_t>(share * static_cast<double>(after.second - before.second));
  }
  std::uint64_t mature_end_ns() const { return std::max(e_.mature_end_ns, e_.mature_last_ns); }
  std::uint64_t mature_end_tick() const { return std::max(e_.mature_end_tick, e_.mature_last_tick); }

  double idle() const { return run_ - static_cast<double>(e_.last_birth); }  // ticks since the last birth
  double born_span() const { return static_cast<double>(e_.mature_last_tick - e_.mature_first_tick); }
  bool births_stopped() const {
    const double gap = static_cast<double>(e_.last_birth - e_.first_birth) /
                       static_cast<double>(std::max<std::uint64_t>(e_.births_after_warm_up, 2) - 1);
    if (idle() > kLeastSpan * run_ && idle() > 3 * gap) return true;
    // Of births that came regularly a shorter silence says as much; two births in one step are no gap.
    return e_.births_after_warm_up >= kEnoughSurvivors && idle() > kLeastIdle * run_ && idle() > 5 * gap &&
           idle() > 2 * static_cast<double>(e_.longest_gap);
  }
  bool flat() const {
    return is_flat(e_.bytes, e_.deaths, e_.live_count) || is_flat(c_.sizes.bytes, c_.sizes.deaths, c_.sizes.live_count);
  }

  // Steps 1 to 3 and 7: what needs no groups.
  bool decide_without_groups() {
    if (e_.births_after_warm_up == 0) {
      return e_.live_count == 0 ? is(Verdict::None, "nothing of it lives") : is(Verdict::WarmUp, "allocated during the warm-up and kept");
    }
    if (e_.live_after_warm_up == 0) return is(Verdict::None, "everything born after the warm-up died");
    if (e_.live_after_warm_up <= 2) return is(Verdict::Bounded, "at most two of its blocks live");
    if (e_.deaths == 0) return nothing_died();
    return too_little();
  }

  bool nothing_died() {
    if (births_stopped()) return is(Verdict::Plateau, "nothing was freed, but births stopped");
    const double gap = run_ / static_cast<double>(e_.births_after_warm_up);
    if (e_.mature_births < kEnoughSurvivors) {
      if (leaks_by_cycles()) return true;
      return undecided(gap * static_cast<double>(kEnoughSurvivors - e_.mature_births), "too few blocks were born");
    }
    if (born_span() < kLeastSpan * run_) {
      return undecided(span_missing(), "its births span too little of the run");
    }
    return accumulates("nothing was ever freed");
  }

  bool accumulates(const std::string& why) {
    claim_rate();
    const double idle = static_cast<double>(c_.run.idle_ns) / 1e9;
    const bool ended_early = c_.run.clock.kind != ClockKind::Marks && idle > kLeastSpan * run_ * c_.run.seconds_per_tick();
    const std::string silence = ended_early ? "; the last " + seconds_text(idle) + " of the process were without an allocation" : "";
    return is(Verdict::Accumulates, why + ": a leak, or a cache that outlives this run" + silence);
  }

  // Ticks until what is alive has been level for long enough to be a full cache, if it stays so; infinite if it is not level.
  double until_flat(const Levels& bytes, std::uint64_t deaths, std::uint64_t live_count) const {
    const std::size_t level = level_windows(bytes);
    if (level == 0) return HUGE_VAL;
    constexpr double kBorn = static_cast<double>(kWindows - kFlatWindows) / kWindows;
    const double begin = static_cast<double>(c_.run.clock.warm_up_ticks), span = run_ - begin;
    const double since = run_ - span * static_cast<double>(level) / kWindows;
    // The windows of the longer run begin where its warm-up ends, at the same share of it.
    const double share = begin / run_, later = since / (share + (1 - share) * kBorn) - run_;
    const double per_tick = static_cast<double>(e_.births_after_warm_up) / std::max(span, 1.0);
    const double replaced = deaths >= live_count ? 0 : static_cast<double>(live_count - deaths) / std::max(per_tick, 1e-9);
    return std::max({later, replaced, 0.01 * run_});
  }

  bool lives_too_long() {
    // T - 3 L - 0.1 T >= 0.3 T
    const double more = 5 * static_cast<double>(e_.longest_life) - run_;
    const double full = std::min(until_flat(e_.bytes, e_.deaths, e_.live_count),
                                 until_flat(c_.sizes.bytes, c_.sizes.deaths, c_.sizes.live_count));
    if (full < more) return undecided(full, "what is alive has stopped growing; if it stays level, it is a full cache");
    const std::string lived = "blocks of this site lived up to " + seconds_text(v_.longest_life_seconds);
    if (static_cast<double>(e_.longest_life) * 3 <= run_) return undecided(more, lived + ", too long for this run");
    return undecided(more, lived + ", over a third of this run; where lives grow with the run, as in a cache that is hit, "
                                   "even a longer run will not decide");
  }

  // What would have to be added so that births span enough, if they go on.
  double span_missing() const {
    return std::max(run_ * 0.01, (kLeastSpan * run_ - born_span()) / (1 - kLeastSpan));
  }

  bool too_little() {
    const double begin = static_cast<double>(c_.run.clock.warm_up_ticks);
    const double window = run_ - static_cast<double>(e_.maturity) - begin;
    if (window < kLeastSpan * run_) {
      if (flat()) return is(Verdict::Plateau, "full: as much dies as is born, and what is alive has not grown for most of the run");
      return lives_too_long();
    }
    if (v_.survivors <= 2 && queue_grows())
      return is(Verdict::Backlog, "all of it dies, but ever more is alive at a time: a queue or the load grows");
    if (v_.survivors == 0) return is(Verdict::None, "no block that was old enough to judge lives");
    if (births_stopped()) return is(Verdict::Plateau, "survivors stay, but births stopped");
    if (v_.survivors <= 2) return is(Verdict::Bounded, "at most two of the blocks old enough to judge live");
    if (v_.survivors < kEnoughSurvivors) {
      if (leaks_by_cycles()) return true;
      return undecided(
          window * static_cast<double>(kEnoughSurvivors - v_.survivors) / static_cast<double>(v_.survivors),
          "too few survivors");
    }
    if (born_span() < kLeastSpan * run_) return undecided(span_missing(), "its births span too little of the run");
    return false;
  }

  // What survives of each cycle but the first, which is the warm-up, and the last, which may still be under way.
  std::vector<double> bytes_by_cycle() const {
    const std::vector<std::uint64_t>& starts = c_.run.cycle_ns;
    std::vector<double> bytes(starts.size() - std::min<std::size_t>(starts.size(), 2));
    for (const Survivor& s : e_.survivors) {
      const auto next = std::upper_bound(starts.begin(), starts.end(), s.time_ns);
      const std::ptrdiff_t cycle = next - starts.begin() - 1;  // -1: before the first
      if (cycle >= 1 && static_cast<std::size_t>(cycle) <= bytes.size())
        bytes[static_cast<std::size_t>(cycle) - 1] += static_cast<double>(s.bytes);
    }
    return bytes;
  }

  // The whole cycles between the warm-up and the youngest birth that counts.
  bool claim_per_cycle() {
    const std::vector<std::uint64_t>& starts = c_.run.cycle_ns;
    const std::uint64_t from = c_.run.ns_at(c_.run.clock.warm_up_ticks);
    const std::vector<double> bytes = bytes_by_cycle();
    double sum = 0;
    std::size_t cycles = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (starts[i + 1] < from || starts[i + 2] > mature_end_ns()) continue;
      sum += bytes[i];
      ++cycles;
    }
    if (cycles < kEnoughCycles || sum == 0) return false;
    v_.windows = cycles;
    v_.window = c_.cycle_name;
    v_.bytes_per_window = sum / static_cast<double>(cycles);
    return true;
  }

  // A handful of large, regular events leave too few blocks for groups; their marks say what belongs together. The first
  // cycle is the warm-up, the last one may still be under way.
  bool leaks_by_cycles() {
    const std::vector<std::uint64_t>& starts = c_.run.cycle_ns;
    if (starts.size() < kEnoughCycles + 2 || late_deaths_among_oldest()) return false;
    std::vector<double> bytes = bytes_by_cycle();
    // Cycles too young to judge say nothing yet.
    while (!bytes.empty() && starts[bytes.size()] > e_.mature_last_ns) bytes.pop_back();
    if (bytes.size() < kEnoughCycles || std::any_of(bytes.begin(), bytes.end(), [](double b) { return b == 0; })) return false;
    const double seconds = static_cast<double>(starts[bytes.size() + 1] - starts[1]) / 1e9;
    if (seconds <= 0) return false;
    double sum = 0;
    for (const double b : bytes) sum += b;
    std::vector<double> spans;
    for (std::size_t i = 0; i < bytes.size(); ++i) spans.push_back(static_cast<double>(starts[i + 2] - starts[i + 1]) / 1e9);
    v_.bytes_per_second = sum / seconds;
    v_.ci95 = bootstrap_rate(bytes, spans, c_.bootstrap_samples);
    v_.windows = bytes.size();
    v_.window = c_.cycle_name;
    v_.bytes_per_window = sum / static_cast<double>(bytes.size());
    v_.p_value = mean_above_zero(bytes);
    return is(Verdict::Leak, "every " + c_.cycle_name + " leaves something behind that never dies");
  }

  // Steps 4 to 6.
  bool decide_by_groups() {
    const std::vector<double> residue(v_.group_survivors.begin(), v_.group_survivors.end());
    const TrendTest trend = kendall(residue);
    v_.p_value = mean_above_zero(residue);
    if (v_.residue_share >= kNearlyAll && !flat() && !late_deaths_among_oldest()) return accumulates("next to nothing was ever freed");
    if (trend.rising < kSignificant && !c_.trend_is_chance) {
      if (is_growing()) return true;
      return is(Verdict::Backlog, "the younger, the more survive: blocks are still on their way out");
    }
    if (trend.falling < kSignificant && !c_.trend_is_chance)
      return is(Verdict::Filling, "the younger, the fewer survive: a cache that fills");
    const std::size_t persistent = static_cast<std::size_t>(std::count_if(residue.begin(), residue.end(), [](double r) { return r > 0; }));
    if (persistent < kPersistentGroups) return undecided(run_ * 0.5, "survivors come in bouts");
    if (guarded()) return true;
    claim_rate();
    if (v_.ci95[0] <= 0) return undecided(run_ * 0.5, "the rate may be zero");
    return is(Verdict::Leak, "an equal share of every age group stays, and none of the old ones dies");
  }

  bool is_growing() {
    if (e_.survivors.size() < kEnoughForGrowth || late_deaths_among_oldest()) return false;
    group(kGrowthGroups);
    const std::vector<double> residue(v_.group_survivors.begin(), v_.group_survivors.end());
    const std::size_t persistent = static_cast<std::size_t>(std::count_if(residue.begin(), residue.end(), [](double r) { return r > 0; }));
    if (kendall(residue).rising < kGrowthSignificant && persistent + 1 >= kGrowthGroups && low_water_rises()) {
      claim_rate();
      if (v_.ci95[0] > 0)
        return is(Verdict::GrowingLeak,
                  "every age group leaves something, the younger the more, and none of the old ones dies");
    }
    group(kGroups);
    v_.bytes_per_second = 0;
    v_.ci95 = {};
    return false;
  }

  bool guarded() {
    if (flat()) return is(Verdict::Plateau, "full: as much dies as is born, and what is alive has not grown for most of the run");
    if (late_deaths_among_oldest()) return undecided(run_ * 0.5, "old survivors were still being freed in the last quarter");
    if (!low_water_rises()) {
      const bool flat = e_.low_water[kWindows - 1] <= e_.low_water[0];
      return flat ? is(Verdict::Plateau, "the fewest blocks alive at a time do not become more")
                  : undecided(run_ * 0.5, "the fewest blocks alive at a time do not clearly become more");
    }
    if (e_.deaths_on_marks * 2 > e_.deaths) {
      const std::uint64_t from = e_.mature_first_tick, to = c_.run.end_tick - e_.maturity;
      const auto& marks = c_.run.rare_marks;
      const auto inside = std::count_if(marks.begin(), marks.end(), [&](std::uint64_t t) { return t >= from && t <= to; });
      if (static_cast<std::size_t>(inside) < kEnoughMarks) return undecided(run_, "it is freed at marks, and too few of them came by");
    }
    return false;
  }

  // Did any of the oldest third of what was alive at three quarters of the run die since?
  bool late_deaths_among_oldest() const {
    if (e_.late_deaths == 0) return false;
    const auto older = std::lower_bound(e_.survivors.begin(), e_.survivors.end(), e_.oldest_late_death,
                                        [](const Survivor& s, std::uint32_t ordinal) { return s.ordinal < ordinal; });
    const auto young = std::lower_bound(e_.survivors.begin(), e_.survivors.end(), e_.births_by_last_quarter,
                                        [](const Survivor& s, std::uint32_t ordinal) { return s.ordinal < ordinal; });
    const std::uint64_t rank = static_cast<std::uint64_t>(older - e_.survivors.begin());
    const std::uint64_t alive = static_cast<std::uint64_t>(young - e_.survivors.begin()) + e_.late_deaths;
    return rank * 3 < alive;
  }

  bool low_water_rises() const {
    return kendall(e_.low_water).rising < kSignificant && e_.low_water[kWindows - 1] > e_.low_water[0];
  }

  bool queue_grows() const {
    const double first = e_.low_water[0], last = e_.low_water[kWindows - 1];
    return kendall(e_.low_water).rising < kGrowthSignificant && last >= 2 * first + static_cast<double>(kEnoughSurvivors);
  }

  void claim_rate() {
    const std::vector<double> bytes(v_.group_bytes.begin(), v_.group_bytes.end());
    std::vector<double> spans;
    for (std::size_t g = 0; g < bytes.size(); ++g) {
      const std::uint64_t end = g + 1 < bytes.size() ? v_.group_begin_ns[g + 1] : mature_end_ns();
      spans.push_back(static_cast<double>(end - std::min(end, v_.group_begin_ns[g])) / 1e9);
    }
    double sum = 0;
    for (const double b : bytes) sum += b;
    const double seconds = static_cast<double>(mature_end_ns() - e_.mature_first_ns) / 1e9;
    if (seconds <= 0 || sum <= 0) return;
    v_.bytes_per_second = sum / seconds;
    v_.ci95 = bootstrap_rate(bytes, spans, c_.bootstrap_samples);
    if (c_.run.clock.kind == ClockKind::Marks) {
      v_.windows = std::max<std::uint64_t>(mature_end_tick() - e_.mature_first_tick, 1);
      v_.window = c_.clock_name;
    } else if (claim_per_cycle()) {
      return;
    } else {
      v_.windows = bytes.size();
      v_.window_is_births = true;  // put in words when the size classes of the site are together
    }
    v_.bytes_per_window = sum / static_cast<double>(v_.windows);
  }

  const LeakEvidence& e_;
  const JudgeContext& c_;
  double run_;
  LeakVerdict v_;
};

}  // namespace

LeakVerdict judge(const LeakEvidence& evidence, const JudgeContext& context) { return Judge(evidence, context).verdict(); }

bool is_ratchet(const SiteSizes& s, const DeviceRun& device) {
  std::array<double, kWindows> mean{};
  for (std::size_t w = 0; w < kWindows; ++w) {
    if (s.window_births[w] < 3) return false;
    mean[w] = s.window_bytes[w] / static_cast<double>(s.window_births[w]);
  }
  // From window to window without exception: many sites are looked at, and a mere trend turns up by chance.
  const bool sizes_rise = std::adjacent_find(mean.begin(), mean.end(), std::greater_equal<>()) == mean.end() &&
                          mean[kWindows - 1] > 1.1 * mean[0];
  const bool mostly_freed = s.deaths * 10 >= s.births * 9;
  const std::span<const double> after_first = std::span(s.low_water).subspan(1);
  const bool live_flat = kendall(after_first).rising >= 0.05 || s.low_water[kWindows - 1] <= s.low_water[1] + 2;
  // Held grows with live, too; what a ratchet leaves behind is held and not live.
  const bool idle_grows = kendall(device.idle.low).rising < 0.05 &&
                          device.idle.low[kWindows - 1] > device.idle.low[0] + mean[kWindows - 1] - mean[0];
  return sizes_rise && mostly_freed && live_flat && idle_grows;
}

}  // namespace cuheap
