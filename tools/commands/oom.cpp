// cuheap oom TRACE: every out-of-memory of the run: what was asked for, who held the memory, what helps and what does
// not.
#include "tools/analysis/oom.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tools/analysis/phases.h"
#include "tools/analysis/short_name.h"
#include "tools/commands/answers.h"
#include "tools/commands/arguments.h"
#include "tools/commands/command.h"
#include "tools/commands/progress.h"
#include "tools/commands/selection.h"

namespace cuheap {
namespace {

constexpr std::size_t kSitesShown = 5;

Json lines_json(const std::vector<std::string>& lines) {
  Json json = Json::array();
  for (const std::string& line : lines) json.push_back(printable(line));
  return json;
}

/// The largest holders by name, those of one name told apart.
std::vector<std::string> holder_names(const Trace& trace, const OomReport& oom, std::size_t most) {
  std::vector<SiteId> sites;
  for (std::size_t i = 0; i < std::min(most, oom.top_sites.sites.size()); ++i)
    sites.push_back(oom.top_sites.sites[i].site);
  return short_names(trace, sites);
}

Json oom_json(const Trace& trace, const OomReport& oom) {
  Json sites = Json::array(), floors = Json::object();
  const std::vector<std::string> names = holder_names(trace, oom, oom.top_sites.sites.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const SiteBytes& site = oom.top_sites.sites[i];
    sites.push_back({{"site", site_json(trace, site.site)},
                     {"bytes", site.bytes},
                     {"count", site.count},
                     {"old_bytes", site.old_bytes},
                     {"name", printable(names[i])}});
    add_phases(trace, site.phases, sites.back());
  }
  for (const Floor floor : kFloorsTopDown) {
    if (oom.state[floor].seen)
      floors[floor_name(floor)] = {{"live", oom.state[floor].live}, {"held", oom.state[floor].held}};
  }
  return {{"at_ns", since_start(trace, oom.at.time_ns)},
          {"device", oom.device},
          {"process", oom.process},
          {"floor", floor_name(oom.floor)},
          {"request", oom.request},
          {"site", site_json(trace, oom.site)},
          {"phase", oom.phase == 0 ? Json(nullptr) : Json(printable(phase_name(trace, oom.phase)))},
          {"class", oom.oom_class},
          {"recovered", oom.recovered},
          {"left_out", oom.left_out},
          {"device_total", oom.device_total},
          {"device_free", oom.device_total == 0 ? Json(nullptr) : Json(oom.device_free)},
          {"free_is_exact", oom.free_is_exact},
          {"old_ns", oom.old_ns},
          {"floors", std::move(floors)},
          {"evidence", lines_json(oom.evidence)},
          {"advice", lines_json(oom.advice)},
          {"will_not_help", lines_json(oom.will_not_help)},
          {"top_sites", std::move(sites)}};
}

void print_lines(const char* title, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) fmt::print("  {:<15} {}\n", title, printable(line));
}

void print_oom(const Trace& trace, const OomReport& oom) {
  fmt::print("\nat {}: {} refused on device {}, {} floor: {}\n", when_text(trace, oom.at.time_ns),
             size_text(oom.request), device_text(oom.device), floor_name(oom.floor), oom.oom_class);
  fmt::print("  {:<15} {}{}\n", "asked by", printable(short_name(trace, oom.site)),
             oom.phase == 0 ? "" : ", in " + printable(phase_name(trace, oom.phase)));
  print_lines("evidence", oom.evidence);
  print_lines("advice", oom.advice);
  print_lines("will not help", oom.will_not_help);
  const std::vector<std::string> names = holder_names(trace, oom, kSitesShown);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const SiteBytes& site = oom.top_sites.sites[i];
    const std::string old = fmt::format(", {} older than {}", size_text(site.old_bytes), duration_text(oom.old_ns));
    fmt::print("  {:<15} {:>11}  {}{}{}\n", i == 0 ? "held by" : "", size_text(site.bytes), printable(names[i]),
               phases_text(trace, site.phases), site.old_bytes == 0 || site.old_bytes == site.bytes ? "" : old);
  }
}

/// What is alike, in one line: how often, how much was asked for, when.
struct Fold {
  std::string what;  // "recovered", or the class and who asked
  std::size_t count = 0;
  std::uint64_t least = 0, most = 0, first_ns = 0, last_ns = 0;
};

void print_others(const Trace& trace, const std::vector<OomReport>& reports, const OomReport& fatal) {
  std::vector<Fold> folds;
  std::uint64_t left_out = 0;
  for (const OomReport& oom : reports) {
    left_out += oom.left_out;
    if (&oom == &fatal) continue;
    const std::string what =
        oom.recovered ? "recovered" : fmt::format("{}, asked by {}", oom.oom_class, short_name(trace, oom.site));
    auto fold = std::find_if(folds.begin(), folds.end(), [&](const Fold& f) { return f.what == what; });
    if (fold == folds.end())
      fold = folds.insert(fold, Fold{what, 0, oom.request, oom.request, oom.at.time_ns, oom.at.time_ns});
    ++fold->count;
    fold->least = std::min(fold->least, oom.request);
    fold->most = std::max(fold->most, oom.request);
    fold->last_ns = oom.at.time_ns;
  }
  if (!folds.empty() || left_out != 0) fmt::print("\nbeside it\n");
  for (const Fold& fold : folds) {
    const std::string least = size_text(fold.least), most = size_text(fold.most);
    fmt::print("  {} {}: {}, from {} to {}\n", count_text(fold.count), printable(fold.what),
               least == most ? most : least + " to " + most, when_text(trace, fold.first_ns),
               when_text(trace, fold.last_ns));
  }
  if (left_out != 0) fmt::print("  {} more between the first and the last ones\n", count_text(left_out));
}

/// The answer first: the refusal that nothing made good; what recovered or came before it in a few lines.
void print_ooms(const Trace& trace, const std::vector<OomReport>& reports) {
  const OomReport* const fatal = fatal_of(reports);
  if (fatal == nullptr) return fmt::print("\nnothing ran out of memory\n");
  print_oom(trace, *fatal);
  fmt::print("  {:<15} cuheap frag {} --at oom\n", "see also", printable(trace.path));
  print_others(trace, reports, *fatal);
}

}  // namespace

Action define_oom(CLI::App& app) {
  const auto arguments = std::make_shared<TraceArguments>();
  arguments->add_trace(app);
  arguments->add_json(app);
  app.add_option("--device", arguments->device, "ordinal of the device; default: all devices");
  return [arguments](const Program&) {
    Progress progress;
    const Trace trace = progress.open(arguments->trace);
    const Selection selection = selection_of(*arguments, trace);
    const LeakReport leak_report = leaks(trace);
    std::vector<OomReport> reports = ooms(trace, &leak_report);
    progress.end();
    std::erase_if(reports, [&](const OomReport& oom) { return selection.device && oom.device != *selection.device; });
    if (arguments->json) {
      Json json = json_head(trace);
      json["ooms"] = Json::array();
      for (const OomReport& oom : reports) json["ooms"].push_back(oom_json(trace, oom));
      print_json(json);
    } else {
      print_losses(trace);
      print_processes(trace);
      print_ooms(trace, reports);
    }
    return 0;
  };
}

}  // namespace cuheap
