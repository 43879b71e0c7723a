// cuheap summary TRACE: the run on one screen: floors with their peaks, and the sites that the peak consists of.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tools/analysis/python_frames.h"
#include "tools/analysis/short_name.h"
#include "tools/commands/answers.h"
#include "tools/commands/arguments.h"
#include "tools/commands/command.h"
#include "tools/commands/progress.h"
#include "tools/commands/selection.h"

namespace cuheap {
namespace {

constexpr std::size_t kSitesShown = 10;

/// What CUHEAP_POOL was: an option at its default is not written. Only for processes that cuheap recorded.
std::string pool_mode(const Process& process) {
  if (!process.meta.contains("cuheap") || process.meta.contains("importer")) return {};
  const auto found = process.meta.find("option.CUHEAP_POOL");
  return found == process.meta.end() ? "auto" : printable(found->second);
}

Json process_json(const Process& process, bool is_pooled) {
  const auto meta = [&](const char* key) -> Json {
    const auto found = process.meta.find(key);
    return found == process.meta.end() ? Json(nullptr) : Json(printable(found->second));
  };
  return {{"pid", process.pid},
          {"rank", process.rank},
          {"command", meta("command")},
          {"python", meta("python")},
          {"torch", meta("torch")},
          {"driver", meta("driver")},
          {"pool", is_pooled},
          {"pool_mode", pool_mode(process).empty() ? Json(nullptr) : Json(pool_mode(process))},
          {"orderly_end", process.ended_orderly}};
}

Json floor_json(const Trace& trace, const FloorState& state, Floor floor) {
  const FloorPeak peak = peak_of(state, floor);
  return {{"peak", peak.bytes},
          {"peak_ns", since_start(trace, peak.at_ns)},
          {"end", peak.end},
          {"allocations", state.allocations},
          {"frees", state.frees},
          {"held_peak", state.peak_held},
          {"end_blocks", state.live_blocks},
          {"ooms", state.ooms}};
}

/// Which GPU it is, and who calls it by another number: only what is known.
void add_identity(const Trace& trace, std::int16_t device, Json& json) {
  for (const TraceDevice& d : trace.devices) {
    if (d.ordinal != device) continue;
    if (const std::string uuid = uuid_text(d); !uuid.empty()) json["uuid"] = uuid;
    if (d.seen_as != device) json["seen_as"].push_back({{"process", d.process}, {"ordinal", d.seen_as}});
  }
}

void print_device(const Trace& trace, const DeviceSummary& device, std::FILE* out) {
  std::string head = "device " + device_text(device.state.device);
  if (!device.name.empty()) head += "  " + printable(device.name);
  if (device.total_bytes != 0) head += "  " + size_text(device.total_bytes);
  if (const std::string others = other_numbers_text(trace, device.state.device); !others.empty()) head += "  (" + others + ")";
  fmt::print(out, "\n{}\n  {:<12}{:>11}{:>12}{:>11}{:>11}{:>14}{:>14}\n", head, "floor", "peak", "at", "held then",
             "at end", "allocations", "frees");
  for (const Floor floor : kFloorsTopDown) {
    const FloorState& state = device.state[floor];
    if (!state.seen) continue;
    const FloorPeak peak = peak_of(state, floor);
    fmt::print(out, "  {:<12}{:>11}{:>12}{:>11}{:>11}{:>14}{:>14}\n", floor_name(floor), size_text(peak.bytes),
               when_text(trace, peak.at_ns), floor == Floor::Physical ? "" : size_text(state.peak_held),
               size_text(peak.end), count_text(state.allocations), count_text(state.frees));
    if (state.ooms != 0) fmt::print(out, "  {:<12}{} out of memory; see `cuheap oom`\n", "", count_text(state.ooms));
  }
}

/// The pool comes unasked on the make-believe GPU, and what a program holds then is the pool's doing too.
void print_pool(const Trace& trace, const Summary& summary, std::FILE* out) {
  if (summary.pooled.empty() || *summary.pooled.rbegin() >= trace.processes.size()) return;
  const bool is_some = summary.pooled.size() < trace.processes.size();
  std::string why = pool_mode(trace.processes[*summary.pooled.begin()]);
  if (why == "auto" && trace.ground == Ground::Simulated) why = "auto, as always on simgpu";
  else if (why == "on") why = "--pool on";
  fmt::print(out, "pool: on{}{}; --pool off shows what CUDA alone would hold\n", why.empty() ? "" : " (" + why + ")",
             is_some ? fmt::format(" in {} of {} processes", summary.pooled.size(), trace.processes.size()) : "");
}

}  // namespace

FloorPeak peak_of(const FloorState& state, Floor floor) {
  if (floor == Floor::Physical) return {state.peak_held, state.peak_held_ns, state.held};
  return {state.peak_live, state.peak_live_ns, state.live};
}

std::string device_text(std::int16_t device) {
  return device == kHostDevice ? "host" : std::to_string(device);
}

std::vector<std::string> top_site_names(const Trace& trace, const Summary& summary) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < summary.top_sites.size(); begin = names.size()) {
    std::vector<SiteId> of_floor;
    for (std::size_t i = begin; i < summary.top_sites.size(); ++i) {
      if (summary.top_sites[i].floor != summary.top_sites[begin].floor) break;
      of_floor.push_back(summary.top_sites[i].site);
    }
    for (std::string& name : short_names(trace, of_floor)) names.push_back(std::move(name));
  }
  return names;
}

Json summary_json(const Trace& trace, const Summary& summary) {
  Json json = json_head(trace);
  json["duration_ns"] = summary.duration_ns;
  json["events"] = summary.events;
  json["processes"] = Json::array();
  for (std::size_t i = 0; i < trace.processes.size(); ++i)
    json["processes"].push_back(process_json(trace.processes[i], summary.pooled.contains(static_cast<std::uint16_t>(i))));
  json["devices"] = Json::array();
  for (const DeviceSummary& device : summary.devices) {
    Json floors = Json::object();
    for (const Floor floor : kFloorsTopDown) {
      if (device.state[floor].seen) floors[floor_name(floor)] = floor_json(trace, device.state[floor], floor);
    }
    json["devices"].push_back({{"device", device.state.device},
                               {"name", printable(device.name)},
                               {"total", device.total_bytes},
                               {"floors", std::move(floors)}});
    add_identity(trace, device.state.device, json["devices"].back());
  }
  json["peak_ns"] = since_start(trace, summary.peak.time_ns);
  json["top_sites"] = Json::array();
  const std::vector<std::string> names = top_site_names(trace, summary);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const SiteSummary& site = summary.top_sites[i];
    json["top_sites"].push_back({{"site", site_json(trace, site.site)},
                                 {"floor", floor_name(site.floor)},
                                 {"peak_bytes", site.peak_bytes},
                                 {"end_bytes", site.end_bytes},
                                 {"count", site.peak_count},
                                 {"max_bytes", site.max_bytes},
                                 {"allocations", site.allocations},
                                 {"allocated_bytes", site.allocated_bytes},
                                 {"name", printable(names[i])}});
    add_phases(trace, site.peak_phases, json["top_sites"].back());
  }
  return json;
}

void print_summary(const Trace& trace, const Summary& summary, std::size_t sites, std::FILE* out) {
  print_pool(trace, summary, out);
  for (const DeviceSummary& device : summary.devices) print_device(trace, device, out);
  const std::vector<std::string> names = top_site_names(trace, summary);
  for (std::size_t i = 0; i < std::min(sites, names.size()); ++i) {
    const SiteSummary& site = summary.top_sites[i];
    if (site.floor != summary.top_sites.front().floor || site.peak_bytes == 0) break;
    if (i == 0) {
      fmt::print(out, "\nsites at the peak ({} floor, {})\n  {:>11}{:>11}{:>12}  {}\n", floor_name(site.floor),
                 when_text(trace, summary.peak.time_ns), "bytes", "at end", "blocks", "where");
    }
    fmt::print(out, "  {:>11}{:>11}{:>12}  {}{}\n", size_text(site.peak_bytes), size_text(site.end_bytes),
               count_text(site.peak_count), printable(names[i]), phases_text(trace, site.peak_phases));
  }
  if (const char* const note = missing_python_frames(trace)) fmt::print(out, "\n{}\n", note);
  if (summary.unmatched_frees != 0)
    fmt::print(out, "\n{} frees of blocks that no event had allocated\n", count_text(summary.unmatched_frees));
}

Action define_summary(CLI::App& app) {
  const auto arguments = std::make_shared<TraceArguments>();
  arguments->add_trace(app);
  arguments->add_json(app);
  arguments->add_selection(app);
  return [arguments](const Program&) {
    Progress progress;
    const Trace trace = progress.open(arguments->trace);
    SummaryOptions options;
    options.selection = selection_of(*arguments, trace);
    const Summary summary = summarize(trace, options);
    if (summary.top_sites.empty()) check_floor(*arguments, trace);
    progress.end();
    if (arguments->json) {
      print_json(summary_json(trace, summary));
    } else {
      print_losses(trace);
      print_processes(trace);
      print_summary(trace, summary, kSitesShown, stdout);
    }
    return 0;
  };
}

}  // namespace cuheap
