// A made-up serving process with a warm-up, phases, a bounded cache, one slow leak and an out-of-memory, as a Trace: what the
// page's own tests are fed with. Deterministic; the size is a parameter, so that the bench can ask for a million events.
#pragma once
#include <cstddef>
#include <string>

#include "tools/model/trace.h"

namespace cuheap::sample {

Trace serving_trace(std::size_t events);
/// Nothing was ever allocated.
Trace empty_trace();
/// The same as a trace file, for tests that go through the reader and the command line.
void write_trace(const Trace& trace, const std::string& path);

}  // namespace cuheap::sample
