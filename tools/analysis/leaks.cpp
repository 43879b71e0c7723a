#include "tools/analysis/leaks.h"

#include <algorithm>

#include "tools/analysis/leak_conclusion.h"

namespace cuheap {
namespace {

int rank(Verdict v) {
  switch (v) {
    case Verdict::GrowingLeak: return 0;
    case Verdict::Leak: return 1;
    case Verdict::Accumulates: return 2;
    case Verdict::Ratchet: return 3;
    case Verdict::Backlog: return 4;
    case Verdict::Undecided: return 5;
    case Verdict::Filling: return 6;
    case Verdict::Plateau: return 7;
    case Verdict::Bounded: return 8;
    case Verdict::WarmUp: return 9;
    case Verdict::None: return 10;
  }
  return 11;
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::None: return "none";
    case Verdict::WarmUp: return "warm_up";
    case Verdict::Filling: return "filling";
    case Verdict::Bounded: return "bounded";
    case Verdict::Plateau: return "plateau";
    case Verdict::Backlog: return "backlog";
    case Verdict::Ratchet: return "ratchet";
    case Verdict::Leak: return "leak";
    case Verdict::GrowingLeak: return "growing_leak";
    case Verdict::Accumulates: return "accumulates";
    case Verdict::Undecided: return "undecided";
  }
  return "unknown";
}

namespace {

void judge_into(LeakReport& report, const LeakEvidenceSet& evidence, const LeakOptions& options) {
  for (const ProcessRun& run : evidence.processes) {
    report.freed_late_bytes += run.freed_late_bytes;
    report.freed_late_blocks += run.freed_late_blocks;
  }
  report.sites_judged += evidence.sites.size();
  for (LeakVerdict& v : conclude(evidence, options.bootstrap_samples)) {
    if (options.keep_none || v.verdict != Verdict::None) report.verdicts.push_back(std::move(v));
  }
}

}  // namespace

LeakReport leaks(const Trace& trace, const LeakOptions& options) {
  bool host_seen = false;
  const LeakEvidenceSet evidence = collect_leak_evidence(trace, options.selection, &host_seen);
  LeakReport report;
  report.floor = evidence.floor;
  for (const ProcessRun& run : evidence.processes) report.clocks.push_back(run.clock);
  judge_into(report, evidence, options);
  // The host's memory has a floor, a clock and an end of its own.
  const bool may = options.selection.floor == Floor::None || options.selection.floor == Floor::Allocation;
  if (host_seen && may && !options.selection.device) {
    Selection host;
    host.device = kHostDevice;
    const LeakEvidenceSet host_evidence = collect_leak_evidence(trace, host);
    if (report.floor == Floor::None) {
      report.floor = host_evidence.floor;
      for (const ProcessRun& run : host_evidence.processes) report.clocks.push_back(run.clock);
    }
    judge_into(report, host_evidence, options);
  }
  std::stable_sort(report.verdicts.begin(), report.verdicts.end(), [](const LeakVerdict& a, const LeakVerdict& b) {
    if (rank(a.verdict) != rank(b.verdict)) return rank(a.verdict) < rank(b.verdict);
    if (a.bytes_per_second != b.bytes_per_second) return a.bytes_per_second > b.bytes_per_second;
    return a.live_bytes != b.live_bytes ? a.live_bytes > b.live_bytes : a.site < b.site;
  });
  return report;
}

}  // namespace cuheap
