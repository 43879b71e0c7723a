// Exporters: what a trace says, in the formats of other tools: folded stacks, speedscope, CSV. They write what analyses
// and the event stream give them; they compute nothing.
#pragma once
#include <cstdio>
#include <string>

#include "tools/analysis/peak.h"
#include "tools/model/trace.h"

namespace cuheap {

/// "a;b;c BYTES", outermost first: flamegraph.pl, inferno, speedscope.
void export_folded(const Trace& trace, const LiveSites& sites, std::FILE* out);

/// One sampled profile of the live bytes, https://www.speedscope.app/file-format-schema.json.
void export_speedscope(const Trace& trace, const LiveSites& sites, const std::string& name, std::FILE* out);

/// Every event, a line each, with a header line; times in ns since the start. Streams: memory does not grow with the
/// trace.
void export_csv(const Trace& trace, std::FILE* out);

}  // namespace cuheap
