#include "tools/analysis/phases.h"

#include <algorithm>
#include <map>

namespace cuheap {

std::string without_count(const std::string& name) {
  const std::size_t last = name.find_last_not_of("0123456789 _-:#/.,=");
  const bool counts = !name.empty() && name.find_first_of("0123456789", last == std::string::npos ? 0 : last + 1) != std::string::npos;
  return !counts || last == std::string::npos ? name : name.substr(0, last + 1);
}

std::string phase_name(const Trace& trace, PhaseId phase) {
  return phase == 0 || phase >= trace.names.size() ? "outside phases" : trace.names[phase];
}

std::vector<PhaseKind> phases_by_kind(const Trace& trace, const std::vector<PhaseBytes>& phases) {
  if (std::all_of(phases.begin(), phases.end(), [](const PhaseBytes& p) { return p.phase == 0; })) return {};
  std::map<std::string, PhaseKind> by_name;
  for (const PhaseBytes& p : phases) {
    PhaseKind& kind = by_name[without_count(phase_name(trace, p.phase))];
    kind.bytes += p.bytes;
    kind.count += p.count;
  }
  std::vector<PhaseKind> kinds;
  for (auto& [name, kind] : by_name) {
    kind.name = name;
    kinds.push_back(kind);
  }
  std::stable_sort(kinds.begin(), kinds.end(), [](const PhaseKind& a, const PhaseKind& b) { return a.bytes > b.bytes; });
  return kinds;
}

}  // namespace cuheap
