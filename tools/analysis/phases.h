// phases: what a person calls a phase. Phases that differ only by a count ("step 1", "step 2") are one kind.
#pragma once
#include <string>
#include <vector>

#include "tools/analysis/peak.h"
#include "tools/model/trace.h"

namespace cuheap {

/// "epoch 3", "step_12", "iter 7/100": a name less the count that it ends in.
std::string without_count(const std::string& name);

/// Its name; "outside phases" for none.
std::string phase_name(const Trace& trace, PhaseId phase);

struct PhaseKind {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;  // blocks
};

/// By kind, most bytes first; empty where nothing was born in a phase.
std::vector<PhaseKind> phases_by_kind(const Trace& trace, const std::vector<PhaseBytes>& phases);

}  // namespace cuheap
