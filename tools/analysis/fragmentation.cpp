#include "tools/analysis/fragmentation.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <unordered_map>

namespace cuheap {
namespace {

using Place = std::pair<std::uint16_t, std::uint64_t>;  // process, address

/// Learns which device allocations serve as segments of a framework: those that ever held a tensor. One that is wholly
/// idle now can only be recognised by its past.
class SegmentFinder : public LiveSetObserver {
 public:
  struct Candidate {
    std::uint64_t size = 0;
    bool hosts = false;
  };

  void born(Block& block, const Event&) override {
    if (is_candidate(block)) candidates_[{block.process, block.address}] = {block.size, false};
    else if (block.family == Family::Tensor) host(block);
  }
  void revived(Block& block, const Event& event) override { born(block, event); }
  void died(const Block& block, const Event&, Death) override {
    if (!is_candidate(block)) return;
    candidates_.erase({block.process, block.address});
    last_ = candidates_.end();
  }
  bool hosts(const Block& block) const {
    if (!is_candidate(block)) return false;  // a tensor may have the address of its segment
    const auto it = candidates_.find({block.process, block.address});
    return it != candidates_.end() && it->second.hosts;
  }

 private:
  static bool is_candidate(const Block& b) {
    return b.floor == Floor::Allocation && b.device >= 0 && b.family != Family::Array && b.family != Family::Imported;
  }
  static bool contains(const std::pair<const Place, Candidate>& c, const Block& b) {
    return c.first.first == b.process && c.first.second <= b.address && b.address - c.first.second < c.second.size;
  }
  void host(const Block& tensor) {
    if (last_ == candidates_.end() || !contains(*last_, tensor)) {
      last_ = candidates_.upper_bound({tensor.process, tensor.address});
      if (last_ == candidates_.begin()) { last_ = candidates_.end(); return; }
      if (!contains(*--last_, tensor)) { last_ = candidates_.end(); return; }
    }
    last_->second.hosts = true;
  }

  std::map<Place, Candidate> candidates_;
  std::map<Place, Candidate>::iterator last_ = candidates_.end();
};

bool by_place(const Segment& a, const Segment& b) {
  return std::tie(a.floor, a.process, a.address) < std::tie(b.floor, b.process, b.address);
}

Segment segment_of(const Block& block, Floor floor) {
  Segment s;
  s.device = block.device;
  s.process = block.process;
  s.floor = floor;
  s.address = block.address;
  s.size = block.size;
  s.site = block.site;
  return s;
}

Segment segment_of(const MappedRange& range, const LiveSet& set, Floor floor) {
  Segment s;
  s.device = range.device;
  s.process = range.process;
  s.floor = floor;
  s.address = range.address;
  s.size = range.size;
  const Block* handle = set.find(range.process, Floor::Physical, range.pool ? Family::PoolGranule : Family::Handle, range.handle);
  if (handle != nullptr) s.site = handle->site;
  return s;
}

/// Living blocks of a floor that may lie in segments, by place.
std::vector<Block> blocks_of(const LiveSet& set, Floor floor) {
  std::vector<Block> result;
  set.for_each_block([&](const Block& b) {
    if (b.device < 0 || b.size == 0) return;
    if (floor == Floor::Framework ? b.floor == floor && b.family != Family::Segment
                                  : b.floor == floor && (b.flags & kEventPooled) != 0) {
      result.push_back(b);
    }
  });
  std::sort(result.begin(), result.end(), [](const Block& a, const Block& b) {
    return std::tie(a.process, a.address) < std::tie(b.process, b.address);
  });
  return result;
}

bool overlaps(const Segment& s, const Block& b) {
  return s.process == b.process && b.address < s.address + s.size && s.address < b.address + b.size;
}

/// Puts each block, or its part, into the segments it lies in. Both are sorted by place.
void place_blocks(std::vector<Segment>& segments, const std::vector<Block>& blocks) {
  std::size_t first = 0;  // first block that can reach into this segment or a later one
  for (Segment& s : segments) {
    while (first < blocks.size() && (blocks[first].process < s.process || (blocks[first].process == s.process &&
                                     blocks[first].address + blocks[first].size <= s.address))) ++first;
    for (std::size_t i = first; i < blocks.size() && overlaps(s, blocks[i]); ++i) {
      const Block& b = blocks[i];
      const std::uint64_t begin = std::max(b.address, s.address);
      const std::uint64_t end = std::min(b.address + b.size, s.address + s.size);
      s.blocks.push_back({begin, end - begin, b.site, b.time_ns});
      s.live += end - begin;
    }
    s.live = std::min(s.live, s.size);
  }
}

/// Mapped pieces that follow each other without a gap are one stretch of address space.
void join_neighbours(std::vector<Segment>& segments) {
  for (std::size_t i = 0; i + 1 < segments.size(); ++i) {
    Segment& a = segments[i];
    const Segment& b = segments[i + 1];
    a.joins_next = a.process == b.process && a.device == b.device && a.address + a.size == b.address;
  }
}

/// A stretch without any tensor is not the framework's, as far as can be known.
std::vector<Segment> stretches_with_blocks(const std::vector<Segment>& segments) {
  std::vector<Segment> result;
  for (std::size_t begin = 0; begin < segments.size();) {
    std::size_t end = begin;
    while (segments[end].joins_next) ++end;
    ++end;
    const bool used = std::any_of(segments.begin() + static_cast<std::ptrdiff_t>(begin),
                                  segments.begin() + static_cast<std::ptrdiff_t>(end),
                                  [](const Segment& s) { return !s.blocks.empty(); });
    if (used)
      result.insert(result.end(), segments.begin() + static_cast<std::ptrdiff_t>(begin),
                    segments.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  return result;
}

std::vector<Segment> mapped_segments(const LiveSet& set, Floor floor, bool pool, const std::vector<Block>& blocks) {
  std::vector<Segment> result;
  for (const MappedRange& range : set.mapped()) {
    if (range.pool == pool && range.device >= 0) result.push_back(segment_of(range, set, floor));
  }
  std::sort(result.begin(), result.end(), by_place);
  join_neighbours(result);
  place_blocks(result, blocks);
  return result;
}

std::vector<Segment> framework_segments(const LiveSet& set, const SegmentFinder& finder) {
  const std::vector<Block> blocks = blocks_of(set, Floor::Framework);
  std::vector<Segment> result;
  set.for_each_block([&](const Block& b) {
    if (b.device < 0) return;
    const DeviceState& row = *set.device(b.device);
    if (row.segments_seen ? b.family == Family::Segment : finder.hosts(b)) result.push_back(segment_of(b, Floor::Framework));
  });
  std::sort(result.begin(), result.end(), by_place);
  place_blocks(result, blocks);
  const std::vector<Segment> mapped = stretches_with_blocks(mapped_segments(set, Floor::Framework, false, blocks));
  result.insert(result.end(), mapped.begin(), mapped.end());
  std::sort(result.begin(), result.end(), by_place);
  return result;
}

/// Calls f(size) for every hole between, before and behind the blocks of each stretch.
template <typename F>
void for_each_hole(const std::vector<Segment>& segments, std::int16_t device, F&& f) {
  std::uint64_t hole = 0;
  for (const Segment& s : segments) {
    if (s.device != device) continue;
    std::uint64_t at = s.address;
    for (const SegmentBlock& b : s.blocks) {
      if (b.address > at) hole += b.address - at;
      if (hole != 0) f(hole);
      hole = 0;
      at = std::max(at, b.address + b.size);
    }
    hole += s.address + s.size - at;
    if (s.joins_next) continue;
    if (hole != 0) f(hole);
    hole = 0;
  }
}

class Pinning {
 public:
  void add(const Segment& s) {
    const std::uint64_t idle = s.size - s.live;
    std::unordered_map<SiteId, std::uint64_t> keepers;
    for (const SegmentBlock& b : s.blocks) keepers[b.site] += b.size;
    std::uint64_t left = idle;
    std::size_t sites_left = keepers.size();
    for (const auto& [site, bytes] : keepers) {
      PinningSite& p = sites_[site];
      p.site = site;
      p.live_bytes += bytes;
      const std::uint64_t share = left / sites_left--;  // the shares add up to the idle bytes
      p.pinned_idle_bytes += share;
      left -= share;
      if (keepers.size() == 1) p.sole_idle_bytes += idle;
      ++p.segments;
    }
  }
  std::vector<PinningSite> ranked() const {
    std::vector<PinningSite> result;
    for (const auto& [site, p] : sites_) result.push_back(p);
    std::sort(result.begin(), result.end(), [](const PinningSite& a, const PinningSite& b) {
      return a.pinned_idle_bytes != b.pinned_idle_bytes ? a.pinned_idle_bytes > b.pinned_idle_bytes : a.site < b.site;
    });
    return result;
  }

 private:
  std::unordered_map<SiteId, PinningSite> sites_;
};

FloorFragmentation describe(const DeviceState& row, Floor floor, const std::vector<Segment>& segments) {
  FloorFragmentation result;
  result.device = row.device;
  result.floor = floor;
  result.live = row[floor].live;
  result.held = row[floor].held;
  result.fragmentation = fragmentation_of(result.live, result.held);
  Pinning pinning;
  for (const Segment& s : segments) {
    if (s.device != row.device) continue;
    result.segments_known = true;
    result.segment_bytes += s.size;
    ++result.segment_count;
    result.idle_bytes += s.size - s.live;
    if (s.live == 0) result.wholly_idle_bytes += s.size;
    else if (s.live < s.size) pinning.add(s);
  }
  result.pinning_sites = pinning.ranked();
  std::map<std::uint64_t, std::uint64_t> holes;
  for_each_hole(segments, row.device, [&](std::uint64_t size) {
    ++holes[std::bit_floor(size)];
    result.largest_hole = std::max(result.largest_hole, size);
  });
  result.holes.assign(holes.begin(), holes.end());
  return result;
}

}  // namespace

FragmentationReport fragmentation(const Trace& trace, Moment at, const Selection& selection) {
  LiveSet set;
  SegmentFinder finder;
  replay(trace, set, {&finder}, at);
  FragmentationReport report;
  report.at = at;
  for (const Floor floor : {Floor::Framework, Floor::Allocation}) {
    if (selection.floor != Floor::None && selection.floor != floor) continue;
    std::vector<Segment> segments = floor == Floor::Framework ? framework_segments(set, finder)
                                                              : mapped_segments(set, floor, true, blocks_of(set, floor));
    std::erase_if(segments, [&](const Segment& s) { return !selection.takes(s.device); });
    for (const DeviceState& row : set.devices()) {
      if (row.device >= 0 && selection.takes(row.device) && row[floor].seen) report.floors.push_back(describe(row, floor, segments));
    }
    report.segments.insert(report.segments.end(), std::make_move_iterator(segments.begin()), std::make_move_iterator(segments.end()));
  }
  return report;
}

FragmentationReport fragmentation(const Trace& trace, const When& when, const Selection& selection) {
  return fragmentation(trace, resolve(trace, when, selection), selection);
}

}  // namespace cuheap
