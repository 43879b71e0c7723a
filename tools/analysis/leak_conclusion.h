// leak_conclusion: from the evidence of all sites to their verdicts: judges each (leak_verdict.h), corrects for their number,
// puts the size classes of a site together, adds ratchets and the time to out-of-memory. Pure.
#pragma once
#include <vector>

#include "tools/analysis/leak_evidence.h"

namespace cuheap {

/// One verdict a site and kind, Verdict::None included.
std::vector<LeakVerdict> conclude(const LeakEvidenceSet& evidence, std::uint64_t bootstrap_samples);

}  // namespace cuheap
