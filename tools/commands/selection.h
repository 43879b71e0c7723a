// What a report is about, from the words on the command line: which floor and device, at which moment, in which window.
#pragma once
#include <string>
#include <utility>

#include "tools/analysis/replay.h"
#include "tools/commands/arguments.h"

namespace cuheap {

Selection selection_of(const TraceArguments& arguments, const Trace& trace);
/// For an answer with nothing in it: throws Error if that is because the trace has nothing on the --floor named. One pass.
void check_floor(const TraceArguments& arguments, const Trace& trace);

/// `--at`: peak (of held memory), peak:FLOOR (of what lives there), end, oom, or a time since the start.
When when_of(const TraceArguments& arguments, const Trace& trace);

/// `--from --to` on the trace's clock; the whole run if neither is given.
std::pair<std::uint64_t, std::uint64_t> window_of(const TraceArguments& arguments, const Trace& trace);
bool has_window(const TraceArguments& arguments);

}  // namespace cuheap
