// Whose phase memory belongs to, as the answers of several commands say it.
#include <fmt/format.h>

#include "tools/analysis/phases.h"
#include "tools/commands/answers.h"

namespace cuheap {

void add_phases(const Trace& trace, const std::vector<PhaseBytes>& phases, Json& json) {
  for (const PhaseKind& kind : phases_by_kind(trace, phases))
    json["phases"].push_back({{"phase", printable(kind.name)}, {"bytes", kind.bytes}, {"count", kind.count}});
}

std::string phases_text(const Trace& trace, const std::vector<PhaseBytes>& phases) {
  constexpr std::size_t kShown = 3;
  const std::vector<PhaseKind> kinds = phases_by_kind(trace, phases);
  if (kinds.size() == 1) return ", in " + printable(kinds[0].name);
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, kinds.size()); ++i)
    text += fmt::format("{}{} {}", i == 0 ? ", in " : " and ", printable(kinds[i].name), size_text(kinds[i].bytes));
  if (kinds.size() > kShown) text += fmt::format(" and {} more", kinds.size() - kShown);
  return text;
}

}  // namespace cuheap
