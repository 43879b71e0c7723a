#include "tools/analysis/oom.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

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

std::string seconds_text(std::uint64_t ns) {
  char text[48];
  std::snprintf(text, sizeof text, ns < 1'000'000'000 ? "%.3g ms" : "%.3g s", static_cast<double>(ns) / (ns < 1'000'000'000 ? 1e6 : 1e9));
  return text;
}

/// What lived at a refusal, looked at as a whole. Transient are the sites that gave back most of what they ever took.
struct Holding {
  std::uint64_t tails = 0;             // behind pooled blocks, up to the next granule: another such block cannot begin there
  std::uint64_t transient_bytes = 0, transient_blocks = 0;
  double usual_bytes = 0;              // of the same sites, the mean over the run until then
  SiteId site = 0;                     // that holds most of it
  std::uint64_t site_bytes = 0, site_blocks = 0;
  std::uint64_t old_bytes = 0;         // born before OomReport::old_ns ago
};

/// What the rules look at.
struct Facts {
  const OomReport& oom;
  const Trace& trace;
  Holding holding;
  std::uint64_t request, total, free, held, live, idle, foreign;
  bool free_exact;          // else `free` is an upper bound
  bool driver_sampled, framework_refused;
  bool framework_seen;      // a framework's cache stands above the driver
  bool pool_on;             // cuheap's own pool served this process
  const LeakVerdict* leak;  // the worst one on the device, or null
  std::uint64_t leaked;     // living bytes of all leaks on the device

  /// Beside what is not transient.
  std::uint64_t room() const { return free + holding.transient_bytes; }
  bool has_leak() const { return leak != nullptr && (leaked >= request || leaked * 20 >= live); }
  /// What grows is more than what is idle: joining the holes would only put off the end. What merely accumulates may be a
  /// cache, and must be most of what lives.
  bool grows_first() const {
    return has_leak() && leaked > idle && (leak->verdict != Verdict::Accumulates || leaked * 2 >= live);
  }
};

using Text = std::string;
using Lines = std::vector<std::string>;

/// A variable of the environment that the recorder noted for the process that was refused; empty if it was not set.
Text environment(const Facts& f, const char* name) {
  if (f.oom.process >= f.trace.processes.size()) return {};
  const auto& meta = f.trace.processes[f.oom.process].meta;
  const auto found = meta.find(std::string("env.") + name);
  return found == meta.end() ? Text() : found->second;
}
bool cache_option(const Facts& f, const char* option) {
  return (environment(f, "PYTORCH_CUDA_ALLOC_CONF") + "," + environment(f, "PYTORCH_ALLOC_CONF")).find(option) != Text::npos;
}

// --- evidence -----------------------------------------------------------------------------------------------------------

Text asked(const Facts& f) { return "asked for " + size_text(f.request); }
Text free_text(const Facts& f) {
  if (f.total == 0) return "how much was free is not known";
  if (f.free_exact) return size_text(f.free) + " of " + size_text(f.total) + " were free (driver)";
  return "at most " + size_text(f.free) + " of " + size_text(f.total) + " were free (total less what this process holds" +
         (f.driver_sampled ? " and what was used beside it when the driver was last asked)" : ", its context left out)");
}
Text idle_text(const Facts& f) {
  const std::string text = size_text(f.idle) + " were held but idle: " + size_text(f.held) + " held, " + size_text(f.live) + " live";
  if (f.holding.tails == 0 || f.framework_seen) return text;
  return text + ", " + size_text(f.holding.tails) + " behind large blocks up to their next 2 MiB, where only small ones fit";
}
Text live_text(const Facts& f) { return size_text(f.live) + " live"; }
Text foreign_text(const Facts& f) { return size_text(f.foreign) + " of the device are used by nothing that this process asked for"; }
Text leak_text(const Facts& f) {
  return std::string(verdict_name(f.leak->verdict)) + " of " + size_text(static_cast<std::uint64_t>(f.leak->bytes_per_second)) + "/s at " +
         short_name(f.trace, f.leak->site) + "; leaks hold " + size_text(f.leaked);
}
Text blocks_text(std::uint64_t count) { return std::to_string(count) + (count == 1 ? " block" : " blocks"); }
Text top_text(const Facts& f) {
  if (f.oom.top_sites.sites.empty()) return "no living block is known";
  const SiteBytes& s = f.oom.top_sites.sites.front();
  return "largest holder: " + short_name(f.trace, s.site) + " with " + size_text(s.bytes) + " in " + blocks_text(s.count);
}
Text age_text(const Facts& f) {
  return size_text(f.holding.old_bytes) + " of " + size_text(f.oom.top_sites.total) + " are older than " + seconds_text(f.oom.old_ns);
}
Text fixed_text(const Facts& f) {
  const std::uint64_t fixed = f.live - std::min(f.live, f.holding.transient_bytes);
  return size_text(fixed) + " stay, at sites that give little back; the room beside them was " + size_text(f.room());
}
Text transient_text(const Facts& f) {
  const Holding& h = f.holding;
  return "on top " + size_text(h.transient_bytes) + " in " + std::to_string(h.transient_blocks) + " short-lived " +
         (h.transient_blocks == 1 ? "block" : "blocks at once") + "; usual for their sites are " +
         size_text(static_cast<std::uint64_t>(h.usual_bytes)) + "; most at " + short_name(f.trace, h.site) + " with " +
         size_text(h.site_bytes) + " in " + std::to_string(h.site_blocks);
}

// --- advice -------------------------------------------------------------------------------------------------------------

/// The framework's cache holds it idle: what keeps its segments from being cut up. The pool stands below that cache and cannot
/// move what is inside; it can once the cache is out of the way.
Lines cache_advice(const Facts& f) {
  const bool expandable = cache_option(f, "expandable_segments:True"), split = cache_option(f, "max_split_size_mb");
  const bool uncached = !environment(f, "PYTORCH_NO_CUDA_MEMORY_CACHING").empty();
  Lines lines;
  if (!expandable && !uncached)
    lines.push_back("set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, where no IPC or sleep mode is used");
  if (!expandable && !split && !uncached)
    lines.push_back("or PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:N below this request: large segments then stay whole");
  if (!uncached)
    lines.push_back(Text(lines.empty() ? "set " : "or ") + "PYTORCH_NO_CUDA_MEMORY_CACHING=1" +
                    (f.pool_on ? "" : " with cuheap run --pool on") + ": the pool then serves every tensor and joins its holes");
  else if (!f.pool_on)
    lines.push_back("run with the pool (cuheap run --pool on): it joins holes");
  lines.push_back("free or move what pins the segments: see cuheap frag --at oom");
  return lines;
}

/// No framework seen: only cuheap's pool can hold anything idle.
Lines pool_advice(const Facts& f) {
  if (!f.pool_on) return {"run with the pool (cuheap run --pool on): it moves physical memory under the holes"};
  return {"the pool could not join these holes: small blocks keep their granules, and so do captured graphs and exported memory, "
          "where there are any"};
}

Lines idle_advice(const Facts& f) { return f.framework_seen ? cache_advice(f) : pool_advice(f); }

Lines sibling_advice(const Facts& f) {
  Lines lines = {"the caching allocator sits on enough idle memory: have it release its cache before this call "
                 "(torch.cuda.empty_cache())",
                 "or limit the cache (set_per_process_memory_fraction, garbage_collection_threshold)"};
  if (environment(f, "PYTORCH_NO_CUDA_MEMORY_CACHING").empty())
    lines.push_back(Text("or serve both from one pool: PYTORCH_NO_CUDA_MEMORY_CACHING=1") +
                    (f.pool_on ? "" : " with cuheap run --pool on"));
  return lines;
}

Lines limit_advice(const Facts& f) {
  Lines lines = {"a limit refused it, not the device: memory fraction, MIG slice, address space, or free memory in pieces"};
  if (f.framework_seen) lines.push_back("look at set_per_process_memory_fraction");
  if (f.pool_on) lines.push_back("look at the pool's limits");
  return lines;
}

Lines unknown_advice(const Facts& f) {
  if (f.total == 0) return {"the device's size is not in this trace: compare with it by hand"};
  return {"what was really free is not in this trace (the driver was not asked at that moment): look for contexts, library "
          "memory and other processes (nvidia-smi)"};
}

Lines cache_will_not_help(const Facts& f) { return f.framework_seen ? Lines{"emptying the cache"} : Lines{}; }

Lines holes_will_not_help(const Facts& f) {
  if (!f.framework_seen) return {"settings of a framework's allocator: none was seen above the driver"};
  return {"emptying the cache: the framework has done that before it failed, what is left is partly in use",
          "max_split_size_mb together with expandable segments"};
}

/// What no setting of an allocator mends.
Lines with_cache(const Facts& f, Lines lines) {
  for (const Text& line : cache_will_not_help(f)) lines.push_back(line);
  return lines;
}

// --- the rules: the first that applies gives the class ------------------------------------------------------------------

struct Rule {
  const char* name;
  bool (*applies)(const Facts&);
  std::vector<Text (*)(const Facts&)> evidence;
  Lines (*advice)(const Facts&);
  Lines (*will_not_help)(const Facts&);
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules = {
      {"recovered",
       [](const Facts& f) { return f.oom.recovered; },
       {asked, free_text},
       [](const Facts&) -> Lines {
         return {"nothing is broken: the framework gave back idle memory and the same request then succeeded",
        "each time costs a synchronisation: leave more head room if this is frequent"};
       },
       [](const Facts&) -> Lines { return {}; }},
      {"pinned_host",
       [](const Facts& f) { return f.oom.device == kHostDevice; },
       {asked, live_text, top_text},
       [](const Facts&) -> Lines {
         return {"use fewer or smaller pinned buffers (data loader workers, offload buffers)",
        "raise the limit of locked memory or the container's memory"};
       },
       [](const Facts&) -> Lines { return {"freeing device memory", "emptying a framework's device cache"}; }},
      {"exceeds_device",
       [](const Facts& f) { return f.total != 0 && f.request > f.total; },
       {asked, top_text, free_text},
       [](const Facts&) -> Lines {
         return {"split this request: it is larger than the whole device", "shard over several devices"};
       },
       [](const Facts& f) { return with_cache(f, {"allocator settings"}); }},
      {"sibling_idle",
       [](const Facts& f) { return !f.framework_refused && f.idle >= f.request && !f.grows_first(); },
       {asked, idle_text, free_text},
       sibling_advice,
       [](const Facts&) -> Lines { return {"lowering the batch size by a little", "moving tensors to the host"}; }},
      {"fragmentation",
       [](const Facts& f) { return f.framework_refused && f.idle >= f.request && !f.grows_first(); },
       {asked, idle_text, free_text},
       idle_advice,
       holes_will_not_help},
      {"foreign_process",
       [](const Facts& f) {
         return f.driver_sampled && f.foreign >= f.request && f.foreign * 20 >= f.total &&
                f.held + f.request <= f.total && f.leaked <= f.foreign;
       },
       {asked, foreign_text, free_text},
       [](const Facts&) -> Lines {
         return {"look for other processes on the device (nvidia-smi), also for orphans of earlier runs",
        "if there are none: contexts, modules and library memory that no call reports"};
       },
       [](const Facts& f) { return with_cache(f, {"a smaller batch in this process, beyond making room for the other one"}); }},
      {"growth_leak",
       [](const Facts& f) { return f.has_leak(); },
       {asked, leak_text, age_text, free_text},
       [](const Facts&) -> Lines {
         return {"fix what grows: see cuheap leaks", "until then restart before the time to out-of-memory"};
       },
       [](const Facts& f) { return with_cache(f, {"a larger device, for long", "allocator settings"}); }},
      {"limit",
       [](const Facts& f) { return f.free_exact && f.free >= f.request; },
       {asked, free_text, idle_text},
       limit_advice,
       [](const Facts&) -> Lines { return {"freeing tensors elsewhere"}; }},
      {"partly_fragmentation",
       // A sliver of idle memory is beside the point: it decides by chance, and most of it cannot be had.
       [](const Facts& f) {
         const bool counts = f.idle * 2 >= f.request || f.idle * 20 >= f.held;
         return f.idle != 0 && counts && f.free < f.request && f.free + f.idle >= f.request;
       },
       {asked, idle_text, free_text},
       [](const Facts& f) {
         Lines lines = idle_advice(f);
         lines.front() = "free and idle memory together would do: " + lines.front();
         return lines;
       },
       [](const Facts& f) -> Lines {
         return f.framework_seen ? Lines{"emptying the cache: what could be given back was, before it failed"} : Lines{};
       }},
      {"peak",
       [](const Facts& f) {
         const Holding& h = f.holding;
         return f.total != 0 && f.free < f.request && f.room() >= f.request && h.transient_bytes != 0 &&
                static_cast<double>(h.transient_bytes) >= 2 * h.usual_bytes;
       },
       {asked, fixed_text, transient_text, age_text, free_text},
       [](const Facts&) -> Lines {
         return {"bound what runs at once (long requests, batch, streams): by itself this request would have fitted",
                 "or leave more room: lower what stays, for instance what is reserved at the start for a cache"};
       },
       [](const Facts& f) { return with_cache(f, {"defragmentation: too little was idle"}); }},
      {"too_big",
       [](const Facts& f) { return f.total != 0 && f.free < f.request; },
       {asked, live_text, top_text, age_text, free_text},
       [](const Facts&) -> Lines {
         return {"lower what the largest holders scale with (batch, context, concurrency): they are listed",
        "a larger device, or sharding"};
       },
       [](const Facts& f) { return with_cache(f, {"defragmentation: too little was idle"}); }},
      {"unknown",
       [](const Facts&) { return true; },
       {asked, live_text, top_text, free_text},
       unknown_advice,
       [](const Facts&) -> Lines { return {}; }},
  };
  return kRules;
}

/// A refusal while the replay goes by.
struct Refusal {
  OomReport report;
  bool has_sample = false;           // the driver was asked with no change of physical memory between
  bool follows = false;              // and after the refusal, which is better
  std::uint64_t sampled_free = 0;
  std::uint64_t beside = 0;          // used beside what this trace's processes held, when the driver was last asked
  bool pool_on = false;
};

class Collector : public LiveSetObserver {
 public:
  Collector(const Trace& trace, const OomOptions& options) : trace_(trace), options_(options) {}

  void born(Block& block, const Event&) override {
    changed(block);
    if (block.family == Family::PoolGranule) pooled_.insert(block.process);
  }
  void died(const Block& block, const Event&, Death) override { changed(block); }
  void revived(Block& block, const Event&) override { changed(block); }
  void resized(const Block& block, std::uint64_t, const Event&) override { changed(block); }
  void after(const Event& e, const LiveSet& set) override {
    if (e.kind == EventKind::OutOfMemory) collect(e, set);
    else if (e.kind == EventKind::MemoryInfo) sample(e, set);
    else if (e.kind == EventKind::Allocate && !open_.empty()) recover(e);
  }
  std::vector<std::unique_ptr<Refusal>> take() { return std::move(refusals_); }

 private:
  struct Sample {
    bool seen = false, unchanged = false;
    std::uint64_t free = 0, beside = 0;
  };

  // The driver's figure speaks of a refusal only as long as no physical memory came or went between the two.
  void changed(const Block& block) {
    if (!counts_on(block, Floor::Physical)) return;
    samples_[block.device].unchanged = false;
    std::erase_if(waiting_, [&](const Refusal* r) { return r->report.device == block.device; });
  }

  void sample(const Event& e, const LiveSet& set) {
    const DeviceState* const row = set.device(e.device);
    const std::uint64_t used = e.extra0 - std::min(e.extra0, e.size), ours = row == nullptr ? 0 : (*row)[Floor::Physical].held;
    samples_[e.device] = {true, true, e.size, used - std::min(used, ours)};
    std::erase_if(waiting_, [&](Refusal* r) {
      if (r->report.device != e.device) return false;
      r->has_sample = r->follows = true;
      r->sampled_free = e.size;
      r->beside = samples_[e.device].beside;
      return true;
    });
  }

  void collect(const Event& e, const LiveSet& set) {
    drop_causes(e);
    auto refusal = std::make_unique<Refusal>();
    OomReport& r = refusal->report;
    r.at = {e.time_ns, set.events()};
    r.process = e.process;
    r.device = is_host_family(e.family) ? kHostDevice : e.device;
    r.floor = e.floor;
    r.request = e.size;
    r.site = e.site;
    r.phase = e.phase;
    r.thread = e.thread;
    if (const DeviceState* row = set.device(r.device)) r.state = *row;
    if (e.floor == Floor::Framework && e.extra1 != 0) {  // what it says of itself then; our own sums trail behind a moment
      r.state.floors[index_of(Floor::Framework)].live = e.extra0;
      r.state.floors[index_of(Floor::Framework)].held = e.extra1;
      r.state.floors[index_of(Floor::Framework)].seen = true;
    }
    r.device_total = r.state.driver_total;
    for (const TraceDevice& d : trace_.devices) if (d.ordinal == r.device && d.total_bytes != 0) r.device_total = d.total_bytes;
    const Sample& last = samples_[r.device];
    refusal->has_sample = last.seen && last.unchanged;
    refusal->sampled_free = last.free;
    refusal->beside = last.beside;
    refusal->pool_on = pooled_.contains(e.process);
    waiting_.push_back(refusal.get());
    if (e.floor != Floor::Framework) open_.push_back(refusal.get());
    refusals_.push_back(std::move(refusal));
    if (refusals_.size() > options_.max_reports) leave_one_out();
  }

  void forget(const Refusal* gone) {
    std::erase(open_, gone);
    std::erase(waiting_, gone);
  }

  void leave_one_out() {
    const auto at = refusals_.begin() + static_cast<std::ptrdiff_t>(options_.max_reports / 2);
    forget(at->get());
    if (at + 1 != refusals_.end()) (*(at + 1))->report.left_out += (*at)->report.left_out + 1;
    refusals_.erase(at);
  }

  // What led to this one: the driver's and the pool's refusals below the framework's, the pool's below the driver's. All of
  // one thread, and unanswered.
  void drop_causes(const Event& e) {
    const auto is_cause = [&](const Refusal* r) {
      const OomReport& cause = r->report;
      if (cause.thread != e.thread || cause.process != e.process) return false;
      if (e.floor == Floor::Framework) return cause.floor != Floor::Framework;
      return e.floor == Floor::Allocation && cause.floor == Floor::Physical && cause.request == e.size && cause.device == e.device;
    };
    for (std::size_t i = open_.size(); i-- > 0;) {
      Refusal* const cause = open_[i];
      if (!is_cause(cause)) continue;
      const auto at = std::find_if(refusals_.begin(), refusals_.end(), [&](const auto& r) { return r.get() == cause; });
      forget(cause);
      if (at != refusals_.end() && at + 1 != refusals_.end()) (*(at + 1))->report.left_out += cause->report.left_out;
      if (at != refusals_.end()) refusals_.erase(at);
    }
  }

  void recover(const Event& e) {
    std::erase_if(open_, [&](Refusal* refusal) {
      OomReport& r = refusal->report;
      const bool answers = r.floor == e.floor || (r.floor == Floor::Physical && e.floor == Floor::Allocation);
      if (r.thread != e.thread || r.process != e.process || !answers || e.size < r.request) return false;
      return r.recovered = true;
    });
  }

  const Trace& trace_;
  OomOptions options_;
  std::vector<std::unique_ptr<Refusal>> refusals_;
  std::vector<Refusal*> open_;     // refusals of the driver that nobody has answered yet
  std::vector<Refusal*> waiting_;  // for the driver's next figure
  std::map<std::int16_t, Sample> samples_;
  std::set<std::uint16_t> pooled_;
};

/// Who held the memory at each of the refusals that are listed: a pass of its own, so that a million refusals cost no more.
class Holders : public LiveSetObserver {
 public:
  Holders(std::vector<OomReport>& reports, std::size_t top_sites) : reports_(reports), top_sites_(top_sites) {}

  void born(Block& b, const Event& e) override { move(b, e, static_cast<double>(b.size), 0); }
  void died(const Block& b, const Event& e, Death) override { move(b, e, -static_cast<double>(b.size), 1); }
  void revived(Block& b, const Event& e) override { move(b, e, static_cast<double>(b.size), -1); }
  void resized(const Block& b, std::uint64_t old_size, const Event& e) override {
    move(b, e, static_cast<double>(b.size) - static_cast<double>(old_size), 0);
  }
  void after(const Event& e, const LiveSet& set) override {
    if (first_ns_ == 0) first_ns_ = e.time_ns;
    if (next_ == reports_.size() || reports_[next_].at.events != set.events()) return;
    OomReport& r = reports_[next_++];
    const Floor floor = set.top_floor(r.device);
    r.old_ns = (r.at.time_ns - std::min(r.at.time_ns, first_ns_)) / 2;
    r.top_sites = sites_of(set, {floor, r.device});
    r.top_sites.at = r.at;
    holdings.push_back(look(set, r, floor));
    if (r.top_sites.sites.size() > top_sites_) r.top_sites.sites.resize(top_sites_);
  }
  std::vector<Holding> holdings;  // by report

 private:
  static constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;

  struct Level {
    double bytes = 0, area = 0;  // area: bytes times nanoseconds
    std::uint64_t since_ns = 0;
    std::int64_t deaths = 0;
    void to(std::uint64_t ns) {
      area += bytes * static_cast<double>(ns - std::min(ns, since_ns));
      since_ns = ns;
    }
  };
  using Levels = std::unordered_map<SiteId, Level>;

  void move(const Block& b, const Event& e, double bytes, int deaths) {
    for (const Floor floor : {Floor::Framework, Floor::Allocation}) {
      if (!counts_on(b, floor)) continue;
      Level& level = levels_[{floor, b.device}][b.site];
      level.to(e.time_ns);
      level.bytes += bytes;
      level.deaths += deaths;
    }
  }

  Holding look(const LiveSet& set, OomReport& r, Floor floor) {
    Holding h;
    std::unordered_map<SiteId, std::uint64_t> old;
    set.for_each_block([&](const Block& b) {
      if (b.device != r.device) return;
      if ((b.flags & kEventPooled) != 0 && b.size >= kGranule) h.tails += (kGranule - b.size % kGranule) % kGranule;
      if (counts_on(b, floor) && b.time_ns + r.old_ns < r.at.time_ns) old[b.site] += b.size;
    });
    const double run_ns = static_cast<double>(r.at.time_ns - std::min(r.at.time_ns, first_ns_));
    Levels& levels = levels_[{floor, r.device}];
    for (SiteBytes& s : r.top_sites.sites) {
      if (const auto it = old.find(s.site); it != old.end()) h.old_bytes += s.old_bytes = it->second;
      Level& level = levels[s.site];
      level.to(r.at.time_ns);
      if (level.deaths < kGaveBack * static_cast<std::int64_t>(s.count)) continue;
      h.transient_bytes += s.bytes;
      h.transient_blocks += s.count;
      if (run_ns > 0) h.usual_bytes += level.area / run_ns;
      if (s.bytes <= h.site_bytes) continue;
      h.site = s.site;
      h.site_bytes = s.bytes;
      h.site_blocks = s.count;
    }
    return h;
  }

  static constexpr std::int64_t kGaveBack = 4;  // so many blocks for each that lives make a site transient

  std::vector<OomReport>& reports_;
  std::size_t top_sites_, next_ = 0;
  std::uint64_t first_ns_ = 0;
  std::map<std::pair<Floor, std::int16_t>, Levels> levels_;
};

Facts facts_of(const OomReport& oom, const Refusal& refusal, const Holding& holding, const Trace& trace, const LeakReport* leaks) {
  const DeviceState& s = oom.state;
  const Floor floor = s[Floor::Framework].seen ? Floor::Framework : Floor::Allocation;
  const bool seen = floor == Floor::Framework;
  Facts f{oom, trace, holding, oom.request, oom.device_total, 0, s[floor].held, s[floor].live, 0, refusal.beside,
          refusal.has_sample, s.memory_info_seen || refusal.has_sample, oom.floor == Floor::Framework || !seen, seen,
          refusal.pool_on, nullptr, 0};
  f.idle = f.held - std::min(f.held, f.live);
  if (!seen) f.idle -= std::min(f.idle, holding.tails);
  const std::uint64_t ours = std::max(s[Floor::Physical].held, f.held);
  f.free = f.total - std::min(f.total, ours + refusal.beside);
  if (f.free_exact) f.free = std::min(refusal.sampled_free, f.total - std::min(f.total, f.held));
  if (leaks == nullptr) return f;
  for (const LeakVerdict& v : leaks->verdicts) {
    const bool grows = v.verdict == Verdict::Leak || v.verdict == Verdict::GrowingLeak || v.verdict == Verdict::Accumulates;
    if (!grows || v.device != oom.device) continue;
    if (f.leak == nullptr) f.leak = &v;
    f.leaked += v.live_bytes;
  }
  return f;
}

void classify(OomReport& oom, const Refusal& refusal, const Holding& holding, const Trace& trace, const LeakReport* leaks) {
  const Facts facts = facts_of(oom, refusal, holding, trace, leaks);
  oom.device_free = facts.free;
  oom.free_is_exact = facts.free_exact;
  const auto rule = std::find_if(rules().begin(), rules().end(), [&](const Rule& r) { return r.applies(facts); });
  oom.oom_class = rule->name;
  for (const auto& evidence : rule->evidence) oom.evidence.push_back(evidence(facts));
  oom.advice = rule->advice(facts);
  oom.will_not_help = rule->will_not_help(facts);
}

}  // namespace

std::vector<OomReport> ooms(const Trace& trace, const LeakReport* leaks, const OomOptions& options) {
  LiveSet set;
  Collector collector(trace, options);
  replay(trace, set, {&collector});
  const std::vector<std::unique_ptr<Refusal>> refusals = collector.take();
  std::vector<OomReport> reports;
  for (const auto& refusal : refusals) reports.push_back(refusal->report);
  if (reports.empty()) return reports;
  LiveSet again;
  Holders holders(reports, options.top_sites);
  replay(trace, again, {&holders}, reports.back().at);
  for (std::size_t i = 0; i < reports.size(); ++i) classify(reports[i], *refusals[i], holders.holdings[i], trace, leaks);
  return reports;
}

const OomReport* fatal_of(const std::vector<OomReport>& reports) {
  const auto last = std::find_if(reports.rbegin(), reports.rend(), [](const OomReport& r) { return !r.recovered; });
  if (last != reports.rend()) return &*last;
  return reports.empty() ? nullptr : &reports.back();
}

std::optional<Moment> moment_of_oom(const Trace& trace) {
  const std::vector<OomReport> reports = ooms(trace);
  const OomReport* const fatal = fatal_of(reports);
  if (fatal == nullptr) return std::nullopt;
  return fatal->at;
}

}  // namespace cuheap
