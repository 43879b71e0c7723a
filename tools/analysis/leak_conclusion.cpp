#include "tools/analysis/leak_conclusion.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "tools/analysis/leak_verdict.h"
#include "tools/analysis/statistics.h"

namespace cuheap {
namespace {

constexpr double kFalseDiscoveries = 0.05;
constexpr double kContradiction = 0.01;  // a contradiction picks out chance trends: together they must be clearer

std::string clock_name(const LeakClock& clock) {
  switch (clock.kind) {
    case ClockKind::Marks: return clock.label;
    case ClockKind::Allocations: return "allocations";
    case ClockKind::Time: break;
  }
  return "seconds";
}

bool claims_leak(Verdict v) { return v == Verdict::Leak || v == Verdict::GrowingLeak; }

/// Many sites were looked at: some look like leaks by chance. Counted are all that had enough survivors for the tests.
void correct_for_many_sites(std::vector<LeakVerdict>& verdicts) {
  std::vector<double> p;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i].p_value >= 1) continue;
    which.push_back(i);
    p.push_back(verdicts[i].p_value);
  }
  const std::vector<bool> stands = benjamini_hochberg(p, kFalseDiscoveries);
  for (std::size_t i = 0; i < which.size(); ++i) {
    LeakVerdict& v = verdicts[which[i]];
    if (stands[i] || !claims_leak(v.verdict)) continue;
    v.verdict = Verdict::Undecided;
    v.reason = "not significant among all sites";
    v.bytes_per_second = v.bytes_per_window = 0;
    v.ci95 = {};
  }
}

void add_groups(std::vector<std::uint64_t>& to, const std::vector<std::uint64_t>& from) {
  for (std::size_t i = 0; i < to.size() && i < from.size(); ++i) to[i] += from[i];
}

void add_phases(std::vector<PhaseSurvivors>& to, const std::vector<PhaseSurvivors>& from) {
  for (const PhaseSurvivors& more : from) {
    const auto same = std::find_if(to.begin(), to.end(), [&](const PhaseSurvivors& p) { return p.phase == more.phase; });
    if (same == to.end()) to.push_back(more);
    else same->count += more.count;
  }
  sort_most_first(to);
}

using SiteKey = std::tuple<SiteId, std::uint16_t, std::int16_t>;

/// The phases and size classes of one site that came to the same verdict are one line.
void merge(LeakVerdict& to, const LeakVerdict& from) {
  for (const std::string& phase : from.phases) {
    if (std::find(to.phases.begin(), to.phases.end(), phase) == to.phases.end()) to.phases.push_back(phase);
  }
  to.phases_of_survivors = to.phases_of_survivors || from.phases_of_survivors;
  add_phases(to.survivor_phases, from.survivor_phases);
  to.size_low = std::min(to.size_low, from.size_low);
  to.size_high = std::max(to.size_high, from.size_high);
  // Windows of another kind, or of another number of births, do not add up: then what both leak per second tells.
  if (to.window == from.window && !to.window_is_births) to.bytes_per_window += from.bytes_per_window;
  else if (to.bytes_per_second > 0) to.bytes_per_window *= 1 + from.bytes_per_second / to.bytes_per_second;
  if (const double both = to.bytes_per_second + from.bytes_per_second; both > 0)
    to.taken_per_byte = (to.taken_per_byte * to.bytes_per_second + from.taken_per_byte * from.bytes_per_second) / both;
  to.bytes_per_second += from.bytes_per_second;
  to.ci95 = {to.ci95[0] + from.ci95[0], to.ci95[1] + from.ci95[1]};
  to.windows = std::max(to.windows, from.windows);
  to.live_bytes += from.live_bytes;
  to.live_count += from.live_count;
  to.births += from.births;
  to.mature_births += from.mature_births;
  to.survivors += from.survivors;
  to.residue_share = to.mature_births == 0 ? 0 : static_cast<double>(to.survivors) / static_cast<double>(to.mature_births);
  if (to.group_births.size() == from.group_births.size()) {
    add_groups(to.group_births, from.group_births);
    add_groups(to.group_survivors, from.group_survivors);
    add_groups(to.group_bytes, from.group_bytes);
  }
  to.longest_life_seconds = std::max(to.longest_life_seconds, from.longest_life_seconds);
  to.needs_seconds = std::max(to.needs_seconds, from.needs_seconds);
}

/// A window of births: so many of the blocks judged, all their size classes together, and what stayed of them.
void describe_births(LeakVerdict& v, std::uint64_t births_of_site) {
  if (!v.window_is_births || v.windows == 0) return;
  const std::uint64_t births = std::max<std::uint64_t>(v.mature_births / v.windows, 1);
  v.window = std::to_string(births) + (births == 1 ? " birth" : " births") +
             (v.births == births_of_site ? "" : v.phases_apart ? " of this kind" : " of this size") + " at this site";
  double sum = 0;
  for (const std::uint64_t b : v.group_bytes) sum += static_cast<double>(b);
  if (v.group_bytes.size() == v.windows) v.bytes_per_window = sum / static_cast<double>(v.windows);
}

std::vector<LeakVerdict> merged(std::vector<LeakVerdict> verdicts) {
  std::stable_sort(verdicts.begin(), verdicts.end(),
                   [](const LeakVerdict& a, const LeakVerdict& b) { return a.live_bytes > b.live_bytes; });
  std::map<std::tuple<SiteId, std::uint16_t, std::int16_t, Verdict>, std::size_t> where;
  std::vector<LeakVerdict> result;
  for (LeakVerdict& v : verdicts) {
    const auto [it, is_new] = where.try_emplace({v.site, v.process, v.device, v.verdict}, result.size());
    if (is_new) result.push_back(std::move(v));
    else merge(result[it->second], v);
  }
  return result;
}

void add_ratchets(const LeakEvidenceSet& evidence, std::vector<LeakVerdict>& verdicts) {
  std::set<std::tuple<SiteId, std::uint16_t, std::int16_t>> accused;
  for (const LeakVerdict& v : verdicts) {
    if (claims_leak(v.verdict) || v.verdict == Verdict::Accumulates) accused.insert({v.site, v.process, v.device});
  }
  for (const SiteSizes& s : evidence.sites) {
    if (accused.contains({s.site, s.process, s.device})) continue;
    const auto device = std::find_if(evidence.devices.begin(), evidence.devices.end(),
                                     [&](const DeviceRun& d) { return d.device == s.device; });
    if (device == evidence.devices.end() || !is_ratchet(s, *device)) continue;
    LeakVerdict v;
    v.verdict = Verdict::Ratchet;
    v.site = s.site;
    v.device = s.device;
    v.process = s.process;
    v.births = s.births;
    v.live_bytes = s.live_bytes;
    v.live_count = s.live_count;
    v.windows = kWindows;
    v.window = "an eighth of the run";
    const ProcessRun& run = evidence.processes[s.process];
    const double grown = device->idle.low[kWindows - 1] - device->idle.low[0];
    const double seconds = run.seconds_per_tick() * static_cast<double>(run.end_tick - run.clock.warm_up_ticks) * (kWindows - 1) / kWindows;
    v.bytes_per_window = grown / (kWindows - 1);
    v.bytes_per_second = seconds > 0 ? grown / seconds : 0;
    v.ci95 = {0, v.bytes_per_second};  // what the floor's idle memory grew by: an upper bound for one site
    v.reason = "requests grow a little each time, so what was freed does not fit the next; live stays flat, idle memory grows";
    verdicts.push_back(std::move(v));
  }
}

/// Everything that leaks on a device shares its free memory. What fills it are the driver's granules.
void add_time_to_oom(const LeakEvidenceSet& evidence, std::vector<LeakVerdict>& verdicts) {
  for (const DeviceRun& d : evidence.devices) {
    if (d.device < 0) continue;
    for (LeakVerdict& v : verdicts) if (v.device == d.device) v.ran_out_ns = d.ran_out_ns;
    if (d.total == 0 || d.ran_out_ns != 0) continue;
    const double free = static_cast<double>(d.total - std::min(d.total, std::max(d.held_physical, d.driver_used)));
    double rate = 0;
    std::array<double, 2> interval{};
    for (const LeakVerdict& v : verdicts) {
      if (v.device != d.device || !claims_leak(v.verdict)) continue;
      rate += v.bytes_per_second * v.taken_per_byte;
      interval = {interval[0] + v.ci95[0] * v.taken_per_byte, interval[1] + v.ci95[1] * v.taken_per_byte};
    }
    for (LeakVerdict& v : verdicts) {
      const bool leaks = claims_leak(v.verdict), accumulates = v.verdict == Verdict::Accumulates;
      if (v.device != d.device || (!leaks && !accumulates)) continue;
      // What only accumulates stands by itself: it may yet be a cache, and the time beside its rate is that of its rate.
      const double taken = accumulates ? v.bytes_per_second * v.taken_per_byte : rate;
      if (taken <= 0) continue;
      v.oom_in_seconds = free / taken;
      const double low = accumulates ? v.ci95[0] * v.taken_per_byte : interval[0];
      const double high = accumulates ? v.ci95[1] * v.taken_per_byte : interval[1];
      v.oom_interval = {high > 0 ? free / high : *v.oom_in_seconds, low > 0 ? free / low : HUGE_VAL};
    }
  }
}

using PhaseKey = std::tuple<SiteId, std::uint16_t, std::int16_t, std::string>;
struct Judged {
  const LeakEvidence* key;
  JudgeContext context;
  std::size_t verdict;  // its place
};

/// Where one size class leaks and another seems to fill or to drain, one of the two trends may be chance: the survivors of all of
/// them together decide. Nobody is accused by this whose site is not accused already.
void reconcile(const std::vector<Judged>& classes, std::vector<LeakVerdict>& verdicts) {
  const auto trends = [](const LeakVerdict& v) { return v.verdict == Verdict::Filling || v.verdict == Verdict::Backlog; };
  std::vector<double> together;
  bool leaks = false, contradicts = false;
  for (const Judged& j : classes) {
    const LeakVerdict& v = verdicts[j.verdict];
    if (v.verdict != Verdict::Leak && !trends(v)) continue;
    (v.verdict == Verdict::Leak ? leaks : contradicts) = true;
    together.resize(std::max(together.size(), v.group_survivors.size()));
    for (std::size_t g = 0; g < v.group_survivors.size(); ++g) together[g] += static_cast<double>(v.group_survivors[g]);
  }
  if (!leaks || !contradicts) return;
  const TrendTest trend = kendall(together);
  if (trend.rising < kContradiction || trend.falling < kContradiction) return;
  for (const Judged& j : classes) {
    if (!trends(verdicts[j.verdict])) continue;
    JudgeContext context = j.context;
    context.trend_is_chance = true;
    LeakVerdict again = judge(*j.key, context);
    if (again.verdict == Verdict::Leak) verdicts[j.verdict] = std::move(again);
  }
}

/// The verdicts of one evidence set; none are left out yet.
std::vector<LeakVerdict> judge_all(const LeakEvidenceSet& evidence, std::uint64_t bootstrap_samples,
                                   const std::map<SiteKey, const SiteSizes*>& sizes) {
  std::vector<LeakVerdict> verdicts;
  std::map<PhaseKey, std::vector<Judged>> by_phase;
  for (const LeakEvidence& key : evidence.keys) {
    const auto of_site = sizes.find({key.site, key.process, key.device});
    if (of_site == sizes.end()) continue;  // nothing was born here
    const ProcessRun& run = evidence.processes[key.process];
    const JudgeContext context{run, *of_site->second, clock_name(run.clock), run.cycle_label, bootstrap_samples};
    by_phase[{key.site, key.process, key.device, key.phase}].push_back({&key, context, verdicts.size()});
    verdicts.push_back(judge(key, context));
  }
  for (const auto& [phase, classes] : by_phase) reconcile(classes, verdicts);
  return verdicts;
}

std::map<SiteKey, const SiteSizes*> sizes_by_site(const LeakEvidenceSet& evidence) {
  std::map<SiteKey, const SiteSizes*> sizes;
  for (const SiteSizes& s : evidence.sites) sizes[{s.site, s.process, s.device}] = &s;
  return sizes;
}

}  // namespace

std::vector<LeakVerdict> conclude(const LeakEvidenceSet& evidence, std::uint64_t bootstrap_samples) {
  const std::map<SiteKey, const SiteSizes*> sizes = sizes_by_site(evidence);
  std::vector<LeakVerdict> verdicts = judge_all(evidence, bootstrap_samples, sizes);
  correct_for_many_sites(verdicts);
  verdicts = merged(std::move(verdicts));
  for (LeakVerdict& v : verdicts) describe_births(v, sizes.at({v.site, v.process, v.device})->births);
  add_ratchets(evidence, verdicts);
  add_time_to_oom(evidence, verdicts);
  for (LeakVerdict& v : verdicts) v.floor = evidence.floor;
  return verdicts;
}

}  // namespace cuheap
