#include "tools/analysis/oom.h"

#include <algorithm>
#include <cstdio>

#include "tools/analysis/short_name.h"

namespace cuheap {
namespace {

std::string size_text(std::uint64_t bytes) {
  static const char* const kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) { value /= 1024; ++unit; }
  char text[48];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

/// What the rules look at.
struct Facts {
  const OomReport& oom;
  const Trace& trace;
  std::uint64_t request, total, free, held, live, idle, foreign;
  bool free_known, driver_sampled, framework_refused;
  const LeakVerdict* leak;  // the worst one on the device, or null
  std::uint64_t leaked;     // living bytes of all leaks on the device
};

using Text = std::string;
using Lines = std::vector<std::string>;

// --- evidence -----------------------------------------------------------------------------------------------------------

Text asked(const Facts& f) { return "asked for " + size_text(f.request); }
Text free_text(const Facts& f) {
  return size_text(f.free) + " of " + size_text(f.total) + " were free" +
         (f.driver_sampled ? " (driver)" : " (total less what this process holds)");
}
Text idle_text(const Facts& f) {
  return size_text(f.idle) + " were held but idle: " + size_text(f.held) + " held, " + size_text(f.live) + " live";
}
Text live_text(const Facts& f) { return size_text(f.live) + " live"; }
Text foreign_text(const Facts& f) { return size_text(f.foreign) + " of the device are used by nothing that this process asked for"; }
Text leak_text(const Facts& f) {
  return std::string(verdict_name(f.leak->verdict)) + " of " + size_text(static_cast<std::uint64_t>(f.leak->bytes_per_second)) + "/s at " +
         short_name(f.trace, f.leak->site) + "; leaks hold " + size_text(f.leaked);
}
Text top_text(const Facts& f) {
  if (f.oom.top_sites.sites.empty()) return "no living block is known";
  const SiteBytes& s = f.oom.top_sites.sites.front();
  return "largest holder: " + short_name(f.trace, s.site) + " with " + size_text(s.bytes) + " in " + std::to_string(s.count) + " blocks";
}

// --- the rules: the first that applies gives the class ------------------------------------------------------------------

struct Rule {
  const char* name;
  bool (*applies)(const Facts&);
  std::vector<Text (*)(const Facts&)> evidence;
  Lines advice;
  Lines will_not_help;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules = {
      {"recovered",
       [](const Facts& f) { return f.oom.recovered; },
       {asked, free_text},
       {"nothing is broken: the framework gave back idle memory and the same request then succeeded",
        "each time costs a synchronisation: leave more head room if this is frequent"},
       {}},
      {"pinned_host",
       [](const Facts& f) { return f.oom.device == kHostDevice; },
       {asked, live_text, top_text},
       {"use fewer or smaller pinned buffers (data loader workers, offload buffers)",
        "raise the limit of locked memory or the container's memory"},
       {"freeing device memory", "emptying the framework's device cache"}},
      {"exceeds_device",
       [](const Facts& f) { return f.total != 0 && f.request > f.total; },
       {asked, top_text, free_text},
       {"split this request: it is larger than the whole device", "shard over several devices"},
       {"emptying the cache", "allocator settings"}},
      {"sibling_idle",
       [](const Facts& f) { return !f.framework_refused && f.idle >= f.request; },
       {asked, idle_text, free_text},
       {"the caching allocator sits on enough idle memory: have it release its cache before this call",
        "serve both from one pool (cuheap run --pool on), or limit the cache"},
       {"lowering the batch size by a little", "moving tensors to the host"}},
      {"fragmentation",
       [](const Facts& f) { return f.framework_refused && f.idle >= f.request; },
       {asked, idle_text, free_text},
       {"run with the pool (cuheap run --pool on): it moves physical memory under the holes",
        "or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, where no IPC or sleep mode is used",
        "free or move what pins the segments: see cuheap frag"},
       {"emptying the cache: the framework has done that before it failed, what is left is partly in use",
        "max_split_size_mb together with expandable segments"}},
      {"foreign_process",
       [](const Facts& f) {
         return f.driver_sampled && f.foreign >= f.request && f.foreign * 20 >= f.total &&
                f.held + f.request <= f.total;
       },
       {asked, foreign_text, free_text},
       {"look for other processes on the device (nvidia-smi), also for orphans of earlier runs",
        "if there are none: contexts, modules and library memory that no call reports"},
       {"a smaller batch in this process, beyond making room for the other one", "emptying the cache"}},
      {"growth_leak",
       [](const Facts& f) { return f.leak != nullptr && (f.leaked >= f.request || f.leaked * 20 >= f.live); },
       {asked, leak_text, free_text},
       {"fix what grows: see cuheap leaks", "until then restart before the time to out-of-memory"},
       {"a larger device, for long", "emptying the cache", "allocator settings"}},
      {"limit",
       [](const Facts& f) { return f.free_known && f.free >= f.request; },
       {asked, free_text, idle_text},
       {"a limit refused it, not the device: memory fraction, MIG slice, address space, or free memory in pieces",
        "look at set_per_process_memory_fraction and the pool's limits"},
       {"freeing tensors elsewhere"}},
      {"partly_fragmentation",
       [](const Facts& f) { return f.free_known && f.free + f.idle >= f.request; },
       {asked, idle_text, free_text},
       {"free and idle memory together would do: run with the pool (cuheap run --pool on), or expandable segments"},
       {"emptying the cache: the framework has done that before it failed"}},
      {"too_big",
       [](const Facts& f) { return f.total != 0; },
       {asked, live_text, top_text, free_text},
       {"lower what the largest holders scale with (batch, context, concurrency): they are listed",
        "a larger device, or sharding"},
       {"emptying the cache", "defragmentation: nothing was idle"}},
      {"unknown",
       [](const Facts&) { return true; },
       {asked, live_text, top_text},
       {"the device's size is not in this trace: compare with it by hand"},
       {}},
  };
  return kRules;
}

class Collector : public LiveSetObserver {
 public:
  Collector(const Trace& trace, const OomOptions& options) : trace_(trace), options_(options) {}

  void after(const Event& e, const LiveSet& set) override {
    if (e.kind == EventKind::OutOfMemory) collect(e, set);
    else if (e.kind == EventKind::Allocate && !open_.empty()) recover(e);
  }
  std::vector<OomReport> take() { return std::move(reports_); }

 private:
  void collect(const Event& e, const LiveSet& set) {
    if (e.floor == Floor::Framework) drop_causes(e);
    if (reports_.size() >= options_.max_reports) return;
    OomReport r;
    r.at = {e.time_ns, set.events()};
    r.process = e.process;
    r.device = is_host_family(e.family) ? kHostDevice : e.device;
    r.floor = e.floor;
    r.request = e.size;
    r.site = e.site;
    r.phase = e.phase;
    r.thread = e.thread;
    if (const DeviceState* row = set.device(r.device)) r.state = *row;
    r.device_total = r.state.driver_total;
    for (const TraceDevice& d : trace_.devices) if (d.ordinal == r.device && d.total_bytes != 0) r.device_total = d.total_bytes;
    r.top_sites = sites_of(set, {set.top_floor(r.device), r.device});
    r.top_sites.at = r.at;
    if (r.top_sites.sites.size() > options_.top_sites) r.top_sites.sites.resize(options_.top_sites);
    if (e.floor != Floor::Framework) open_.push_back(reports_.size());
    reports_.push_back(std::move(r));
  }

  // The driver's refusals that led to this one of the framework.
  void drop_causes(const Event& e) {
    for (const std::size_t i : open_) if (reports_[i].thread == e.thread && reports_[i].process == e.process) reports_[i].request = 0;
    open_.clear();
    std::erase_if(reports_, [](const OomReport& r) { return r.request == 0; });
    for (std::size_t i = 0; i < reports_.size(); ++i)
      if (reports_[i].floor != Floor::Framework && !reports_[i].recovered) open_.push_back(i);
  }

  void recover(const Event& e) {
    std::erase_if(open_, [&](std::size_t i) {
      OomReport& r = reports_[i];
      if (r.thread != e.thread || r.process != e.process || r.floor != e.floor || e.size < r.request) return false;
      return r.recovered = true;
    });
  }

  const Trace& trace_;
  OomOptions options_;
  std::vector<OomReport> reports_;
  std::vector<std::size_t> open_;  // refusals of the driver that nobody has answered yet
};

Facts facts_of(const OomReport& oom, const Trace& trace, const LeakReport* leaks) {
  const DeviceState& s = oom.state;
  const Floor floor = s[Floor::Framework].seen ? Floor::Framework : Floor::Allocation;
  Facts f{oom, trace, oom.request, oom.device_total, 0, s[floor].held, s[floor].live, 0, 0, false, s.memory_info_seen,
          oom.floor == Floor::Framework || floor == Floor::Allocation, nullptr, 0};
  f.idle = f.held - std::min(f.held, f.live);
  const std::uint64_t ours = s[Floor::Physical].held;
  const std::uint64_t used = s.memory_info_seen ? s.driver_total - std::min(s.driver_total, s.driver_free) : ours;
  f.foreign = s.memory_info_seen ? used - std::min(used, ours) : 0;
  f.free_known = f.total != 0;
  f.free = f.total - std::min(f.total, std::max(used, ours));
  if (leaks == nullptr) return f;
  for (const LeakVerdict& v : leaks->verdicts) {
    const bool grows = v.verdict == Verdict::Leak || v.verdict == Verdict::GrowingLeak || v.verdict == Verdict::Accumulates;
    if (!grows || v.device != oom.device) continue;
    if (f.leak == nullptr) f.leak = &v;
    f.leaked += v.live_bytes;
  }
  return f;
}

void classify(OomReport& oom, const Trace& trace, const LeakReport* leaks) {
  const Facts facts = facts_of(oom, trace, leaks);
  oom.device_free = facts.free;
  const auto rule = std::find_if(rules().begin(), rules().end(), [&](const Rule& r) { return r.applies(facts); });
  oom.oom_class = rule->name;
  for (const auto& evidence : rule->evidence) oom.evidence.push_back(evidence(facts));
  oom.advice = rule->advice;
  oom.will_not_help = rule->will_not_help;
}

}  // namespace

std::vector<OomReport> ooms(const Trace& trace, const LeakReport* leaks, const OomOptions& options) {
  LiveSet set;
  Collector collector(trace, options);
  replay(trace, set, {&collector});
  std::vector<OomReport> reports = collector.take();
  for (OomReport& oom : reports) classify(oom, trace, leaks);
  return reports;
}

}  // namespace cuheap
