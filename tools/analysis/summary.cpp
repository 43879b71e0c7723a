#include "tools/analysis/summary.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace cuheap {
namespace {

struct Tally {
  std::uint64_t live = 0, live_count = 0, max_live = 0, allocations = 0, bytes = 0, completed = 0;
  std::uint32_t lives[64] = {};  // completed, by power of two of nanoseconds

  std::uint64_t median_life() const {
    std::uint64_t seen = 0;
    for (unsigned i = 0; i < 64; ++i) {
      seen += lives[i];
      if (seen * 2 > completed) return std::uint64_t{1} << i;
    }
    return 0;
  }
};

// Totals of every site and floor over the whole run.
class Tallies : public LiveSetObserver {
 public:
  explicit Tallies(const Selection& selection) : selection_(selection) {}

  void born(Block& block, const Event&) override {
    if (block.family == Family::PoolGranule) pooled_.insert(block.process);
    each(block, [&](Tally& t) { ++t.allocations; t.bytes += block.size; enter(t, block.size); });
  }
  void died(const Block& block, const Event& event, Death) override {
    const std::uint64_t life = event.time_ns > block.time_ns ? event.time_ns - block.time_ns : 0;
    each(block, [&](Tally& t) {
      t.live -= block.size;
      --t.live_count;
      ++t.completed;
      ++t.lives[bucket(life)];
    });
  }
  void revived(Block& block, const Event&) override {
    each(block, [&](Tally& t) {
      enter(t, block.size);
      // Its death was a moment ago: the same power of two, but for a hair.
      std::uint32_t& lives = t.lives[bucket(now_ns_ > block.time_ns ? now_ns_ - block.time_ns : 0)];
      if (lives == 0) return;
      --lives;
      --t.completed;
    });
  }
  void resized(const Block& block, std::uint64_t old_size, const Event&) override {
    each(block, [&](Tally& t) { t.live += block.size - old_size; t.max_live = std::max(t.max_live, t.live); });
  }
  void after(const Event& event, const LiveSet&) override { now_ns_ = event.time_ns; }

  const std::set<std::uint16_t>& pooled() const { return pooled_; }

  template <typename F>
  void for_each(F&& f) const {
    for (const auto& [key, tally] : tallies_) f(static_cast<SiteId>(key >> 8), static_cast<Floor>(key & 0xff), tally);
  }

 private:
  static unsigned bucket(std::uint64_t life) { return life == 0 ? 0 : static_cast<unsigned>(std::bit_width(life)) - 1; }
  static void enter(Tally& t, std::uint64_t size) {
    t.live += size;
    ++t.live_count;
    t.max_live = std::max(t.max_live, t.live);
  }
  template <typename F>
  void each(const Block& block, F&& f) {
    if (!selection_.takes(block.device)) return;
    const std::uint8_t on = floors_of(block);
    for (unsigned floor = 1; floor < kFloorCount; ++floor) {
      if ((on & (1u << floor)) != 0) f(tallies_[static_cast<std::uint64_t>(block.site) << 8 | floor]);
    }
  }

  Selection selection_;
  std::unordered_map<std::uint64_t, Tally> tallies_;
  std::set<std::uint16_t> pooled_;
  std::uint64_t now_ns_ = 0;
};

std::vector<SiteSummary> top_sites(const Tallies& tallies, const LiveSet& at_peak, Floor floor, const SummaryOptions& options) {
  Selection selection = options.selection;
  selection.floor = floor;
  std::unordered_map<SiteId, SiteBytes> peak;
  for (const SiteBytes& s : sites_of(at_peak, selection).sites) peak[s.site] = s;
  std::vector<SiteSummary> sites;
  tallies.for_each([&](SiteId site, Floor f, const Tally& t) {
    if (f != floor) return;
    const auto it = peak.find(site);
    const SiteBytes then = it == peak.end() ? SiteBytes{} : it->second;
    sites.push_back({site, floor, then.bytes, then.count, then.phases, t.live, t.live_count,
                     t.max_live, t.allocations, t.bytes, t.median_life()});
  });
  std::sort(sites.begin(), sites.end(), [](const SiteSummary& a, const SiteSummary& b) {
    if (a.peak_bytes != b.peak_bytes) return a.peak_bytes > b.peak_bytes;
    return a.max_bytes != b.max_bytes ? a.max_bytes > b.max_bytes : a.site < b.site;
  });
  if (options.top_sites != 0 && sites.size() > options.top_sites) sites.resize(options.top_sites);
  return sites;
}

std::vector<DeviceSummary> device_summaries(const Trace& trace, const LiveSet& set, const Selection& selection) {
  std::vector<DeviceSummary> result;
  const auto was_seen = [](const DeviceState& row) {
    return row.memory_info_seen || row.peak_imported != 0 ||
           std::any_of(row.floors.begin(), row.floors.end(), [](const FloorState& f) { return f.seen || f.ooms != 0 || f.failures != 0; });
  };
  for (const DeviceState& row : set.devices()) {
    if (row.device == kHostDevice || !selection.takes(row.device)) continue;
    DeviceSummary device{row, "", row.driver_total};
    bool named = false;
    for (const TraceDevice& d : trace.devices) {
      if (d.ordinal != row.device || named) continue;
      named = true;
      device.name = d.name;
      if (d.total_bytes != 0) device.total_bytes = d.total_bytes;
    }
    if (was_seen(row)) result.push_back(device);
  }
  const DeviceState& host = set.devices().front();
  if (was_seen(host) && (!selection.device || *selection.device == kHostDevice)) result.push_back({host, "host", 0});
  return result;
}

}  // namespace

Summary summarize(const Trace& trace, const SummaryOptions& options) {
  Summary summary;
  LiveSet set;
  Tallies tallies(options.selection);
  PeakFinder finder(options.selection, options.peak_floor);
  replay(trace, set, {&tallies, &finder});

  summary.duration_ns = trace.end_ns > trace.start_ns ? trace.end_ns - trace.start_ns : 0;
  summary.events = set.events();
  summary.peak = finder.moment();
  summary.top_floor = set.top_floor();
  summary.devices = device_summaries(trace, set, options.selection);
  summary.pooled = tallies.pooled();
  summary.unmatched_frees = set.unmatched_frees();
  summary.replaced = set.replaced();

  LiveSet at_peak;
  replay(trace, at_peak, {}, summary.peak);
  for (const Floor floor : {Floor::Framework, Floor::Allocation, Floor::Physical}) {
    if (options.selection.floor != Floor::None && options.selection.floor != floor) continue;
    const std::vector<SiteSummary> sites = top_sites(tallies, at_peak, floor, options);
    summary.top_sites.insert(summary.top_sites.end(), sites.begin(), sites.end());
  }
  return summary;
}

}  // namespace cuheap
