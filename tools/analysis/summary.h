// summary: the run in one screen: devices and floors with their peaks, and the sites that the peak consists of.
#pragma once
#include <cstdint>
#include <set>
#include <vector>

#include "tools/analysis/peak.h"

namespace cuheap {

struct SiteSummary {
  SiteId site = 0;
  Floor floor = Floor::None;
  std::uint64_t peak_bytes = 0;     // at the peak moment of the trace
  std::uint64_t peak_count = 0;     // blocks then
  std::vector<PhaseBytes> peak_phases;  // that they were born in
  std::uint64_t end_bytes = 0;
  std::uint64_t end_count = 0;
  std::uint64_t max_bytes = 0;      // its own maximum, whenever that was
  std::uint64_t allocations = 0;    // over the run
  std::uint64_t allocated_bytes = 0;
  std::uint64_t median_life_ns = 0; // of the completed ones, within a factor of two; 0 if none
};

struct DeviceSummary {
  DeviceState state;                // at the end, with peaks
  std::string name;                 // empty if unknown
  std::uint64_t total_bytes = 0;    // 0 if unknown
};

struct Summary {
  std::uint64_t duration_ns = 0;
  std::uint64_t events = 0;
  Moment peak;
  Floor top_floor = Floor::None;    // closest to the program of those seen
  std::vector<DeviceSummary> devices;   // the host (-1) last, only if it was seen
  std::vector<SiteSummary> top_sites;   // of every floor seen, most peak bytes first within its floor; top floor first
  std::set<std::uint16_t> pooled;       // processes that cuheap's own pool took memory for
  std::uint64_t unmatched_frees = 0;
  std::uint64_t replaced = 0;
};

struct SummaryOptions {
  Selection selection;              // its floor, if set, limits top_sites
  Floor peak_floor = Floor::None;   // as in When
  std::size_t top_sites = 50;       // per floor; 0: all
};

/// Two passes.
Summary summarize(const Trace& trace, const SummaryOptions& options = {});

}  // namespace cuheap
