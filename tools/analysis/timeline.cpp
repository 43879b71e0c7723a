#include "tools/analysis/timeline.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace cuheap {
namespace {

/// A series under construction: only buckets that saw a change are stored, the rest repeats the value before.
class Recorder {
 public:
  void set(std::uint32_t bucket, std::uint64_t value) {
    if (points_.empty() || points_.back().bucket != bucket) {
      const std::uint64_t before = points_.empty() ? 0 : points_.back().value.last;
      points_.push_back({bucket, {before, before, before}});  // the bucket starts with the old value
    }
    MinMaxLast& v = points_.back().value;
    v.min = std::min(v.min, value);
    v.max = std::max(v.max, value);
    v.last = value;
  }
  /// Two buckets become one.
  void halve() {
    std::size_t out = 0;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      Point p = points_[i];
      p.bucket /= 2;
      if (out != 0 && points_[out - 1].bucket == p.bucket) {
        MinMaxLast& v = points_[out - 1].value;
        v = {std::min(v.min, p.value.min), std::max(v.max, p.value.max), p.value.last};
      } else {
        points_[out++] = p;
      }
    }
    points_.resize(out);
  }
  bool empty() const { return points_.empty(); }
  Series series(std::uint32_t buckets) const {
    Series result;
    result.buckets.reserve(buckets);
    std::uint64_t value = 0;
    std::size_t next = 0;
    for (std::uint32_t i = 0; i < buckets; ++i) {
      if (next < points_.size() && points_[next].bucket == i) {
        result.buckets.push_back(points_[next++].value);
        value = result.buckets.back().last;
      } else {
        result.buckets.push_back({value, value, value});
      }
    }
    return result;
  }

 private:
  struct Point {
    std::uint32_t bucket;
    MinMaxLast value;
  };
  std::vector<Point> points_;
};

class Builder : public LiveSetObserver {
 public:
  Builder(const Trace& trace, const TimelineOptions& options) : options_(options) {
    result_.start_ns = trace.start_ns;
    const std::uint64_t duration = trace.end_ns > trace.start_ns ? trace.end_ns - trace.start_ns : 0;
    result_.width_ns = duration / std::max<std::uint32_t>(options.max_buckets, 1) + 1;
  }

  void born(Block& block, const Event&) override { touch(block.device); }
  void died(const Block& block, const Event&, Death) override { touch(block.device); }
  void revived(Block& block, const Event&) override { touch(block.device); }
  void resized(const Block& block, std::uint64_t, const Event&) override { touch(block.device); }

  void after(const Event& event, const LiveSet& set) override {
    last_ns_ = std::max(last_ns_, event.time_ns);
    switch (event.kind) {
      case EventKind::Totals: touch(event.device); break;
      case EventKind::OutOfMemory: if (event.floor == Floor::Framework) touch(event.device); break;
      case EventKind::MemoryInfo: sample(event); break;
      case EventKind::PhaseBegin: begin(event); break;
      case EventKind::PhaseEnd: end(event); break;
      case EventKind::Mark: mark(event); break;
      default: break;
    }
    for (const std::int16_t device : touched_) record(*set.device(device), bucket_of(event.time_ns));
    touched_.clear();
  }

  Timeline finish(const Trace& trace) {
    const std::uint64_t end_ns = std::max({trace.end_ns, last_ns_, result_.start_ns});
    const std::uint32_t last = bucket_of(end_ns);
    result_.buckets = last + 1;
    for (auto& [key, r] : floors_) {
      result_.floors.push_back({key.first, key.second, r.live.series(result_.buckets), r.held.series(result_.buckets)});
    }
    for (auto& [device, use] : driver_) result_.driver.push_back({device, use.total, use.used.series(result_.buckets)});
    for (PhaseSpan& span : result_.phases) if (!span.ended) span.end_ns = end_ns;
    return std::move(result_);
  }

 private:
  struct FloorRecorder { Recorder live, held; };
  struct DriverRecorder { std::uint64_t total = 0; Recorder used; };

  void touch(std::int16_t device) {
    if (std::find(touched_.begin(), touched_.end(), device) == touched_.end()) touched_.push_back(device);
  }

  std::uint32_t bucket_of(std::uint64_t time_ns) {
    const std::uint64_t since = time_ns > result_.start_ns ? time_ns - result_.start_ns : 0;
    while (since / result_.width_ns >= options_.max_buckets) {
      result_.width_ns *= 2;
      for (auto& [key, r] : floors_) { r.live.halve(); r.held.halve(); }
      for (auto& [device, use] : driver_) use.used.halve();
    }
    return static_cast<std::uint32_t>(since / result_.width_ns);
  }

  void record(const DeviceState& row, std::uint32_t bucket) {
    for (const Floor floor : {Floor::Physical, Floor::Allocation, Floor::Framework}) {
      if (!row[floor].seen) continue;
      FloorRecorder& r = floors_[{row.device, floor}];
      r.live.set(bucket, row[floor].live);
      r.held.set(bucket, row[floor].held);
    }
  }

  void sample(const Event& e) {
    const std::uint32_t bucket = bucket_of(e.time_ns);
    DriverRecorder& use = driver_[e.device];
    use.total = e.extra0;
    use.used.set(bucket, e.extra0 > e.size ? e.extra0 - e.size : 0);
  }

  void begin(const Event& e) {
    if (result_.phases.size() >= options_.max_marks) { ++result_.phases_left_out; return; }
    open_[{e.process, e.thread}].push_back(result_.phases.size());
    result_.phases.push_back({e.phase, e.process, e.thread, e.time_ns, 0, false});
  }

  void end(const Event& e) {
    // Phases nest on a thread; one that is closed closes those inside it.
    std::vector<std::size_t>& open = open_[{e.process, e.thread}];
    const auto it = std::find_if(open.rbegin(), open.rend(), [&](std::size_t i) { return result_.phases[i].phase == e.phase; });
    if (it == open.rend()) return;
    for (auto inner = it.base() - 1; inner != open.end(); ++inner) {
      result_.phases[*inner].end_ns = e.time_ns;
      result_.phases[*inner].ended = true;
    }
    open.erase(it.base() - 1, open.end());
  }

  void mark(const Event& e) {
    if (result_.marks.size() >= options_.max_marks) { ++result_.marks_left_out; return; }
    result_.marks.push_back({static_cast<NameId>(e.extra0), e.process, e.time_ns});
  }

  TimelineOptions options_;
  Timeline result_;
  std::uint64_t last_ns_ = 0;
  std::vector<std::int16_t> touched_;
  std::map<std::pair<std::int16_t, Floor>, FloorRecorder> floors_;
  std::map<std::int16_t, DriverRecorder> driver_;
  std::map<std::pair<std::uint16_t, std::uint32_t>, std::vector<std::size_t>> open_;
};

class SiteBuilder : public LiveSetObserver {
 public:
  SiteBuilder(const Timeline& grid, const std::vector<SiteId>& sites, const Selection& selection)
      : grid_(grid), selection_(selection) {
    for (const SiteId site : sites) {
      index_.emplace(site, result_.size());
      result_.push_back({site, {}});
    }
    live_.resize(result_.size());
  }
  void born(Block& block, const Event& e) override { change(block, e, block.size); }
  void died(const Block& block, const Event& e, Death) override { change(block, e, std::uint64_t{0} - block.size); }
  void revived(Block& block, const Event& e) override { change(block, e, block.size); }
  void resized(const Block& block, std::uint64_t old_size, const Event& e) override { change(block, e, block.size - old_size); }
  std::vector<SiteSeries> take() { return std::move(result_); }

 private:
  void change(const Block& block, const Event& e, std::uint64_t delta) {
    if (!selection_.takes(block.device) || !counts_on(block, selection_.floor)) return;
    const auto it = index_.find(block.site);
    if (it == index_.end()) return;
    const std::uint64_t since = e.time_ns > grid_.start_ns ? e.time_ns - grid_.start_ns : 0;
    const std::uint32_t bucket =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(since / grid_.width_ns, grid_.buckets == 0 ? 0 : grid_.buckets - 1));
    std::vector<SiteSeries::Step>& steps = result_[it->second].steps;
    std::uint64_t& live = live_[it->second];
    if (steps.empty() || steps.back().bucket != bucket) steps.push_back({bucket, live, live});
    live += delta;
    steps.back().last = live;
    steps.back().max = std::max(steps.back().max, live);
  }

  const Timeline& grid_;
  Selection selection_;
  std::unordered_map<SiteId, std::size_t> index_;
  std::vector<SiteSeries> result_;
  std::vector<std::uint64_t> live_;
};

}  // namespace

Series Series::coarser() const {
  Series result;
  for (std::size_t i = 0; i < buckets.size(); i += 2) {
    MinMaxLast v = buckets[i];
    if (i + 1 < buckets.size()) {
      const MinMaxLast& w = buckets[i + 1];
      v = {std::min(v.min, w.min), std::max(v.max, w.max), w.last};
    }
    result.buckets.push_back(v);
  }
  return result;
}

Timeline timeline(const Trace& trace, const TimelineOptions& options) {
  LiveSet set;
  Builder builder(trace, options);
  replay(trace, set, {&builder});
  return builder.finish(trace);
}

std::vector<SiteSeries> site_series(const Trace& trace, const Timeline& grid, const std::vector<SiteId>& sites,
                                    const Selection& selection) {
  LiveSet set;
  SiteBuilder builder(grid, sites, selection);
  replay(trace, set, {&builder});
  return builder.take();
}

}  // namespace cuheap
