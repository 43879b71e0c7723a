// cuheap timeline TRACE: how the floors moved over time: a few lines for people, samples for programs.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tools/analysis/timeline.h"
#include "tools/commands/answers.h"
#include "tools/commands/arguments.h"
#include "tools/commands/command.h"
#include "tools/commands/progress.h"
#include "tools/commands/selection.h"

namespace cuheap {
namespace {

constexpr std::uint32_t kColumns = 64;

struct TimelineArguments : TraceArguments {
  std::uint32_t buckets = 2048;
};

struct Window {
  std::uint32_t first = 0, end = 0;  // buckets
};

Window buckets_of(const TimelineArguments& arguments, const Trace& trace, const Timeline& line) {
  const auto [from, to] = window_of(arguments, trace);
  const auto bucket = [&](std::uint64_t time_ns) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(time_ns > line.start_ns ? (time_ns - line.start_ns) / line.width_ns : 0, line.buckets));
  };
  return {bucket(from), std::max(bucket(to - 1) + 1, bucket(from))};
}

bool is_wanted(const FloorSeries& series, const Selection& selection) {
  return (selection.floor == Floor::None || series.floor == selection.floor) &&
         (!selection.device || *selection.device == series.device);
}

Json timeline_json(const Trace& trace, const Timeline& line, const Selection& selection, const Window& window) {
  Json json = json_head(trace);
  json["width_ns"] = line.width_ns;
  json["samples"] = Json::array();
  for (const FloorSeries& series : line.floors) {
    if (!is_wanted(series, selection)) continue;
    for (std::uint32_t i = window.first;
         i < std::min<std::uint32_t>(window.end, static_cast<std::uint32_t>(series.live.buckets.size())); ++i) {
      json["samples"].push_back({{"t_ns", line.start_ns + i * line.width_ns - trace.start_ns},
                                 {"device", series.device},
                                 {"floor", floor_name(series.floor)},
                                 {"live", series.live.buckets[i].last},
                                 {"held", series.held.buckets[i].last},
                                 {"live_max", series.live.buckets[i].max},
                                 {"held_max", series.held.buckets[i].max}});
    }
  }
  json["phases"] = Json::array();
  for (const PhaseSpan& phase : line.phases) {
    json["phases"].push_back({{"name", printable(trace.names.at(phase.phase))},
                              {"begin_ns", since_start(trace, phase.begin_ns)},
                              {"end_ns", since_start(trace, phase.end_ns)},
                              {"process", phase.process},
                              {"thread", phase.thread},
                              {"ended", phase.ended}});
  }
  json["marks"] = Json::array();
  for (const MarkPoint& mark : line.marks) {
    json["marks"].push_back({{"name", printable(trace.names.at(mark.name))},
                             {"t_ns", since_start(trace, mark.time_ns)},
                             {"process", mark.process}});
  }
  return json;
}

/// One row of blocks: the maximum of each column, so that no peak is lost.
std::string bar(const Series& series, const Window& window, std::uint64_t top) {
  static const char* const kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::uint32_t end = std::min<std::uint32_t>(window.end, static_cast<std::uint32_t>(series.buckets.size()));
  const std::uint32_t count = end > window.first ? end - window.first : 0, columns = std::min(kColumns, count);
  std::string text;
  for (std::uint32_t column = 0; column < columns; ++column) {
    std::uint64_t most = 0;
    for (std::uint32_t i = column * count / columns; i < (column + 1) * count / columns; ++i)
      most = std::max(most, series.buckets[window.first + i].max);
    const double share = top == 0 ? 0 : static_cast<double>(most) / static_cast<double>(top);
    text += kBlocks[most == 0 ? 0 : std::clamp(static_cast<int>(share * 8 + 0.5), 1, 8)];
  }
  return text;
}

std::uint64_t maximum(const Series& series, const Window& window) {
  std::uint64_t most = 0;
  for (std::uint32_t i = window.first; i < std::min<std::size_t>(window.end, series.buckets.size()); ++i)
    most = std::max(most, series.buckets[i].max);
  return most;
}

void print_timeline(const Trace& trace, const Timeline& line, const Selection& selection, const Window& window) {
  for (const FloorSeries& series : line.floors) {
    if (!is_wanted(series, selection)) continue;
    const std::uint64_t top = std::max(maximum(series.held, window), maximum(series.live, window));
    fmt::print("\ndevice {}, {} floor, up to {}\n", device_text(series.device), floor_name(series.floor),
               size_text(top));
    fmt::print("  live |{}|\n", bar(series.live, window, top));
    if (series.floor != Floor::Physical) fmt::print("  held |{}|\n", bar(series.held, window, top));
  }
  fmt::print("\nfrom {} to {}\n", when_text(trace, line.start_ns + window.first * line.width_ns),
             when_text(trace, line.start_ns + window.end * line.width_ns));
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < std::min(kShown, line.phases.size()); ++i) {
    const PhaseSpan& phase = line.phases[i];
    fmt::print("phase {:<30} {:>12} to {:>12}\n", printable(trace.names.at(phase.phase)),
               when_text(trace, phase.begin_ns), when_text(trace, phase.end_ns));
  }
  if (line.phases.size() > kShown) fmt::print("{} more phases; --json has all\n", line.phases.size() - kShown);
}

}  // namespace

Action define_timeline(CLI::App& app) {
  const auto arguments = std::make_shared<TimelineArguments>();
  arguments->add_trace(app);
  arguments->add_json(app);
  arguments->add_window(app);
  arguments->add_selection(app);
  app.add_option("--samples", arguments->buckets, "samples over the run, at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  return [arguments](const Program&) {
    Progress progress;
    const Trace trace = progress.open(arguments->trace);
    const Selection selection = selection_of(*arguments, trace);
    TimelineOptions options;
    options.max_buckets = arguments->buckets;
    const Timeline line = timeline(trace, options);
    progress.end();
    const Window window = buckets_of(*arguments, trace, line);
    if (arguments->json) {
      print_json(timeline_json(trace, line, selection, window));
    } else {
      print_losses(trace);
      print_processes(trace);
      print_timeline(trace, line, selection, window);
    }
    return 0;
  };
}

}  // namespace cuheap
