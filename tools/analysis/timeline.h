// timeline: how the floors moved over time, in bounded memory: min/max/last per bucket, so that no extreme is ever lost at
// any zoom; phases, marks and memory samples beside it. Feeds the page's timeline and `cuheap timeline`.
#pragma once
#include <cstdint>
#include <vector>

#include "tools/analysis/replay.h"

namespace cuheap {

struct MinMaxLast {
  std::uint64_t min = 0, max = 0, last = 0;
};

/// Values over [start_ns + i * width_ns, ...). A bucket without a change repeats the value before it.
struct Series {
  std::vector<MinMaxLast> buckets;
  /// The same at half the resolution.
  Series coarser() const;
};

struct FloorSeries {
  std::int16_t device = 0;
  Floor floor = Floor::None;
  Series live;
  Series held;
};

/// Bytes in use on the device as the driver told (total - free), from MemoryInfo events.
struct DriverUse {
  std::int16_t device = 0;
  std::uint64_t total = 0;
  Series used;
};

struct PhaseSpan {
  PhaseId phase = 0;
  std::uint16_t process = 0;
  std::uint32_t thread = 0;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;   // of the trace if it never ended
  bool ended = false;
};

struct MarkPoint {
  NameId name = 0;
  std::uint16_t process = 0;
  std::uint64_t time_ns = 0;
};

/// Live bytes of one site; only buckets where something changed, each with the bytes at its end and its maximum.
struct SiteSeries {
  SiteId site = 0;
  struct Step {
    std::uint32_t bucket = 0;
    std::uint64_t last = 0;
    std::uint64_t max = 0;
  };
  std::vector<Step> steps;
};

struct Timeline {
  std::uint64_t start_ns = 0;
  std::uint64_t width_ns = 1;             // of a bucket
  std::uint32_t buckets = 0;              // of every series
  std::vector<FloorSeries> floors;        // floors that were seen, by device and floor; the host is device -1
  std::vector<DriverUse> driver;
  std::vector<PhaseSpan> phases;          // by begin
  std::vector<MarkPoint> marks;
  std::uint64_t marks_left_out = 0;       // beyond the bound
  std::uint64_t phases_left_out = 0;
};

struct TimelineOptions {
  std::uint32_t max_buckets = 8192;
  std::size_t max_marks = 100000;         // also bounds the phases
};

/// One pass.
Timeline timeline(const Trace& trace, const TimelineOptions& options = {});

/// Series of given sites on the grid of `grid`; one pass. `selection.floor` must be set.
std::vector<SiteSeries> site_series(const Trace& trace, const Timeline& grid, const std::vector<SiteId>& sites, const Selection& selection);

}  // namespace cuheap
