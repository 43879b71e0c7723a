#include "tools/report/page_series.h"

#include <algorithm>
#include <bit>
#include <string>

namespace cuheap {
namespace {

constexpr Floor kFloors[] = {Floor::Physical, Floor::Allocation, Floor::Framework};
constexpr unsigned kBucketsPerOctave = 4;

unsigned lifetime_bucket(std::uint64_t lifetime_ns) {
  const std::uint64_t value = std::max<std::uint64_t>(lifetime_ns, 4);
  const unsigned octave = static_cast<unsigned>(std::bit_width(value)) - 1;
  return octave * kBucketsPerOctave + static_cast<unsigned>(value >> (octave - 2) & 3);
}

std::uint64_t bucket_middle_ns(unsigned bucket) {
  const unsigned octave = bucket / kBucketsPerOctave;
  const std::uint64_t quarter = 1ULL << (octave - 2);
  return (4 + bucket % kBucketsPerOctave) * quarter + quarter / 2;
}

std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

}  // namespace

void LifetimeHistogram::add(std::uint64_t lifetime_ns) {
  const unsigned bucket = lifetime_bucket(lifetime_ns);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  ++buckets_[bucket];
  ++count_;
}

std::uint64_t LifetimeHistogram::median_ns() const {
  std::uint64_t below = 0;
  for (unsigned bucket = 0; bucket < buckets_.size(); ++bucket) {
    below += buckets_[bucket];
    if (below > 0 && 2 * below >= count_) return bucket_middle_ns(bucket);
  }
  return 0;
}

std::uint32_t TrackIndex::of(std::int16_t device, Floor floor) {
  const std::size_t place = static_cast<std::size_t>(device + 1) * kFloorCount + index_of(floor);
  if (place >= tracks_.size()) tracks_.resize(place + 1, -1);
  if (tracks_[place] < 0) tracks_[place] = static_cast<std::int32_t>(count_++);
  return static_cast<std::uint32_t>(tracks_[place]);
}

// --- survey ---

template <typename F>
void SeriesSurvey::on_floors(const Block& block, F&& f) {
  const PageNode node = names_.node(block.site);
  for (const Floor floor : kFloors) {
    if (!counts_on(block, floor)) continue;
    const std::uint32_t number = index_.of(block.device, floor);
    if (number >= tracks_.size()) {
      tracks_.resize(number + 1);
      tracks_[number].device = block.device;
      tracks_[number].floor = floor;
    }
    TrackTotals& track = tracks_[number];
    if (node >= track.nodes.size()) track.nodes.resize(std::max<std::size_t>(node + 1, names_.node_count()));
    f(track, track.nodes[node]);
    changed_ = true;
  }
}

void SeriesSurvey::born(Block& block, const Event&) {
  on_floors(block, [&](TrackTotals&, NodeTotals& node) {
    node.live += block.size;
    node.peak = std::max(node.peak, node.live);
    ++node.allocations;
    node.allocated_bytes += block.size;
  });
}

void SeriesSurvey::died(const Block& block, const Event& event, Death) {
  on_floors(block, [&](TrackTotals&, NodeTotals& node) {
    node.live -= block.size;
    ++node.frees;
    node.lifetimes.add(event.time_ns - std::min(event.time_ns, block.time_ns));
  });
}

void SeriesSurvey::revived(Block& block, const Event&) {
  // The lifetime stays in the histogram: refused frees are too rare to move a median.
  on_floors(block, [&](TrackTotals&, NodeTotals& node) {
    node.live += block.size;
    --node.frees;
  });
}

void SeriesSurvey::resized(const Block& block, std::uint64_t old_size, const Event&) {
  on_floors(block, [&](TrackTotals&, NodeTotals& node) {
    node.live += block.size - old_size;
    node.peak = std::max(node.peak, node.live);
  });
}

void SeriesSurvey::after(const Event&, const LiveSet& set) {
  if (!changed_) return;
  changed_ = false;
  ++changes_;
  for (TrackTotals& track : tracks_) {
    const DeviceState* device = set.device(track.device);
    if (!device) continue;
    const FloorState& state = (*device)[track.floor];
    track.end = state.live;
    track.held_end = state.held;
    track.held_peak = state.peak_held;
    track.allocations = state.allocations;
    track.frees = state.frees;
    if (state.live > track.peak) {
      track.peak = state.live;
      track.peak_events = set.events();
    }
  }
}

// --- recorder ---

void SeriesRecorder::Level::set(std::int64_t value) {
  now = value;
  low = std::min(low, value);
  high = std::max(high, value);
}

void SeriesRecorder::Level::close() {
  last.push_back(now);
  above.push_back(static_cast<std::uint64_t>(high - now));
  below.push_back(static_cast<std::uint64_t>(now - low));
  low = high = now;
}

SeriesRecorder::SeriesRecorder(PageNames& names, const SeriesSurvey& survey, std::uint64_t start_ns,
                               std::vector<std::uint64_t> kept, const ReportOptions& options)
    : names_(names), survey_(survey), start_ns_(start_ns), kept_(std::move(kept)) {
  const std::size_t most = std::max<std::size_t>(1, options.max_moments);
  step_ = std::max<std::uint64_t>(1, (survey.changes() + most - 1) / most);
  tracks_.resize(survey.tracks().size());
  for (std::size_t t = 0; t < tracks_.size(); ++t) {
    const TrackTotals& totals = survey.tracks()[t];
    TrackSeries& track = tracks_[t];
    track.device = totals.device;
    track.floor = totals.floor;
    kept_.push_back(totals.peak_events);

    std::vector<PageNode> nodes;
    for (PageNode node = 0; node < totals.nodes.size(); ++node) {
      if (totals.nodes[node].allocations > 0) nodes.push_back(node);
    }
    std::stable_sort(nodes.begin(), nodes.end(),
                     [&](PageNode a, PageNode b) { return totals.nodes[a].peak > totals.nodes[b].peak; });
    nodes.resize(std::min(nodes.size(), options.max_sites));
    track.site_of_node.assign(names.node_count(), -1);
    track.sites.resize(nodes.size());
    for (std::size_t s = 0; s < nodes.size(); ++s) {
      track.sites[s].node = nodes[s];
      track.site_of_node[nodes[s]] = static_cast<std::int32_t>(s);
    }
  }
  std::sort(kept_.begin(), kept_.end());
  kept_.erase(std::unique(kept_.begin(), kept_.end()), kept_.end());
  close_moment(start_ns);
}

void SeriesRecorder::change(const Block& block, std::int64_t bytes, int blocks, std::uint64_t allocated) {
  const PageNode node = names_.node(block.site);
  for (const Floor floor : kFloors) {
    if (!counts_on(block, floor)) continue;
    changed_ = true;
    TrackSeries& track = tracks_[index_.of(block.device, floor)];
    const std::int32_t s = track.site_of_node[node];
    if (s < 0) continue;
    SiteSeries& site = track.sites[static_cast<std::size_t>(s)];
    site.live_now += bytes;
    site.count_now += blocks;
    site.allocated_now += as_signed(allocated);
    site.allocations_now += allocated > 0 ? 1 : 0;
    if (!site.touched) track.touched.push_back(static_cast<std::uint32_t>(s));
    site.touched = true;
  }
}

void SeriesRecorder::born(Block& block, const Event&) { change(block, as_signed(block.size), 1, block.size); }
void SeriesRecorder::died(const Block& block, const Event&, Death) { change(block, -as_signed(block.size), -1, 0); }
void SeriesRecorder::revived(Block& block, const Event&) { change(block, as_signed(block.size), 1, 0); }
void SeriesRecorder::resized(const Block& block, std::uint64_t old_size, const Event&) {
  change(block, as_signed(block.size) - as_signed(old_size), 0, 0);
}

void SeriesRecorder::after(const Event& event, const LiveSet& set) {
  events_ = set.events();
  for (TrackSeries& track : tracks_) {
    const DeviceState* device = set.device(track.device);
    if (!device) continue;
    const FloorState& state = (*device)[track.floor];
    if (as_signed(state.live) != track.live.now) track.live.set(as_signed(state.live));
    if (as_signed(state.held) != track.held.now) track.held.set(as_signed(state.held));
  }
  while (next_kept_ < kept_.size() && kept_[next_kept_] < events_) ++next_kept_;
  const bool is_kept = next_kept_ < kept_.size() && kept_[next_kept_] == events_;
  bool is_due = false;
  if (changed_) is_due = ++changes_ % step_ == 0;
  changed_ = false;
  if (is_kept || is_due) close_moment(event.time_ns);
}

void SeriesRecorder::close_moment(std::uint64_t time_ns) {
  const std::uint64_t moment = times_.size();
  times_.push_back(as_signed(time_ns - std::min(time_ns, start_ns_)));
  moment_events_.push_back(events_);
  for (TrackSeries& track : tracks_) {
    track.live.close();
    track.held.close();
    for (const std::uint32_t s : track.touched) {
      SiteSeries& site = track.sites[s];
      site.moments.push_back(moment);
      site.live.push_back(site.live_now);
      site.count.push_back(site.count_now);
      site.allocated.push_back(site.allocated_now);
      site.allocations.push_back(site.allocations_now);
      site.touched = false;
    }
    track.touched.clear();
  }
}

void SeriesRecorder::finish(std::uint64_t end_ns) {
  // The end is a moment of its own: where nothing happened after the last event it repeats that state.
  close_moment(end_ns);
}

std::size_t SeriesRecorder::moment_of(std::uint64_t events) const {
  const auto at = std::lower_bound(moment_events_.begin(), moment_events_.end(), events);
  if (at == moment_events_.end()) return moment_events_.size() - 1;
  return static_cast<std::size_t>(at - moment_events_.begin());
}

PageSection SeriesRecorder::site_table(std::size_t track) const {
  std::vector<std::uint64_t> node, peak, allocations, frees, allocated, life, entries;
  for (const SiteSeries& site : tracks_[track].sites) {
    const NodeTotals& totals = survey_.tracks()[track].nodes[site.node];
    node.push_back(site.node);
    peak.push_back(totals.peak);
    allocations.push_back(totals.allocations);
    frees.push_back(totals.frees);
    allocated.push_back(totals.allocated_bytes);
    life.push_back(totals.lifetimes.median_ns());
    entries.push_back(site.moments.size());
  }
  PageSection table("sites" + std::to_string(track));
  table.add_uint("node", node);
  table.add_uint("peak", peak);
  table.add_uint("allocations", allocations);
  table.add_uint("frees", frees);
  table.add_uint("allocated", allocated);
  table.add_uint("life", life);
  table.add_uint("entries", entries);
  return table;
}

PageSection SeriesRecorder::site_steps(std::size_t track) const {
  std::vector<std::uint64_t> moments;
  std::vector<std::int64_t> live, count, allocated, allocations;
  for (const SiteSeries& site : tracks_[track].sites) {
    std::uint64_t previous = 0;
    for (const std::uint64_t moment : site.moments) {
      moments.push_back(moment - previous);
      previous = moment;
    }
    live.insert(live.end(), site.live.begin(), site.live.end());
    count.insert(count.end(), site.count.begin(), site.count.end());
    allocated.insert(allocated.end(), site.allocated.begin(), site.allocated.end());
    allocations.insert(allocations.end(), site.allocations.begin(), site.allocations.end());
  }
  PageSection steps("series" + std::to_string(track));
  steps.add_uint("moment", moments);
  steps.add_delta("live", live);
  steps.add_delta("count", count);
  steps.add_delta("allocated", allocated);
  steps.add_delta("allocations", allocations);
  return steps;
}

std::vector<PageSection> SeriesRecorder::sections() const {
  std::vector<PageSection> sections;
  sections.emplace_back("moments").add_delta("time", times_);
  for (std::size_t t = 0; t < tracks_.size(); ++t) {
    PageSection levels("track" + std::to_string(t));
    levels.add_delta("last", tracks_[t].live.last);
    levels.add_uint("above", tracks_[t].live.above);
    levels.add_uint("below", tracks_[t].live.below);
    levels.add_delta("held_last", tracks_[t].held.last);
    levels.add_uint("held_above", tracks_[t].held.above);
    levels.add_uint("held_below", tracks_[t].held.below);
    sections.push_back(std::move(levels));
    sections.push_back(site_table(t));
    sections.push_back(site_steps(t));
  }
  return sections;
}

}  // namespace cuheap
