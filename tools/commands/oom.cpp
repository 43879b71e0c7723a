// cuheap oom TRACE: every out-of-memory of the run: what was asked for, who held the memory, what helps and what does
// not.
#include "tools/analysis/oom.h"

#include <fmt/format.h>

#include <memory>

#include "tools/analysis/short_name.h"
#include "tools/commands/answers.h"
#include "tools/commands/arguments.h"
#include "tools/commands/command.h"
#include "tools/commands/selection.h"
#include "tools/reader/trace_reader.h"

namespace cuheap {
namespace {

constexpr std::size_t kSitesShown = 5;

Json lines_json(const std::vector<std::string>& lines) {
  Json json = Json::array();
  for (const std::string& line : lines) json.push_back(printable(line));
  return json;
}

Json oom_json(const Trace& trace, const OomReport& oom) {
  Json sites = Json::array(), floors = Json::object();
  for (const SiteBytes& site : oom.top_sites.sites) {
    sites.push_back({{"site", site_json(trace, site.site)},
                     {"bytes", site.bytes},
                     {"count", site.count},
                     {"name", printable(short_name(trace, site.site))}});
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
          {"class", oom.oom_class},
          {"device_total", oom.device_total},
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
  fmt::print("  {:<15} {}\n", "asked by", printable(short_name(trace, oom.site)));
  print_lines("evidence", oom.evidence);
  print_lines("advice", oom.advice);
  print_lines("will not help", oom.will_not_help);
  for (std::size_t i = 0; i < std::min(kSitesShown, oom.top_sites.sites.size()); ++i) {
    const SiteBytes& site = oom.top_sites.sites[i];
    fmt::print("  {:<15} {:>11}  {}\n", i == 0 ? "held by" : "", size_text(site.bytes),
               printable(short_name(trace, site.site)));
  }
}

}  // namespace

Action define_oom(CLI::App& app) {
  const auto arguments = std::make_shared<TraceArguments>();
  arguments->add_trace(app);
  arguments->add_json(app);
  app.add_option("--device", arguments->device, "ordinal of the device; default: all devices");
  return [arguments](const Program&) {
    const Trace trace = open_trace(arguments->trace);
    const Selection selection = selection_of(*arguments, trace);
    const LeakReport leak_report = leaks(trace);
    std::vector<OomReport> reports = ooms(trace, &leak_report);
    std::erase_if(reports, [&](const OomReport& oom) { return selection.device && oom.device != *selection.device; });
    if (arguments->json) {
      Json json = json_head(trace);
      json["ooms"] = Json::array();
      for (const OomReport& oom : reports) json["ooms"].push_back(oom_json(trace, oom));
      print_json(json);
    } else {
      print_losses(trace);
      print_processes(trace);
      if (reports.empty()) fmt::print("\nnothing ran out of memory\n");
      for (const OomReport& oom : reports) print_oom(trace, oom);
    }
    return 0;
  };
}

}  // namespace cuheap
