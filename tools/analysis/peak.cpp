#include "tools/analysis/peak.h"

#include <algorithm>
#include <unordered_map>

namespace cuheap {
namespace {

// Bytes by site and phase.
class SiteSums {
 public:
  void add(const Block& block) {
    PhaseBytes& sum = sums_[static_cast<std::uint64_t>(block.site) << 32 | block.phase];
    sum.bytes += block.size;
    ++sum.count;
  }
  void fill(LiveSites& result) const {
    std::unordered_map<SiteId, SiteBytes> sites;
    for (const auto& [key, sum] : sums_) {
      SiteBytes& site = sites[static_cast<SiteId>(key >> 32)];
      site.bytes += sum.bytes;
      site.count += sum.count;
      site.phases.push_back({static_cast<PhaseId>(key), sum.bytes, sum.count});
    }
    for (auto& [id, site] : sites) {
      site.site = id;
      result.total += site.bytes;
      result.count += site.count;
      std::sort(site.phases.begin(), site.phases.end(), [](const PhaseBytes& a, const PhaseBytes& b) { return a.phase < b.phase; });
      result.sites.push_back(std::move(site));
    }
    std::sort(result.sites.begin(), result.sites.end(), [](const SiteBytes& a, const SiteBytes& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.site < b.site;
    });
  }

 private:
  std::unordered_map<std::uint64_t, PhaseBytes> sums_;
};

Selection with_floor(Selection selection, const LiveSet& set) {
  if (selection.floor == Floor::None) selection.floor = set.top_floor(selection.device.value_or(0));
  return selection;
}

}  // namespace

LiveSites sites_of(const LiveSet& set, const Selection& selection) {
  LiveSites result;
  result.floor = selection.floor;
  SiteSums sums;
  set.for_each_block([&](const Block& block) {
    if (selection.takes(block.device) && counts_on(block, selection.floor)) sums.add(block);
  });
  sums.fill(result);
  return result;
}

LiveSites live_at(const Trace& trace, Moment at, const Selection& selection) {
  LiveSet set;
  replay(trace, set, {}, at);
  LiveSites result = sites_of(set, with_floor(selection, set));
  result.at = at;
  return result;
}

LiveSites live_at(const Trace& trace, const When& when, const Selection& selection) {
  return live_at(trace, resolve(trace, when, selection), selection);
}

LiveSites allocated_and_alive(const Trace& trace, std::uint64_t from_ns, std::uint64_t to_ns, const Selection& selection) {
  const Moment at = resolve(trace, {When::Kind::Time, to_ns, Floor::None});
  LiveSet set;
  replay(trace, set, {}, at);
  const Selection chosen = with_floor(selection, set);
  LiveSites result;
  result.at = at;
  result.floor = chosen.floor;
  SiteSums sums;
  set.for_each_block([&](const Block& block) {
    const bool inside = block.time_ns >= from_ns && block.time_ns < to_ns && (block.flags & kEventInitial) == 0;
    if (inside && chosen.takes(block.device) && counts_on(block, chosen.floor)) sums.add(block);
  });
  sums.fill(result);
  return result;
}

std::vector<SiteChange> difference(const LiveSites& before, const LiveSites& after) {
  std::unordered_map<SiteId, SiteChange> changes;
  for (const SiteBytes& s : before.sites) changes[s.site].before = s.bytes;
  for (const SiteBytes& s : after.sites) changes[s.site].after = s.bytes;
  std::vector<SiteChange> result;
  for (auto& [site, change] : changes) {
    change.site = site;
    if (change.before != change.after) result.push_back(change);
  }
  const auto size_of = [](const SiteChange& c) { return c.after > c.before ? c.after - c.before : c.before - c.after; };
  std::sort(result.begin(), result.end(), [&](const SiteChange& a, const SiteChange& b) {
    return size_of(a) != size_of(b) ? size_of(a) > size_of(b) : a.site < b.site;
  });
  return result;
}

}  // namespace cuheap
