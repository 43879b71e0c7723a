#include "tools/commands/selection.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/analysis/oom.h"
#include "tools/analysis/replay.h"
#include "tools/commands/output.h"
#include "tools/model/error.h"

namespace cuheap {

Selection selection_of(const TraceArguments& arguments, const Trace& trace) {
  Selection selection;
  selection.floor = arguments.wanted_floor();
  selection.device = arguments.wanted_device(trace);
  return selection;
}

void check_floor(const TraceArguments& arguments, const Trace& trace) {
  const Floor wanted = arguments.wanted_floor();
  if (wanted == Floor::None) return;
  LiveSet set;
  replay(trace, set, {});
  std::string others;
  for (const Floor floor : {Floor::Physical, Floor::Allocation, Floor::Framework}) {
    const bool is_there = std::any_of(set.devices().begin(), set.devices().end(), [&](const DeviceState& d) { return d[floor].seen; });
    if (is_there && floor == wanted) return;
    if (is_there) others += fmt::format("{}{}", others.empty() ? "; it has " : ", ", floor_name(floor));
  }
  throw Error(fmt::format("--floor {}: {} has no {} floor{}", arguments.floor, trace.path, arguments.floor, others));
}

When when_of(const TraceArguments& arguments, const Trace& trace) {
  When when;
  if (arguments.at == "peak") return when;
  if (arguments.at.starts_with("peak:")) {
    TraceArguments of_floor;
    of_floor.floor = arguments.at.substr(5);
    when.peak_floor = of_floor.wanted_floor();
    return when;
  }
  if (arguments.at == "end") {
    when.kind = When::Kind::End;
    return when;
  }
  if (arguments.at == "oom") {
    const std::optional<Moment> oom = moment_of_oom(trace);
    if (!oom) throw Error(fmt::format("--at oom: nothing ran out of memory in {}", trace.path));
    when.kind = When::Kind::Found;
    when.found = *oom;
    return when;
  }
  when.kind = When::Kind::Time;
  when.time_ns = trace.start_ns + parse_time_ns(arguments.at, "--at");
  if (when.time_ns > trace.end_ns)
    throw Error(fmt::format("--at {}: {} lasts {}; name a moment in it, or --at end", arguments.at, trace.path,
                            duration_text(trace.end_ns - trace.start_ns)));
  return when;
}

std::pair<std::uint64_t, std::uint64_t> window_of(const TraceArguments& arguments, const Trace& trace) {
  const std::uint64_t from =
      arguments.from.empty() ? trace.start_ns : trace.start_ns + parse_time_ns(arguments.from, "--from");
  // One past the end, so that the last event is inside.
  const std::uint64_t to =
      arguments.to.empty() ? trace.end_ns + 1 : trace.start_ns + parse_time_ns(arguments.to, "--to");
  if (from >= to)
    throw Error(fmt::format("--from {} --to {}: the window is empty; the run lasts {} ns", arguments.from, arguments.to,
                            trace.end_ns - trace.start_ns));
  return {from, to};
}

bool has_window(const TraceArguments& arguments) {
  return !arguments.from.empty() || !arguments.to.empty();
}

}  // namespace cuheap
