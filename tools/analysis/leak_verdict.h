// leak_verdict: from the evidence of one site and size class to its verdict. Pure; the steps and their order are those of
// docs/leaks.md.
#pragma once
#include <string>

#include "tools/analysis/leak_evidence.h"

namespace cuheap {

struct JudgeContext {
  const ProcessRun& run;
  const SiteSizes& sizes;           // of the site, all its classes
  std::string clock_name;           // "step", "allocations" or "seconds"
  std::string cycle_name;           // ProcessRun::cycle_label
  std::uint64_t bootstrap_samples;
  bool trend_is_chance = false;     // the site's other size classes say so (leak_conclusion.cpp)
};

LeakVerdict judge(const LeakEvidence& evidence, const JudgeContext& context);

/// Sizes rise, live stays flat, what the floor holds idle grows.
bool is_ratchet(const SiteSizes& sizes, const DeviceRun& device);

}  // namespace cuheap
