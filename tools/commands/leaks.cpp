// cuheap leaks TRACE: a verdict for every site, the worst first: does it leak, how fast, until when.
#include "tools/analysis/leaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tools/analysis/short_name.h"
#include "tools/commands/answers.h"
#include "tools/commands/arguments.h"
#include "tools/commands/command.h"
#include "tools/commands/progress.h"
#include "tools/commands/selection.h"

namespace cuheap {
namespace {

constexpr std::size_t kShown = 15;
constexpr std::size_t kPhasesShown = 3;

const char* clock_name(ClockKind kind) {
  switch (kind) {
    case ClockKind::Marks:
      return "marks";
    case ClockKind::Allocations:
      return "allocations";
    case ClockKind::Time:
      break;
  }
  return "time";
}

bool has_rate(const LeakVerdict& v) {
  return v.bytes_per_second != 0;
}

Json phases_json(const LeakVerdict& v) {
  Json json = Json::array();
  for (const std::string& phase : v.phases) json.push_back(printable(phase));
  return json;
}

Json survivor_phases_json(const LeakVerdict& v) {
  Json json = Json::array();
  for (const PhaseSurvivors& p : v.survivor_phases) json.push_back({{"phase", printable(p.phase)}, {"count", p.count}});
  return json;
}

Json verdict_json(const Trace& trace, const LeakVerdict& v, const std::string& name) {
  return {{"verdict", verdict_name(v.verdict)},
          {"floor", floor_name(v.floor)},
          {"site", site_json(trace, v.site)},
          {"phases", phases_json(v)},
          {"survivor_phases", survivor_phases_json(v)},
          {"device", v.device},
          {"process", v.process},
          {"bytes_per_second", v.bytes_per_second},
          {"ci95", {v.ci95[0], v.ci95[1]}},
          {"bytes_per_window", v.bytes_per_window},
          {"windows", v.windows},
          {"window", printable(v.window)},
          {"live_bytes", v.live_bytes},
          {"live_count", v.live_count},
          {"residue_share", v.residue_share},
          {"oom_in_seconds", v.oom_in_seconds ? Json(*v.oom_in_seconds) : Json(nullptr)},
          {"ran_out_at_ns", v.ran_out_ns == 0 ? Json(nullptr) : Json(since_start(trace, v.ran_out_ns))},
          {"oom_interval", v.oom_in_seconds ? Json{v.oom_interval[0], v.oom_interval[1]} : Json(nullptr)},
          {"births", v.births},
          {"mature_births", v.mature_births},
          {"survivors", v.survivors},
          {"size_low", v.size_low},
          {"size_high", v.size_high},
          {"reason", printable(v.reason)},
          {"name", printable(name)}};
}

/// Told apart where sites share a name; two verdicts on one site share theirs.
std::vector<std::string> names_of(const Trace& trace, const LeakReport& report) {
  std::vector<SiteId> sites;
  for (const LeakVerdict& v : report.verdicts)
    if (std::find(sites.begin(), sites.end(), v.site) == sites.end()) sites.push_back(v.site);
  const std::vector<std::string> of_sites = short_names(trace, sites);
  std::vector<std::string> names;
  for (const LeakVerdict& v : report.verdicts)
    names.push_back(of_sites[static_cast<std::size_t>(std::find(sites.begin(), sites.end(), v.site) - sites.begin())]);
  return names;
}

Json leaks_json(const Trace& trace, const LeakReport& report) {
  Json json = json_head(trace);
  json["floor"] = floor_name(report.floor);
  json["sites_judged"] = report.sites_judged;
  json["freed_late_bytes"] = report.freed_late_bytes;
  json["freed_late_blocks"] = report.freed_late_blocks;
  json["clocks"] = Json::array();
  for (const LeakClock& clock : report.clocks) {
    json["clocks"].push_back({{"process", clock.process},
                              {"kind", clock_name(clock.kind)},
                              {"name", printable(clock.label)},
                              {"ticks", clock.ticks},
                              {"warm_up_ticks", clock.warm_up_ticks}});
  }
  json["verdicts"] = Json::array();
  const std::vector<std::string> names = names_of(trace, report);
  for (std::size_t i = 0; i < names.size(); ++i)
    json["verdicts"].push_back(verdict_json(trace, report.verdicts[i], names[i]));
  return json;
}

std::string rate_text(double bytes_per_second) {
  return size_text(static_cast<std::uint64_t>(bytes_per_second < 0 ? 0 : bytes_per_second)) + "/s";
}

void print_frame(const Frame& frame) {
  const std::string place = frame.file.empty() ? frame.module : fmt::format("{}:{}", frame.file, frame.line);
  fmt::print("      {}{}\n", printable(function_name(frame)), place.empty() ? "" : "  " + printable(place));
}

void print_whole_stack(const Trace& trace, SiteId site) {
  for (const Frame& frame : trace.stack(site)) print_frame(frame);
}

/// What says why: a stack in a framework begins with a dozen frames of its allocator.
void print_stack(const Trace& trace, SiteId site) {
  constexpr std::size_t kFrames = 12;
  const std::vector<Frame> stack = trace.stack(site);
  const bool has_own = !std::all_of(stack.begin(), stack.end(), is_plumbing);
  std::size_t at = 0, shown = 0, between = 0;
  for (; at < stack.size() && shown < kFrames; ++at) {
    const Frame& frame = stack[at];
    if (has_own && is_plumbing(frame)) {
      ++between;
      continue;
    }
    if (between != 0) fmt::print("      ... {} of allocators, frameworks and runtimes\n", between);
    between = 0;
    ++shown;
    print_frame(frame);
  }
  if (const std::size_t rest = between + stack.size() - at; rest != 0)
    fmt::print("      ... {} more; --stacks has all\n", rest);
}

/// Of what was judged as a whole: "; born in serve" or "; 20 born in serve, 6 in load".
std::string survivors_text(const LeakVerdict& v) {
  const std::vector<PhaseSurvivors>& from = v.survivor_phases;
  if (!v.phases_of_survivors || from.empty()) return "";
  if (from.size() == 1) return fmt::format("; all {} born in {}", count_text(from[0].count), printable(from[0].phase));
  std::string text;
  std::uint64_t others = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (i < kPhasesShown)
      text += fmt::format("{} {}{} in {}", i == 0 ? ";" : ",", count_text(from[i].count), i == 0 ? " born" : "",
                          printable(from[i].phase));
    else
      others += from[i].count;
  }
  return others == 0 ? text : fmt::format("{}, {} in others", text, count_text(others));
}

bool is_leak(const LeakVerdict& v) {
  return v.verdict == Verdict::Leak || v.verdict == Verdict::GrowingLeak;
}

/// What a time to out-of-memory is the time of.
std::string oom_text(const LeakReport& report, const LeakVerdict& v, bool simulated) {
  const std::string time = duration_text(static_cast<std::uint64_t>(std::min(*v.oom_in_seconds, 9e9) * 1e9));
  const auto leaks = [&](const LeakVerdict& other) { return other.device == v.device && is_leak(other); };
  const auto count = std::count_if(report.verdicts.begin(), report.verdicts.end(), leaks);
  const char* by = is_leak(v) ? (count > 1 ? " with the other leaks" : "") : (count > 0 ? " by itself" : "");
  return fmt::format("; out of memory in {}{}{}", time, simulated ? " of it" : "", by);
}

/// Where no kernel runs a second says little: what a birth or a step leaves comes first.
void print_rate(const Trace& trace, const LeakReport& report, const LeakVerdict& v) {
  const bool simulated = trace.ground == Ground::Simulated;
  const std::string per_second =
      fmt::format("{}{} (95 % in this run: {} to {})", rate_text(v.bytes_per_second),
                  simulated ? " in simulated time" : "", rate_text(v.ci95[0]), rate_text(v.ci95[1]));
  const std::string per_window =
      v.windows == 0 ? "" : fmt::format("{} per {}", size_text(static_cast<std::uint64_t>(v.bytes_per_window)),
                                        v.window.empty() ? "window" : printable(v.window));
  const std::string& first = simulated && !per_window.empty() ? per_window : per_second;
  const std::string& second = &first == &per_window ? per_second : per_window;
  fmt::print("      {}{}{}", first, second.empty() ? "" : ", ", second);
  if (v.oom_in_seconds)
    fmt::print("{}", oom_text(report, v, simulated));
  else if (v.ran_out_ns != 0)
    fmt::print("; ran out of memory at {}", when_text(trace, v.ran_out_ns));
  fmt::print("\n");
}

void print_verdict(const Trace& trace, const LeakReport& report, const LeakVerdict& v, const std::string& name,
                   bool whole_stacks) {
  std::string phases;
  if (!v.phases_of_survivors)
    for (const std::string& phase : v.phases) phases += (phases.empty() ? ", in " : " and ") + printable(phase);
  fmt::print("\n{:<12} {}{}\n", verdict_name(v.verdict), printable(name), phases);
  if (v.device == kHostDevice) fmt::print("      host memory, pinned for the device\n");
  fmt::print("      {} in {} blocks alive at the last allocation{}{}\n", size_text(v.live_bytes),
             count_text(v.live_count), v.mature_births == 0 ? ""
                                  : fmt::format(", {} of {} mature births survive ({})", count_text(v.survivors),
                                                count_text(v.mature_births), percent_text(v.residue_share)),
             survivors_text(v));
  if (has_rate(v)) print_rate(trace, report, v);
  if (!v.reason.empty()) fmt::print("      {}\n", printable(v.reason));
  if (whole_stacks)
    print_whole_stack(trace, v.site);
  else if (is_leak(v) || v.verdict == Verdict::Accumulates)
    print_stack(trace, v.site);
}

void print_leaks(const Trace& trace, const LeakReport& report, bool whole_stacks) {
  fmt::print("\n{} sites judged on the {} floor; {} with a verdict\n", count_text(report.sites_judged),
             floor_name(report.floor), count_text(report.verdicts.size()));
  if (report.freed_late_bytes != 0)
    fmt::print("{} in {} old blocks were freed only after the last allocation, most often because the program ended\n",
               size_text(report.freed_late_bytes), count_text(report.freed_late_blocks));
  if (trace.ground == Ground::Simulated && std::any_of(report.verdicts.begin(), report.verdicts.end(), has_rate))
    fmt::print("no kernel ran: simulated time is this run's alone, what a birth or a step leaves is the program's\n");
  const std::vector<std::string> names = names_of(trace, report);
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i)
    print_verdict(trace, report, report.verdicts[i], names[i], whole_stacks);
  if (report.verdicts.size() > kShown) fmt::print("\n{} more; --json has all\n", report.verdicts.size() - kShown);
}

}  // namespace

Action define_leaks(CLI::App& app) {
  const auto arguments = std::make_shared<TraceArguments>();
  arguments->add_trace(app);
  arguments->add_json(app);
  arguments->add_selection(app);
  const auto whole_stacks = std::make_shared<bool>(false);
  app.add_flag("--stacks", *whole_stacks, "the whole stack of every site shown, allocators and runtimes included");
  return [arguments, whole_stacks](const Program&) {
    Progress progress;
    const Trace trace = progress.open(arguments->trace);
    LeakOptions options;
    options.selection = selection_of(*arguments, trace);
    const LeakReport report = leaks(trace, options);
    if (report.sites_judged == 0) check_floor(*arguments, trace);
    progress.end();
    if (arguments->json) {
      print_json(leaks_json(trace, report));
    } else {
      print_losses(trace);
      print_processes(trace);
      print_leaks(trace, report, *whole_stacks);
    }
    return 0;
  };
}

}  // namespace cuheap
