// oom: every out-of-memory of a run: what was asked for, the state of the floors at that moment, who held the memory, and a
// first class by rules (a table in oom.cpp) with evidence, advice and what will not help.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/analysis/leaks.h"
#include "tools/analysis/peak.h"

namespace cuheap {

struct OomReport {
  Moment at;                       // the OutOfMemory event
  std::uint16_t process = 0;
  std::int16_t device = 0;
  Floor floor = Floor::None;       // that refused
  std::uint64_t request = 0;
  SiteId site = 0;                 // who asked
  PhaseId phase = 0;
  std::uint32_t thread = 0;
  bool recovered = false;          // the same thread then got that much: a framework gave back its cache and tried again
  DeviceState state;               // of the device, then
  std::uint64_t device_total = 0;  // 0: unknown
  std::uint64_t device_free = 0;   // by the driver, if asked while nothing moved (free_is_exact); else at most; 0 if unknown
  bool free_is_exact = false;
  std::string oom_class;           // recovered, pinned_host, exceeds_device, foreign_process, fragmentation, sibling_idle,
                                   // growth_leak, limit, partly_fragmentation, peak, too_big, unknown
  std::vector<std::string> evidence;
  std::vector<std::string> advice;
  std::vector<std::string> will_not_help;
  LiveSites top_sites;             // live then, on the floor closest to the program
  std::uint64_t old_ns = 0;        // half of the time until then: top_sites' old_bytes are older
  std::uint64_t left_out = 0;      // refusals just before this one that are not in the list (OomOptions::max_reports)
};

struct OomOptions {
  std::size_t max_reports = 100;   // the first half and the last half of them
  std::size_t top_sites = 20;
};

/// Two passes; `leaks` may be null. One report a refusal: what the pool and the driver refused is part of the refusal of the
/// floor above that it led to.
std::vector<OomReport> ooms(const Trace& trace, const LeakReport* leaks = nullptr, const OomOptions& options = {});

/// The one that a person asks about: the last that was not recovered, else the last; null if there is none.
const OomReport* fatal_of(const std::vector<OomReport>& reports);

/// Its moment.
std::optional<Moment> moment_of_oom(const Trace& trace);

}  // namespace cuheap
