// write_report: a trace becomes one self-contained HTML page (design 9, page.md). Aggregation happens here; the page only
// draws. Last stop of the data: nothing reads what this writes but a browser.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iosfwd>

#include "tools/model/trace.h"

namespace cuheap {

struct ReportOptions {
  /// Moments at which every site's bytes are exact; the peaks, the end and each OOM are always among them.
  std::size_t max_moments = 16384;
  /// Sites with a series of their own, per device and floor, by their own peak; the rest is summed as "other".
  std::size_t max_sites = 1000;
  /// Blocks drawn per picture of the address space; the smallest segments go first.
  std::size_t max_blocks = 120000;
};

/// Reads the events several times, holds the live set and the series of `max_sites` sites. Throws what the event source throws.
void write_report(const Trace& trace, std::ostream& out, const ReportOptions& options = {});

}  // namespace cuheap
