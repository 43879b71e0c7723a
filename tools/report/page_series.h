// The page's figures over time, in two replays. SeriesSurvey finds every floor's totals, its sites and their peaks;
// SeriesRecorder then notes, at a bounded number of moments, each floor's bytes with the extremes since the moment before
// and each chosen site's bytes. At a moment all figures are exact: the sites' series plus "other" add up to the floor.
#pragma once
#include <cstdint>
#include <vector>

#include "tools/analysis/replay.h"
#include "tools/report/columns.h"
#include "tools/report/html.h"
#include "tools/report/page_names.h"

namespace cuheap {

/// Quarter-octave histogram of lifetimes; its median is within 10 %.
class LifetimeHistogram {
 public:
  void add(std::uint64_t lifetime_ns);
  std::uint64_t median_ns() const;  // 0: nothing ever died

 private:
  std::vector<std::uint32_t> buckets_;
  std::uint64_t count_ = 0;
};

struct NodeTotals {
  std::uint64_t live = 0, peak = 0;  // bytes
  std::uint64_t allocations = 0, frees = 0, allocated_bytes = 0;
  LifetimeHistogram lifetimes;
};

/// One floor of one device.
struct TrackTotals {
  std::int16_t device = 0;
  Floor floor = Floor::None;
  std::uint64_t peak = 0, peak_events = 0;  // of live bytes
  std::uint64_t end = 0, held_peak = 0, held_end = 0;
  std::uint64_t allocations = 0, frees = 0;
  std::vector<NodeTotals> nodes;           // by PageNode
};

/// Finds the track of a device and floor; tracks are numbered as they appear, in every replay alike.
class TrackIndex {
 public:
  std::uint32_t of(std::int16_t device, Floor floor);

 private:
  std::vector<std::int32_t> tracks_;  // (device + 1) * floors + floor -> track
  std::uint32_t count_ = 0;
};

class SeriesSurvey : public LiveSetObserver {
 public:
  explicit SeriesSurvey(PageNames& names) : names_(names) {}

  void born(Block& block, const Event& event) override;
  void died(const Block& block, const Event& event, Death death) override;
  void revived(Block& block, const Event& event) override;
  void resized(const Block& block, std::uint64_t old_size, const Event& event) override;
  void after(const Event& event, const LiveSet& set) override;

  const std::vector<TrackTotals>& tracks() const { return tracks_; }
  std::uint64_t changes() const { return changes_; }  // events that changed a live set

 private:
  template <typename F>
  void on_floors(const Block& block, F&& f);

  PageNames& names_;
  TrackIndex index_;
  std::vector<TrackTotals> tracks_;
  std::uint64_t changes_ = 0;
  bool changed_ = false;
};

class SeriesRecorder : public LiveSetObserver {
 public:
  /// `kept`: states (see Moment::events) that must be moments, besides every floor's own peak and the end.
  SeriesRecorder(PageNames& names, const SeriesSurvey& survey, std::uint64_t start_ns, std::vector<std::uint64_t> kept,
                 const ReportOptions& options);

  void born(Block& block, const Event& event) override;
  void died(const Block& block, const Event& event, Death death) override;
  void revived(Block& block, const Event& event) override;
  void resized(const Block& block, std::uint64_t old_size, const Event& event) override;
  void after(const Event& event, const LiveSet& set) override;
  void finish(std::uint64_t end_ns);

  std::size_t moment_count() const { return times_.size(); }
  /// The moment that shows the state after that many events.
  std::size_t moment_of(std::uint64_t events) const;
  /// True if every change is a moment of its own.
  bool is_complete() const { return step_ == 1; }
  std::size_t site_count(std::size_t track) const { return tracks_[track].sites.size(); }
  std::vector<PageSection> sections() const;

 private:
  struct SiteSeries {
    PageNode node = 0;
    std::vector<std::uint64_t> moments;
    std::vector<std::int64_t> live, count, allocated, allocations;
    std::int64_t live_now = 0, count_now = 0, allocated_now = 0, allocations_now = 0;
    bool touched = false;
  };
  struct Level {  // bytes of a floor: the value, and its extremes since the last moment
    std::int64_t now = 0, low = 0, high = 0;
    std::vector<std::int64_t> last;
    std::vector<std::uint64_t> above, below;  // maximum - last, last - minimum
    void set(std::int64_t value);
    void close();
  };
  struct TrackSeries {
    std::int16_t device = 0;
    Floor floor = Floor::None;
    Level live, held;
    std::vector<std::int32_t> site_of_node;   // -1: summed as "other"
    std::vector<SiteSeries> sites;            // by falling peak
    std::vector<std::uint32_t> touched;
  };

  void change(const Block& block, std::int64_t bytes, int blocks, std::uint64_t allocated);
  void close_moment(std::uint64_t time_ns);
  PageSection site_table(std::size_t track) const;
  PageSection site_steps(std::size_t track) const;

  PageNames& names_;
  const SeriesSurvey& survey_;
  std::uint64_t start_ns_;
  std::uint64_t step_ = 1, changes_ = 0;
  bool changed_ = false;
  std::vector<std::uint64_t> kept_;           // rising
  std::size_t next_kept_ = 0;
  std::uint64_t events_ = 0;                  // seen so far
  std::vector<std::uint64_t> moment_events_;
  std::vector<std::int64_t> times_;
  TrackIndex index_;
  std::vector<TrackSeries> tracks_;
};

}  // namespace cuheap
