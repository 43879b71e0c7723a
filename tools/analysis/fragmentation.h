// fragmentation: how much of what a floor holds is idle at a moment, how the holes are shaped, and which sites pin them.
// Also the address-space picture of that moment. Definitions: docs/definitions.md.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "tools/analysis/replay.h"

namespace cuheap {

/// A site and the idle bytes that its living blocks keep from being released.
struct PinningSite {
  SiteId site = 0;
  std::uint64_t live_bytes = 0;         // of its blocks in partly idle units
  std::uint64_t pinned_idle_bytes = 0;  // its share: the idle bytes of a unit are split evenly over the sites that keep it
  std::uint64_t sole_idle_bytes = 0;    // released if this site alone let go
  std::uint64_t segments = 0;           // units it keeps
};

struct FloorFragmentation {
  std::int16_t device = 0;
  Floor floor = Floor::None;            // Framework or Allocation
  std::uint64_t live = 0;
  std::uint64_t held = 0;
  double fragmentation = 0;             // 1 - live/held
  bool segments_known = false;          // the rest is only known if the floor's segments are known by address
  std::uint64_t segment_bytes = 0;
  std::uint64_t segment_count = 0;
  std::uint64_t idle_bytes = 0;         // in segments, = wholly_idle_bytes + pinned
  std::uint64_t wholly_idle_bytes = 0;  // nothing lives there: a cache that could be given back
  std::uint64_t largest_hole = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> holes;  // (size: a power of two, holes in [size, 2 size)), rising
  std::vector<PinningSite> pinning_sites;                      // most pinned_idle_bytes first
};

struct SegmentBlock {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  SiteId site = 0;
  std::uint64_t born_ns = 0;
};

/// What is released as a whole: a segment of a framework, or a mapped piece (granule) of an address range.
struct Segment {
  std::int16_t device = 0;
  std::uint16_t process = 0;
  Floor floor = Floor::None;            // whose blocks are in it
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t live = 0;
  SiteId site = 0;                      // who allocated it, where known
  bool joins_next = false;              // contiguous with the next one: a hole may run through
  std::vector<SegmentBlock> blocks;     // by address; a block that spans several segments shows its part in each
};

struct FragmentationReport {
  Moment at;
  std::vector<FloorFragmentation> floors;
  std::vector<Segment> segments;        // by floor, process and address
};

/// Two passes for the peak, one otherwise.
FragmentationReport fragmentation(const Trace& trace, const When& when, const Selection& selection = {});
FragmentationReport fragmentation(const Trace& trace, Moment at, const Selection& selection = {});

}  // namespace cuheap
