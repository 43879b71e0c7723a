// cuheap flame TRACE: the live bytes of a moment by call stack, or what a window allocated and kept. For people a tree,
// for flame graph programs folded stacks, for others JSON.
#include <fmt/format.h>

#include <memory>

#include "tools/analysis/flame.h"
#include "tools/analysis/short_name.h"
#include "tools/commands/arguments.h"
#include "tools/commands/command.h"
#include "tools/commands/notes.h"
#include "tools/commands/output.h"
#include "tools/commands/progress.h"
#include "tools/commands/selection.h"

namespace cuheap {
namespace {

constexpr double kShownShare = 0.01;  // branches below are summed into one line

struct FlameArguments : TraceArguments {
  bool folded = false;
};

LiveSites bytes_by_site(const FlameArguments& arguments, const Trace& trace) {
  const Selection selection = selection_of(arguments, trace);
  if (!has_window(arguments)) return live_at(trace, when_of(arguments, trace), selection);
  const auto [from, to] = window_of(arguments, trace);
  return allocated_and_alive(trace, from, to, selection);
}

std::string frame_text(const Frame* frame) {
  if (frame == nullptr) return "all";
  std::string text = printable(frame->function);
  if (!frame->file.empty()) return fmt::format("{} ({}:{})", text, printable(frame->file), frame->line);
  return frame->module.empty() ? text : fmt::format("{} ({})", text, printable(frame->module));
}

/// Frames that say how memory was asked for, not why, are left out (--folded and --json have them), and a chain of
/// frames that nothing leaves does not indent: what is left is what a person would draw.
void print_tree(const std::vector<FlameNode>& nodes, std::uint64_t total) {
  std::vector<std::uint32_t> above(nodes.size()), children(nodes.size()), indent(nodes.size());
  std::vector<bool> shown(nodes.size());
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    const std::uint32_t parent = nodes[i].parent;
    above[i] = shown[parent] ? parent : above[parent];
    const bool is_large = static_cast<double>(nodes[i].total_bytes) >= kShownShare * static_cast<double>(total);
    // A stack of plumbing alone still shows where it ends.
    const bool is_all_there_is =
        above[i] == 0 && static_cast<double>(nodes[i].self_bytes) >= kShownShare * static_cast<double>(total);
    shown[i] = is_large && (!is_plumbing(*nodes[i].frame) || is_all_there_is);
    if (shown[i]) ++children[above[i]];
  }
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    if (!shown[i]) continue;
    const FlameNode& node = nodes[i];
    indent[i] = indent[above[i]] + (children[above[i]] > 1 ? 1 : 0);
    fmt::print("{:>11} {:>7}  {:{}}{}\n", size_text(node.total_bytes),
               percent_text(static_cast<double>(node.total_bytes) / static_cast<double>(total)), "", indent[i] * 2,
               frame_text(node.frame));
  }
}

Json flame_json(const Trace& trace, const LiveSites& sites) {
  Json json = json_head(trace);
  json["at_ns"] = since_start(trace, sites.at.time_ns);
  json["floor"] = floor_name(sites.floor);
  json["total"] = sites.total;
  json["stacks"] = Json::array();
  for (const SiteBytes& site : sites.sites) {
    json["stacks"].push_back({{"site", site_json(trace, site.site)}, {"bytes", site.bytes}, {"count", site.count}});
  }
  return json;
}

int flame(const FlameArguments& arguments) {
  Progress progress;
  const Trace trace = progress.open(arguments.trace);
  const LiveSites sites = bytes_by_site(arguments, trace);
  if (sites.total == 0) check_floor(arguments, trace);
  progress.end();
  if (arguments.json) {
    print_json(flame_json(trace, sites));
  } else if (arguments.folded) {
    // Its reader is a program: losses go where people look.
    for (const std::string& reason : trace.loss_reasons()) fmt::print(stderr, "LOST: {}\n", printable(reason));
    print_notes(trace);
    for (const std::string& line : folded_stacks(trace, sites)) fmt::print("{}\n", line);
  } else {
    print_losses(trace);
    print_processes(trace);
    fmt::print("\n{} in {} blocks, {} floor, at {}\n", size_text(sites.total), count_text(sites.count),
               floor_name(sites.floor), when_text(trace, sites.at.time_ns));
    if (sites.total != 0) print_tree(flame_tree(trace, sites), sites.total);
  }
  return 0;
}

}  // namespace

Action define_flame(CLI::App& app) {
  const auto arguments = std::make_shared<FlameArguments>();
  arguments->add_trace(app);
  CLI::Option* const json = app.add_flag("--json", arguments->json, "print JSON (docs/json.md)");
  app.add_flag("--folded", arguments->folded, "one line a stack, outermost first: a;b;c BYTES")->excludes(json);
  arguments->add_at(app);
  arguments->add_window(app);
  arguments->add_selection(app);
  return [arguments](const Program&) { return flame(*arguments); };
}

}  // namespace cuheap
