#include "tools/analysis/leak_evidence.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <map>
#include <string>
#include <unordered_map>

#include "tools/analysis/phases.h"

namespace cuheap {
namespace {

constexpr std::uint64_t kClockMarks = 50;         // so many repeats make a mark or phase a clock
constexpr std::uint64_t kCycleMarks = 5;          // fewer repeats do not make a cycle
constexpr std::uint64_t kClockAllocations = 200;  // fewer allocations: time is the clock
constexpr std::uint64_t kDenseClass = 200;        // births that let a phase, or a size class of it, be judged alone
constexpr std::size_t kPhaseKinds = 32;           // those with most births; a request that is a phase must not be a key
constexpr std::size_t kMaxRareMarks = 10000;
constexpr std::size_t kBirthTimes = 64;
constexpr std::uint8_t kAllClasses = 255;
constexpr std::uint8_t kOtherPhases = kPhaseKinds + 1;  // 0: outside any phase

bool says_warm_up(const std::string& name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower.find("warm") != std::string::npos;
}

// --- scan ------------------------------------------------------------------------------------------------------------

struct ProcessScan {
  std::unordered_map<NameId, std::uint64_t> repeats;  // marks and phase begins by name
  std::array<std::uint64_t, kFloorCount> allocations{};
  std::array<std::uint64_t, kFloorCount> last_birth_event{}, last_birth_ns{};
  std::uint64_t first_ns = 0, last_ns = 0;
  std::uint64_t warm_up_end_ns = 0;
  bool seen = false;
  Event refusal;  // the last that the same thread did not make good; of size 0 if there is none
};

class Scan {
 public:
  Scan(const Trace& trace, const Selection& selection) : trace_(trace), selection_(selection) {}
  void run() {
    if (trace_.events == nullptr) return;
    trace_.events->for_each([&](std::span<const Event> batch) { for (const Event& e : batch) take(e); });
  }
  std::vector<ProcessScan> processes;
  std::array<bool, kFloorCount> seen{};
  bool host_seen = false;
  std::vector<std::uint64_t> phase_births;  // by NameId

 private:
  void take(const Event& e) {
    ++events_;
    if (processes.size() <= e.process) processes.resize(e.process + std::size_t{1});
    ProcessScan& p = processes[e.process];
    if (!p.seen) p.first_ns = e.time_ns;
    p.seen = true;
    p.last_ns = e.time_ns;
    switch (e.kind) {
      case EventKind::Allocate:
        if (p.refusal.size != 0 && p.refusal.thread == e.thread && e.size >= p.refusal.size) p.refusal.size = 0;
        birth(p, e);
        break;
      case EventKind::OutOfMemory:
        if (!is_host_family(e.family) && could_have_been_had(e)) p.refusal = e;
        break;
      case EventKind::Mark: ++p.repeats[static_cast<NameId>(e.extra0)]; break;
      case EventKind::PhaseBegin: ++p.repeats[e.phase]; break;
      case EventKind::PhaseEnd:
        if (e.phase < trace_.names.size() && says_warm_up(trace_.names[e.phase])) p.warm_up_end_ns = e.time_ns;
        break;
      default: break;
    }
  }
  bool could_have_been_had(const Event& e) const {
    return std::none_of(trace_.devices.begin(), trace_.devices.end(), [&](const TraceDevice& d) {
      return d.ordinal == e.device && d.total_bytes != 0 && e.size > d.total_bytes;
    });
  }

  void birth(ProcessScan& p, const Event& e) {
    if (e.phase != 0 && e.phase < trace_.names.size()) {
      if (phase_births.empty()) phase_births.resize(trace_.names.size());
      ++phase_births[e.phase];
    }
    Block block;
    block.floor = e.floor;
    block.family = e.family;
    block.flags = e.flags;
    const std::uint8_t on = floors_of(block);
    const bool host = is_host_family(e.family);
    host_seen = host_seen || host;
    for (std::size_t f = 1; f < kFloorCount; ++f) {
      if ((on & (1u << f)) == 0) continue;
      if (e.device >= 0 && !host) seen[f] = true;
      if (!selection_.takes(host ? kHostDevice : e.device)) continue;
      ++p.allocations[f];
      p.last_birth_event[f] = events_;
      p.last_birth_ns[f] = e.time_ns;
    }
  }

  const Trace& trace_;
  Selection selection_;
  std::uint64_t events_ = 0;
};

/// Marks that belong together.
struct MarkGroup {
  std::string label;
  std::vector<bool> names;  // by NameId
};

/// The most frequent of the marks that came at least `least` and fewer than `too_many` times; else of the marks that
/// differ only by a count at their end.
MarkGroup most_frequent(const Trace& trace, const ProcessScan& scan, std::uint64_t least, std::uint64_t too_many) {
  struct Candidate { std::uint64_t count = 0; std::vector<NameId> names; };
  std::map<std::string, Candidate> exact, counted;
  for (const auto& [name, count] : scan.repeats) {
    if (name == 0 || name >= trace.names.size()) continue;
    for (Candidate* c : {&exact[trace.names[name]], &counted[without_count(trace.names[name])]}) {
      c->count += count;
      c->names.push_back(name);
    }
  }
  for (const auto* candidates : {&exact, &counted}) {
    const std::pair<const std::string, Candidate>* best = nullptr;
    for (const auto& c : *candidates) {
      if (c.second.count >= least && c.second.count < too_many && (best == nullptr || c.second.count > best->second.count)) best = &c;
    }
    if (best == nullptr) continue;
    MarkGroup group{best->first, std::vector<bool>(trace.names.size())};
    for (const NameId name : best->second.names) group.names[name] = true;
    return group;
  }
  return {};
}

/// Phases as the judge tells them apart: those that differ only by a count are one, and of many the busiest have a number.
struct PhaseKinds {
  std::vector<std::uint8_t> of_name;    // by NameId
  std::vector<std::string> labels;      // by kind
  std::uint8_t operator()(PhaseId phase) const { return phase < of_name.size() ? of_name[phase] : std::uint8_t{0}; }
};

PhaseKinds phase_kinds(const Trace& trace, const std::vector<std::uint64_t>& births) {
  std::map<std::string, std::uint64_t> sums;
  for (NameId name = 1; name < births.size(); ++name) {
    if (births[name] != 0) sums[without_count(trace.names[name])] += births[name];
  }
  std::vector<std::pair<std::string, std::uint64_t>> busiest(sums.begin(), sums.end());
  std::stable_sort(busiest.begin(), busiest.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (busiest.size() > kPhaseKinds) busiest.resize(kPhaseKinds);
  PhaseKinds kinds;
  kinds.labels = {kNoPhaseName};
  std::map<std::string, std::uint8_t> numbers;
  for (const auto& [label, count] : busiest) {
    numbers[label] = static_cast<std::uint8_t>(kinds.labels.size());
    kinds.labels.push_back(label);
  }
  kinds.of_name.resize(births.size());
  for (NameId name = 1; name < births.size(); ++name) {
    const auto number = numbers.find(without_count(trace.names[name]));
    kinds.of_name[name] = number == numbers.end() ? kOtherPhases : number->second;
  }
  return kinds;
}

/// A refusal that nothing made good, and after which little more came: the program ended by it.
bool ended_by(const Event& refusal, std::uint64_t first_birth_ns, std::uint64_t last_birth_ns) {
  const std::uint64_t run_ns = last_birth_ns - std::min(last_birth_ns, first_birth_ns);
  return refusal.size != 0 && refusal.time_ns + run_ns / 20 >= last_birth_ns;
}

bool contains(const std::vector<bool>& names, std::uint64_t name) { return name < names.size() && names[name]; }

void choose_clock(const Trace& trace, const ProcessScan& scan, Floor floor, ProcessRun& run) {
  const MarkGroup marks = most_frequent(trace, scan, kClockMarks, ~std::uint64_t{0});
  run.clock.label = marks.label;
  run.clock_marks = marks.names;
  if (!marks.names.empty()) run.clock.kind = ClockKind::Marks;
  else run.clock.kind = scan.allocations[index_of(floor)] >= kClockAllocations ? ClockKind::Allocations : ClockKind::Time;
  // Of the marks that are too rare for a clock.
  const MarkGroup cycle = most_frequent(trace, scan, kCycleMarks, kClockMarks);
  run.cycle_label = cycle.label;
  run.cycle_marks = cycle.names;
}

// --- what both later passes share: the clock and the end of the run -----------------------------------------------------

class Pass : public LiveSetObserver {
 public:
  Pass(const std::vector<ProcessScan>& scans, LeakEvidenceSet& set, const Selection& selection)
      : scans_(scans), set_(set), selection_(selection), ticks_(scans.size()) {}

 protected:
  bool judged(const Block& b) const { return selection_.takes(b.device) && counts_on(b, set_.floor) && b.process < scans_.size(); }

  /// Moves the clock of the event's process; called before the event is accounted.
  void tick(const Event& e, bool birth) {
    if (e.process >= ticks_.size()) return;
    const ProcessRun& run = set_.processes[e.process];
    switch (run.clock.kind) {
      case ClockKind::Allocations: if (birth) ++ticks_[e.process]; break;
      case ClockKind::Time: ticks_[e.process] = e.time_ns - std::min(e.time_ns, scans_[e.process].first_ns); break;
      case ClockKind::Marks: {
        const bool mark = (e.kind == EventKind::Mark && contains(run.clock_marks, e.extra0)) ||
                          (e.kind == EventKind::PhaseBegin && contains(run.clock_marks, e.phase));
        if (mark) ++ticks_[e.process];
        break;
      }
    }
  }
  std::uint64_t now(std::uint16_t process) const { return ticks_[process]; }

  /// The program is tidying up: the run was over before.
  bool tear_down(std::uint16_t process, std::uint64_t event) const { return event >= set_.processes[process].tear_down_event; }
  bool after_last_birth(std::uint16_t process) const { return event_ > scans_[process].last_birth_event[index_of(set_.floor)]; }

  const std::vector<ProcessScan>& scans_;
  LeakEvidenceSet& set_;
  Selection selection_;
  std::uint64_t event_ = 1;  // number of the event under way

 private:
  std::vector<std::uint64_t> ticks_;
};

// A site, phase and size class. Classes are powers of two.
struct Key {
  SiteId site;
  std::uint16_t process;
  std::int16_t device;
  std::uint8_t phase;
  std::uint8_t size_class;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  std::size_t operator()(const Key& k) const {
    std::uint64_t h = static_cast<std::uint64_t>(k.site) << 32 | static_cast<std::uint64_t>(k.process) << 16 |
                      static_cast<std::uint16_t>(k.device);
    h = (h ^ (static_cast<std::uint64_t>(k.size_class) << 56) ^ (static_cast<std::uint64_t>(k.phase) << 48)) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
  }
};
template <typename T>
using ByKey = std::unordered_map<Key, T, KeyHash>;

Key key_of(const Block& b, const PhaseKinds& phases) {
  return {b.site, b.process, b.device, phases(b.phase), static_cast<std::uint8_t>(std::bit_width(b.size))};
}
Key whole_site(Key key) {
  key.phase = kOtherPhases;
  key.size_class = kAllClasses;
  return key;
}

// --- lifetimes ---------------------------------------------------------------------------------------------------------

struct Lives {
  std::uint64_t births = 0;
  std::uint64_t longest = 0;
};

struct LateDeath {  // after the last birth of its process
  std::uint64_t event, time_ns, age_ns, bytes, life;
  Key key;
};

/// The event from which on the frees after the last birth are the program tidying up. What counts is how quickly they come,
/// not how long the program waited before: an interpreter winds up for a while, a server idles. A queue that drains and a
/// cache that expires take about as long as their blocks are old; in a tear-down most die within a fraction of that.
std::uint64_t find_tear_down(const std::vector<LateDeath>& deaths, std::uint64_t run_ns) {
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  if (deaths.empty()) return kNone;
  double all_bytes = 0, all_ages = 0;
  for (const LateDeath& d : deaths) {
    all_bytes += static_cast<double>(d.bytes);
    all_ages += static_cast<double>(d.age_ns);
  }
  const double count = static_cast<double>(deaths.size());
  const double burst_ns = std::max(all_ages / count / 5, static_cast<double>(run_ns) / 20);
  double bytes = 0, best = 0.5;  // share of the blocks or of the bytes: most of either
  std::uint64_t from = kNone;
  for (std::size_t first = 0, end = 0; first < deaths.size(); ++first) {
    for (; end < deaths.size() && static_cast<double>(deaths[end].time_ns - deaths[first].time_ns) <= burst_ns; ++end)
      bytes += static_cast<double>(deaths[end].bytes);
    const double share = std::max(static_cast<double>(end - first) / count, all_bytes > 0 ? bytes / all_bytes : 0);
    if (share > best) { best = share; from = deaths[first].event; }
    bytes -= static_cast<double>(deaths[first].bytes);
  }
  return from;
}

class Lifetimes : public Pass {
 public:
  Lifetimes(const std::vector<ProcessScan>& scans, LeakEvidenceSet& set, const Selection& selection, const PhaseKinds& phases)
      : Pass(scans, set, selection), phases_(phases), late_(scans.size()) {}
  void born(Block& b, const Event& e) override {
    if (!judged(b)) return;
    tick(e, true);
    b.tag = now(b.process);
    ++lives[key_of(b, phases_)].births;
  }
  void died(const Block& b, const Event& e, Death) override {
    if (!judged(b)) return;
    if (set_.processes[b.process].clock.kind == ClockKind::Time) tick(e, false);
    const std::uint64_t life = now(b.process) - std::min(now(b.process), b.tag);
    if (after_last_birth(b.process)) {
      const std::uint64_t last_birth = scans_[b.process].last_birth_ns[index_of(set_.floor)];
      const std::uint64_t age = last_birth - std::min(last_birth, b.time_ns);
      late_[b.process].push_back({event_, e.time_ns, age, b.size, life, key_of(b, phases_)});
      return;
    }
    completed(key_of(b, phases_), life);
  }
  void after(const Event& e, const LiveSet&) override {
    if (e.kind != EventKind::Allocate) tick(e, false);
    ++event_;
    if (e.process >= scans_.size()) return;
    ProcessRun& run = set_.processes[e.process];
    const ProcessScan& scan = scans_[e.process];
    if (e.time_ns <= scan.warm_up_end_ns) run.clock.warm_up_ticks = now(e.process);
    run.end_tick = now(e.process);
    const bool rare = e.kind == EventKind::Mark || e.kind == EventKind::PhaseBegin || e.kind == EventKind::PhaseEnd;
    const NameId name = e.kind == EventKind::Mark ? static_cast<NameId>(e.extra0) : e.phase;
    if (rare && !contains(run.clock_marks, name) && run.rare_marks.size() < kMaxRareMarks) {
      run.rare_marks.push_back(now(e.process));
    }
    if (rare && e.kind != EventKind::PhaseEnd && contains(run.cycle_marks, name)) run.cycle_ns.push_back(e.time_ns);
  }
  void finish() {
    for (std::size_t p = 0; p < late_.size(); ++p) {
      ProcessRun& run = set_.processes[p];
      const std::uint64_t last_birth = scans_[p].last_birth_ns[index_of(set_.floor)];
      const std::uint64_t run_ns = last_birth - std::min(last_birth, scans_[p].first_ns);
      run.tear_down_event = find_tear_down(late_[p], run_ns);
      run.idle_ns = run.end_ns - std::min(run.end_ns, last_birth);
      // Time after the last allocation is not part of the run; marks say that the program still works.
      if (run.clock.kind != ClockKind::Marks && last_birth > run.begin_ns) run.end_ns = last_birth;
      if (run.clock.kind == ClockKind::Time) run.end_tick = run_ns;
      if (ended_by(scans_[p].refusal, scans_[p].first_ns, last_birth)) {
        run.ran_out_ns = scans_[p].refusal.time_ns;
        run.ran_out_device = scans_[p].refusal.device;
      }
      for (const LateDeath& d : late_[p]) {
        if (d.event < run.tear_down_event) completed(d.key, d.life);
        if (d.age_ns <= run_ns / 20) continue;  // the last request's, in the ordinary way
        run.freed_late_bytes += d.bytes;
        ++run.freed_late_blocks;
      }
    }
  }
  ByKey<Lives> lives;

 private:
  void completed(const Key& key, std::uint64_t life) {
    Lives& l = lives[key];
    l.longest = std::max(l.longest, life);
  }
  const PhaseKinds& phases_;
  std::vector<std::vector<LateDeath>> late_;  // by process
};

/// With the rounding of the driver: from 1 MiB on (in cuheap's pool, which fills the rest with small blocks, from 2 MiB on) a
/// block of device memory takes whole granules.
std::uint64_t taken_by(const Block& b) {
  constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;
  const bool device = b.family == Family::Device || b.family == Family::Pitch;
  const std::uint64_t least = (b.flags & kEventPooled) != 0 ? kGranule : kGranule / 2;
  return device && b.size >= least ? (b.size + kGranule - 1) / kGranule * kGranule : b.size;
}

// --- residue -----------------------------------------------------------------------------------------------------------

template <std::size_t N>
void advance(std::array<double, N>& low, std::uint32_t& at, std::uint32_t window, double value) {
  for (; at < window; ++at) low[at + 1] = value;  // windows without a change keep the level
}

class Residue : public Pass {
 public:
  Residue(const std::vector<ProcessScan>& scans, LeakEvidenceSet& set, const Selection& selection, const PhaseKinds& phases,
          const ByKey<Lives>& lives)
      : Pass(scans, set, selection), phases_(phases) {
    assign_all(lives);
  }

  void born(Block& b, const Event& e) override {
    round(b, true);
    if (!judged(b)) return;
    tick(e, true);
    const std::uint32_t index = index_.at(key_of(b, phases_));
    LeakEvidence& k = set_.keys[index];
    const std::uint64_t t = now(b.process);
    count_site_birth(b, t);
    k.size_low = std::min(k.size_low, b.size);
    k.size_high = std::max(k.size_high, b.size);
    ++k.births;
    b.tag = static_cast<std::uint64_t>(index) << 32;
    move_window(k, t);
    ++k.live_now;
    k.bytes.add(static_cast<double>(b.size));
    const ProcessRun& run = set_.processes[b.process];
    if (t <= run.clock.warm_up_ticks || (b.flags & kEventInitial) != 0) return;
    if (k.births_after_warm_up++ == 0) k.first_birth = t;
    else k.longest_gap = std::max(k.longest_gap, t - k.last_birth);
    k.last_birth = t;
    if (t + k.maturity > run.end_tick) {
      b.tag |= kYoung;
      if (k.mature_births != 0 && k.mature_end_ns == 0) {
        k.mature_end_tick = t;
        k.mature_end_ns = b.time_ns;
      }
      return;
    }
    mature_birth(k, b, t, run);
    b.tag |= std::min<std::uint64_t>(k.mature_births, kYoung - 1);
  }

  void died(const Block& b, const Event& e, Death) override {
    round(b, false);
    if (!judged(b)) return;
    // A young block may well have died in the ordinary way.
    if (tear_down(b.process, event_) && static_cast<std::uint32_t>(b.tag) != kYoung) { survive(b); return; }
    if (set_.processes[b.process].clock.kind == ClockKind::Time) tick(e, false);
    LeakEvidence& k = set_.keys[b.tag >> 32];
    const std::uint64_t t = now(b.process);
    count_site_death(b, t);
    move_window(k, t);
    --k.live_now;
    k.bytes.add(-static_cast<double>(b.size));
    k.low_water[k.window_now] = std::min(k.low_water[k.window_now], static_cast<double>(k.live_now));
    ++k.deaths;
    const ProcessRun& run = set_.processes[b.process];
    if (on_rare_mark(run, t)) ++k.deaths_on_marks;
    const std::uint32_t ordinal = static_cast<std::uint32_t>(b.tag);
    if (t > last_quarter(run) && ordinal != 0 && ordinal != kYoung && ordinal <= k.births_by_last_quarter) {
      ++k.late_deaths;
      k.oldest_late_death = std::min(k.oldest_late_death, ordinal - 1);
    }
  }

  void revived(Block& b, const Event&) override {
    round(b, true);
    if (!judged(b)) return;
    LeakEvidence& k = set_.keys[b.tag >> 32];
    ++k.live_now;
    --k.deaths;
    k.bytes.add(static_cast<double>(b.size));
    SiteSizes& s = site_of(b);
    --s.deaths;
    s.bytes.add(static_cast<double>(b.size));
  }

  void resized(const Block& b, std::uint64_t old_size, const Event&) override {
    if (!judged(b)) return;
    const double more = static_cast<double>(b.size) - static_cast<double>(old_size);
    set_.keys[b.tag >> 32].bytes.add(more);
    site_of(b).bytes.add(more);
  }

  void after(const Event& e, const LiveSet& live) override {
    if (e.kind != EventKind::Allocate) tick(e, false);
    if (e.process < scans_.size() && !tear_down(e.process, event_)) {
      follow_devices(e, live);
      follow_clock(e);
    }
    ++event_;
  }

  void finish(const LiveSet& live) {
    live.for_each_block([&](const Block& b) { if (judged(b)) survive(b); });
    for (LeakEvidence& k : set_.keys) {
      const ProcessRun& run = set_.processes[k.process];
      move_window(k, run.end_tick);
      if (k.mature_births != 0 && k.mature_end_ns == 0) {
        k.mature_end_tick = std::max(k.mature_last_tick, run.end_tick - std::min(run.end_tick, k.maturity));
        k.mature_end_ns = std::max(k.mature_last_ns, run.ns_at(k.mature_end_tick));
      }
      std::sort(k.survivors.begin(), k.survivors.end(), [](const Survivor& a, const Survivor& b) { return a.ordinal < b.ordinal; });
    }
    tell_phases_of_survivors();
    for (SiteSizes& s : set_.sites) {
      advance(s.low_water, s.window_now, kLastWindow, static_cast<double>(s.births - s.deaths));
      s.bytes.move(kLastWindow);
    }
    for (DeviceRun& d : set_.devices) d.idle.move(kLastWindow);
  }

 private:
  static constexpr std::uint32_t kLastWindow = kWindows - 1;
  static constexpr std::uint32_t kYoung = ~std::uint32_t{0};  // ordinal of a birth too young to judge; 0: warm-up

  static std::uint64_t last_quarter(const ProcessRun& run) { return run.end_tick - run.end_tick / 4; }

  void tell_phases_of_survivors() {
    if (phases_.labels.size() == 1) return;  // the run has none
    for (const auto& [where, count] : born_in_) {
      const bool numbered = where.second < phases_.labels.size();
      set_.keys[where.first].survivor_phases.push_back({numbered ? phases_.labels[where.second] : kOtherPhasesName, count});
    }
    for (LeakEvidence& k : set_.keys) sort_most_first(k.survivor_phases);
  }

  /// What has few births is judged together: alone it would never show enough. First the rare phases of a site, then the rare
  /// size classes of a phase.
  void assign_all(const ByKey<Lives>& lives) {
    ByKey<std::uint64_t> in_phase, in_class;
    for (const auto& [key, l] : lives) in_phase[all_classes(key)] += l.births;
    const auto judged_phase = [&](Key key) {
      if (in_phase.at(all_classes(key)) < kDenseClass) key.phase = kOtherPhases;
      return key;
    };
    ByKey<std::uint64_t> phases_of_site;  // a bit each
    for (const auto& [key, l] : lives) {
      in_class[judged_phase(key)] += l.births;
      phases_of_site[whole_site(key)] |= std::uint64_t{1} << judged_phase(key).phase;
    }
    for (const auto& [key, l] : lives) {
      Key judged = judged_phase(key);
      if (in_class.at(judged) < kDenseClass) judged.size_class = kAllClasses;
      assign(key, judged, l, std::popcount(phases_of_site.at(whole_site(key))) > 1);
    }
  }

  static Key all_classes(Key key) {
    key.size_class = kAllClasses;
    return key;
  }

  void assign(const Key& key, const Key& judged_key, const Lives& l, bool has_phases) {
    const auto [it, is_new] = shared_.try_emplace(judged_key, static_cast<std::uint32_t>(set_.keys.size()));
    if (is_new) {
      LeakEvidence k;
      k.site = key.site;
      k.device = key.device;
      k.process = key.process;
      if (has_phases) k.phase = judged_key.phase < phases_.labels.size() ? phases_.labels[judged_key.phase] : kOtherPhasesName;
      set_.keys.push_back(k);
    }
    index_[key] = it->second;
    LeakEvidence& k = set_.keys[it->second];
    k.longest_life = std::max(k.longest_life, l.longest);
    const ProcessRun& run = set_.processes[key.process];
    k.maturity = std::max({run.end_tick / 20, 3 * k.longest_life, std::uint64_t{1}});
  }

  std::uint32_t window_of(const ProcessRun& run, std::uint64_t t) const {
    const std::uint64_t begin = run.clock.warm_up_ticks;
    if (t <= begin || run.end_tick <= begin) return 0;
    const double share = static_cast<double>(t - begin) / static_cast<double>(run.end_tick - begin);
    return std::min(static_cast<std::uint32_t>(share * static_cast<double>(kWindows)), static_cast<std::uint32_t>(kWindows - 1));
  }

  void move_window(LeakEvidence& k, std::uint64_t t) {
    const ProcessRun& run = set_.processes[k.process];
    k.bytes.move(window_of(run, t));
    if (t <= run.clock.warm_up_ticks) { k.low_water[0] = static_cast<double>(k.live_now); return; }
    advance(k.low_water, k.window_now, window_of(run, t), static_cast<double>(k.live_now));
  }

  void mature_birth(LeakEvidence& k, const Block& b, std::uint64_t t, const ProcessRun& run) {
    if (k.mature_births == 0) { k.mature_first_tick = t; k.mature_first_ns = b.time_ns; }
    k.mature_last_tick = t;
    k.mature_last_ns = b.time_ns;
    // Every nth birth's time; when the sample is full every second one goes.
    const std::uint32_t ordinal = static_cast<std::uint32_t>(k.mature_births);
    if (k.birth_times.empty() || ordinal % stride(k) == 0) {
      if (k.birth_times.size() == kBirthTimes) {
        std::size_t out = 0;
        for (std::size_t i = 0; i < kBirthTimes; i += 2) k.birth_times[out++] = k.birth_times[i];
        k.birth_times.resize(out);
      }
      if (ordinal % stride(k) == 0 || k.birth_times.empty()) k.birth_times.emplace_back(ordinal, b.time_ns);
    }
    ++k.mature_births;
    if (t <= last_quarter(run)) k.births_by_last_quarter = static_cast<std::uint32_t>(k.mature_births);
  }
  static std::uint32_t stride(const LeakEvidence& k) {
    return k.birth_times.size() < 2 ? 1 : k.birth_times[1].first - k.birth_times[0].first;
  }

  bool on_rare_mark(const ProcessRun& run, std::uint64_t t) const {
    if (run.rare_marks.empty()) return false;
    const std::uint64_t slack = run.end_tick / 500;  // 0.2 % of the run
    const auto next = std::upper_bound(run.rare_marks.begin(), run.rare_marks.end(), t);
    if (next != run.rare_marks.end() && *next - t <= slack) return true;
    return next != run.rare_marks.begin() && t - *(next - 1) <= slack;
  }

  void survive(const Block& b) {
    LeakEvidence& k = set_.keys[b.tag >> 32];
    ++k.live_count;
    k.live_bytes += b.size;
    k.live_taken += taken_by(b);
    SiteSizes& s = site_of(b);
    ++s.live_count;
    s.live_bytes += b.size;
    const std::uint32_t ordinal = static_cast<std::uint32_t>(b.tag);
    if (ordinal == 0) return;
    ++k.live_after_warm_up;
    if (ordinal == kYoung) return;
    k.survivors.push_back({ordinal - 1, b.size, b.time_ns});
    ++born_in_[{b.tag >> 32, phases_(b.phase)}];
  }

  SiteSizes& site_of(const Block& b) {
    const auto [it, is_new] = sites_.try_emplace(whole_site(key_of(b, phases_)), static_cast<std::uint32_t>(set_.sites.size()));
    if (is_new) {
      SiteSizes s;
      s.site = b.site;
      s.device = b.device;
      s.process = b.process;
      set_.sites.push_back(s);
    }
    return set_.sites[it->second];
  }
  void count_site_birth(const Block& b, std::uint64_t t) {
    SiteSizes& s = site_of(b);
    const std::uint32_t w = window_of(set_.processes[b.process], t);
    advance(s.low_water, s.window_now, w, static_cast<double>(s.births - s.deaths));
    s.bytes.move(w);
    s.bytes.add(static_cast<double>(b.size));
    ++s.births;
    ++s.window_births[w];
    s.window_bytes[w] += static_cast<double>(b.size);
  }
  void count_site_death(const Block& b, std::uint64_t t) {
    SiteSizes& s = site_of(b);
    const std::uint32_t w = window_of(set_.processes[b.process], t);
    advance(s.low_water, s.window_now, w, static_cast<double>(s.births - s.deaths));
    s.bytes.move(w);
    s.bytes.add(-static_cast<double>(b.size));
    ++s.deaths;
    s.low_water[s.window_now] = std::min(s.low_water[s.window_now], static_cast<double>(s.births - s.deaths));
  }

  void follow_clock(const Event& e) {
    ProcessRun& run = set_.processes[e.process];
    if (run.end_tick == 0) return;
    const double share = static_cast<double>(now(e.process)) / static_cast<double>(run.end_tick);
    const std::size_t at = std::min(static_cast<std::size_t>(share * kTickTimes), kTickTimes);
    while (run.tick_ns.size() <= at) run.tick_ns.push_back(e.time_ns);
  }

  void follow_devices(const Event& e, const LiveSet& live) {
    const std::vector<DeviceState>& rows = live.devices();
    if (set_.devices.size() < rows.size()) {
      set_.devices.resize(rows.size());
    }
    const std::uint32_t w = window_of(set_.processes[e.process], now(e.process));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      DeviceRun& d = set_.devices[i];
      d.device = rows[i].device;
      const FloorState& floor = rows[i][set_.floor];
      const double idle = static_cast<double>(floor.held) - static_cast<double>(floor.live);
      if (w > d.idle.window) d.idle.move(w);
      d.idle.add(idle - d.idle.now);
      if (d.idle.window == 0 && now(e.process) <= set_.processes[e.process].clock.warm_up_ticks) d.idle.low[0] = idle;
      d.held_physical = rows[i][Floor::Physical].held + (d.device == kHostDevice ? 0 : rounding_[d.device]);
      d.driver_used = rows[i].memory_info_seen ? rows[i].driver_total - std::min(rows[i].driver_total, rows[i].driver_free) : 0;
      d.total = rows[i].driver_total;
    }
  }

  // What the driver takes beyond the sizes of the blocks that it backs itself.
  void round(const Block& b, bool born) {
    if (b.floor != Floor::Allocation || !counts_on(b, Floor::Physical) || b.device == kHostDevice) return;
    std::uint64_t& sum = rounding_[b.device];
    const std::uint64_t more = taken_by(b) - b.size;
    sum = born ? sum + more : sum - std::min(sum, more);
  }

  const PhaseKinds& phases_;
  std::map<std::int16_t, std::uint64_t> rounding_;
  ByKey<std::uint32_t> index_;   // real phase and class -> key judged
  ByKey<std::uint32_t> shared_;
  ByKey<std::uint32_t> sites_;
  std::map<std::pair<std::uint64_t, std::uint8_t>, std::uint64_t> born_in_;  // survivors by key judged and kind of phase
};

}  // namespace

void sort_most_first(std::vector<PhaseSurvivors>& phases) {
  std::stable_sort(phases.begin(), phases.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
}

std::uint64_t ProcessRun::ns_at(std::uint64_t tick) const {
  if (end_tick == 0) return begin_ns;
  const double share = std::min(static_cast<double>(tick) / static_cast<double>(end_tick), 1.0);
  const double place = share * static_cast<double>(kTickTimes);
  const std::size_t at = static_cast<std::size_t>(place);
  if (at + 1 >= tick_ns.size()) return begin_ns + static_cast<std::uint64_t>(share * static_cast<double>(end_ns - begin_ns));
  return tick_ns[at] + static_cast<std::uint64_t>((place - static_cast<double>(at)) * static_cast<double>(tick_ns[at + 1] - tick_ns[at]));
}

double ProcessRun::seconds_per_tick() const {
  return end_tick == 0 ? 0 : static_cast<double>(end_ns - begin_ns) / 1e9 / static_cast<double>(end_tick);
}

LeakEvidenceSet collect_leak_evidence(const Trace& trace, const Selection& selection, bool* host_seen) {
  LeakEvidenceSet set;
  Scan scan(trace, selection);
  scan.run();
  if (host_seen != nullptr) *host_seen = scan.host_seen;
  set.floor = selection.floor;
  if (set.floor == Floor::None && selection.device == kHostDevice) set.floor = Floor::Allocation;
  for (const Floor floor : {Floor::Framework, Floor::Allocation, Floor::Physical}) {
    if (set.floor == Floor::None && scan.seen[index_of(floor)]) set.floor = floor;
  }
  if (set.floor == Floor::None) return set;
  for (std::size_t p = 0; p < scan.processes.size(); ++p) {
    ProcessRun run;
    run.clock.process = static_cast<std::uint16_t>(p);
    choose_clock(trace, scan.processes[p], set.floor, run);
    run.begin_ns = scan.processes[p].first_ns;
    run.end_ns = scan.processes[p].last_ns;
    set.processes.push_back(run);
  }
  const PhaseKinds phases = phase_kinds(trace, scan.phase_births);
  Lifetimes lifetimes(scan.processes, set, selection, phases);
  {
    LiveSet live;
    replay(trace, live, {&lifetimes});
  }
  lifetimes.finish();
  for (ProcessRun& run : set.processes) {
    // A named warm-up counts as such only if most of the run lies behind it.
    if (run.clock.warm_up_ticks == 0 || run.clock.warm_up_ticks > run.end_tick / 2) run.clock.warm_up_ticks = run.end_tick / 10;
    run.clock.ticks = run.end_tick;
  }
  Residue residue(scan.processes, set, selection, phases, lifetimes.lives);
  LiveSet live;
  replay(trace, live, {&residue});
  residue.finish(live);
  for (DeviceRun& d : set.devices) {
    for (const TraceDevice& device : trace.devices) {
      if (device.ordinal == d.device && device.total_bytes != 0) d.total = device.total_bytes;
    }
    for (const ProcessRun& run : set.processes) {
      if (run.ran_out_ns != 0 && run.ran_out_device == d.device) d.ran_out_ns = std::max(d.ran_out_ns, run.ran_out_ns);
    }
  }
  return set;
}

}  // namespace cuheap
