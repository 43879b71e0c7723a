// cuheap frag TRACE: how much of what a floor holds is idle at a moment, in which holes, and which sites pin it.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "tools/analysis/fragmentation.h"
#include "tools/analysis/short_name.h"
#include "tools/commands/answers.h"
#include "tools/commands/arguments.h"
#include "tools/commands/command.h"
#include "tools/commands/progress.h"
#include "tools/commands/selection.h"

namespace cuheap {
namespace {

constexpr std::size_t kShown = 10;

Json floor_json(const Trace& trace, const FloorFragmentation& f) {
  Json holes = Json::array(), pinning = Json::array();
  for (const auto& [size, count] : f.holes) holes.push_back({size, count});
  std::vector<SiteId> sites;
  for (const PinningSite& site : f.pinning_sites) sites.push_back(site.site);
  const std::vector<std::string> names = short_names(trace, sites);
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const PinningSite& site = f.pinning_sites[i];
    pinning.push_back({{"site", site_json(trace, site.site)},
                       {"live_bytes", site.live_bytes},
                       {"pinned_idle_bytes", site.pinned_idle_bytes},
                       {"sole_idle_bytes", site.sole_idle_bytes},
                       {"segments", site.segments},
                       {"name", printable(names[i])}});
  }
  return {{"live", f.live},
          {"held", f.held},
          {"fragmentation", f.fragmentation},
          {"largest_hole", f.largest_hole},
          {"holes", std::move(holes)},
          {"segments_known", f.segments_known},
          {"segment_count", f.segment_count},
          {"segment_bytes", f.segment_bytes},
          {"idle_bytes", f.idle_bytes},
          {"wholly_idle_bytes", f.wholly_idle_bytes},
          {"pinning_sites", std::move(pinning)}};
}

/// The device that the top level speaks of: the wanted one, else the first; `devices` has all of them.
Json frag_json(const Trace& trace, const FragmentationReport& report) {
  std::map<std::int16_t, Json> devices;
  for (const FloorFragmentation& f : report.floors) devices[f.device][floor_name(f.floor)] = floor_json(trace, f);
  Json json = json_head(trace);
  json["at_ns"] = since_start(trace, report.at.time_ns);
  const auto first = std::find_if(devices.begin(), devices.end(), [](const auto& entry) { return entry.first >= 0; });
  json["device"] = first == devices.end() ? 0 : first->first;
  json["floors"] = first == devices.end() ? Json::object() : first->second;
  json["devices"] = Json::array();
  for (const auto& [device, floors] : devices) json["devices"].push_back({{"device", device}, {"floors", floors}});
  return json;
}

void print_floor(const Trace& trace, const FloorFragmentation& f) {
  fmt::print("\ndevice {}, {} floor: {} live of {} held, fragmentation {}\n", device_text(f.device),
             floor_name(f.floor), size_text(f.live), size_text(f.held), percent_text(f.fragmentation));
  if (!f.segments_known) {
    fmt::print("  its segments are not known by address: no holes and no pinning sites\n");
    return;
  }
  fmt::print("  {} in {} segments; {} idle: {} in segments where nothing lives, the rest pinned; largest hole {}\n",
             size_text(f.segment_bytes), count_text(f.segment_count), size_text(f.idle_bytes),
             size_text(f.wholly_idle_bytes), size_text(f.largest_hole));
  for (const auto& [size, count] : f.holes)
    fmt::print("  {:>11} to {:<11}{:>9} holes\n", size_text(size), size_text(2 * size), count_text(count));
  // Whose memory pins is often a matter of who asked an allocator of the program's own: callers belong to the name.
  constexpr std::size_t kCallers = 3;
  for (std::size_t i = 0; i < std::min(kShown, f.pinning_sites.size()); ++i) {
    const PinningSite& site = f.pinning_sites[i];
    if (i == 0) fmt::print("  {:>11}{:>11}{:>10}  {}\n", "pins idle", "with live", "segments", "where");
    fmt::print("  {:>11}{:>11}{:>10}  {}\n", size_text(site.pinned_idle_bytes), size_text(site.live_bytes),
               count_text(site.segments), printable(long_name(trace, site.site, kCallers)));
  }
}

}  // namespace

Action define_frag(CLI::App& app) {
  const auto arguments = std::make_shared<TraceArguments>();
  arguments->add_trace(app);
  arguments->add_json(app);
  arguments->add_at(app);
  arguments->add_selection(app);
  return [arguments](const Program&) {
    Progress progress;
    const Trace trace = progress.open(arguments->trace);
    const FragmentationReport report =
        fragmentation(trace, when_of(*arguments, trace), selection_of(*arguments, trace));
    if (report.floors.empty()) check_floor(*arguments, trace);
    progress.end();
    if (arguments->json) {
      print_json(frag_json(trace, report));
    } else {
      print_losses(trace);
      print_processes(trace);
      fmt::print("\nat {}\n", when_text(trace, report.at.time_ns));
      for (const FloorFragmentation& floor : report.floors) print_floor(trace, floor);
    }
    return 0;
  };
}

}  // namespace cuheap
