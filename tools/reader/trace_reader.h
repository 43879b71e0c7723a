// The reader: a trace file, or a run directory with one file a process, becomes a Trace. Definitions and the list of
// chunks are read at once, events are streamed from the mapped files whenever somebody asks.
#pragma once
#include <string>

#include "tools/model/trace.h"

namespace cuheap {

constexpr const char* kTraceExtension = ".cuheap";

/// Opens what a person named. Whatever is damaged or missing is in Trace::damage, the readable rest is there. Throws
/// Error where nothing can be read as a trace: no such file, a foreign one, a future version, no trace in the
/// directory. Files that are still being written read as they are at this moment.
Trace open_trace(const std::string& path);

}  // namespace cuheap
