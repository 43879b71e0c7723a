// peak: the live set at a moment by site: what the peak, the end or any time consists of. Also what a window allocated
// and has not given back. Feeds the flame graph (flame.h), the summary and the sites table.
#pragma once
#include <cstdint>
#include <vector>

#include "tools/analysis/replay.h"

namespace cuheap {

/// Of the blocks born in one phase.
struct PhaseBytes {
  PhaseId phase = 0;  // 0: outside any
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

struct SiteBytes {
  SiteId site = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;   // blocks
  std::uint64_t old_bytes = 0;  // of reports that say since when (oom.h)
  std::vector<PhaseBytes> phases = {};  // what they sum up, in order of PhaseId
};

struct LiveSites {
  Moment at;
  Floor floor = Floor::None; // as chosen
  std::uint64_t total = 0;   // bytes; sum over sites
  std::uint64_t count = 0;
  std::vector<SiteBytes> sites;  // most bytes first
};

/// Two passes for the peak, one otherwise.
LiveSites live_at(const Trace& trace, const When& when, const Selection& selection = {});
LiveSites live_at(const Trace& trace, Moment at, const Selection& selection = {});

/// Born in [from_ns, to_ns) and still alive at to_ns.
LiveSites allocated_and_alive(const Trace& trace, std::uint64_t from_ns, std::uint64_t to_ns, const Selection& selection = {});

/// The living blocks of `set` by site; `selection.floor` must be set.
LiveSites sites_of(const LiveSet& set, const Selection& selection);

struct SiteChange {
  SiteId site = 0;
  std::uint64_t before = 0;
  std::uint64_t after = 0;
};
/// Difference of two moments of one trace, largest change first.
std::vector<SiteChange> difference(const LiveSites& before, const LiveSites& after);

}  // namespace cuheap
