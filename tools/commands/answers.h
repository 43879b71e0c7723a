// Results of the analyses as JSON, keys as docs/json.md has them. Several commands give parts of the same answers:
// `summary` stands alone and inside `rehearse`.
#pragma once
#include <string>
#include <vector>

#include "tools/analysis/peak.h"
#include "tools/analysis/summary.h"
#include "tools/commands/output.h"
#include "tools/model/trace.h"

namespace cuheap {

Json summary_json(const Trace& trace, const Summary& summary);
/// Of summary.top_sites, one each: the sites of a floor are told apart.
std::vector<std::string> top_site_names(const Trace& trace, const Summary& summary);
void print_summary(const Trace& trace, const Summary& summary, std::size_t sites, std::FILE* out);

/// What a floor's peak means: what it has taken on the physical floor, what it has handed out on the others.
struct FloorPeak {
  std::uint64_t bytes = 0, at_ns = 0, end = 0;
};
FloorPeak peak_of(const FloorState& state, Floor floor);

/// "0", "host".
std::string device_text(std::int16_t device);

/// Adds `phases`, those that blocks were born in, most bytes first; nothing where none was open. Those that differ by a count
/// are one.
void add_phases(const Trace& trace, const std::vector<PhaseBytes>& phases, Json& json);
/// ", in train"; ", in train 1.20 GiB and eval 300 MiB"; empty where none was open.
std::string phases_text(const Trace& trace, const std::vector<PhaseBytes>& phases);

constexpr Floor kFloorsTopDown[] = {Floor::Framework, Floor::Allocation, Floor::Physical};

}  // namespace cuheap
