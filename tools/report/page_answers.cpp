#include "tools/report/page_answers.h"

#include <algorithm>
#include <numeric>

#include "tools/analysis/phases.h"

namespace cuheap {
namespace {

using nlohmann::json;

std::uint64_t relative(std::uint64_t time_ns, const Trace& trace) { return time_ns - std::min(time_ns, trace.start_ns); }

}  // namespace

SurvivalPictures::SurvivalPictures(const Trace& trace, const std::vector<LeakVerdict>& verdicts)
    : start_ns_(trace.start_ns), end_ns_(std::max(trace.end_ns, trace.start_ns + 1)) {
  for (const LeakVerdict& verdict : verdicts) {
    by_site_[verdict.site].push_back(pictures_.size());
    pictures_.push_back({&verdict, {}, {}});
  }
}

SurvivalPictures::Picture* SurvivalPictures::find(const Block& block) {
  const auto found = by_site_.find(block.site);
  if (found == by_site_.end()) return nullptr;
  for (const std::size_t i : found->second) {
    const LeakVerdict& verdict = *pictures_[i].verdict;
    const bool in_class = verdict.size_high == 0 || (block.size >= verdict.size_low && block.size <= verdict.size_high);
    if (in_class && block.device == verdict.device && block.process == verdict.process && counts_on(block, verdict.floor)) {
      return &pictures_[i];
    }
  }
  return nullptr;
}

std::size_t SurvivalPictures::part_of(std::uint64_t ns, std::size_t parts) const {
  const double share = static_cast<double>(ns) / static_cast<double>(end_ns_ - start_ns_);
  return std::min(parts - 1, static_cast<std::size_t>(share * static_cast<double>(parts)));
}

void SurvivalPictures::born(Block& block, const Event&) {
  if (Picture* picture = find(block)) ++picture->births[part_of(block.time_ns - std::min(block.time_ns, start_ns_), kGroups)];
}

void SurvivalPictures::count_death(const Block& block, const Event& event, std::int64_t by) {
  Picture* picture = find(block);
  if (!picture) return;
  const std::size_t group = part_of(block.time_ns - std::min(block.time_ns, start_ns_), kGroups);
  picture->deaths[group][part_of(event.time_ns - std::min(event.time_ns, block.time_ns), kAges)] += by;
}

void SurvivalPictures::died(const Block& block, const Event& event, Death) { count_death(block, event, 1); }
void SurvivalPictures::revived(Block& block, const Event& event) { count_death(block, event, -1); }

json SurvivalPictures::picture(std::size_t verdict) const {
  const Picture& picture = pictures_[verdict];
  json births = json::array(), alive = json::array();
  for (std::size_t group = 0; group < kGroups; ++group) {
    births.push_back(picture.births[group]);
    json column = json::array();
    std::int64_t left = static_cast<std::int64_t>(picture.births[group]);
    // Ages that the whole group has lived through: of later ones the run saw only a part.
    const std::size_t ages = (kGroups - 1 - group) * kAges / kGroups + 1;
    for (std::size_t age = 0; age < ages && picture.births[group] > 0; ++age) {
      left -= picture.deaths[group][age];
      column.push_back(std::max<std::int64_t>(0, left) * 1000 / static_cast<std::int64_t>(picture.births[group]));
    }
    alive.push_back(std::move(column));
  }
  return {{"births", std::move(births)}, {"alive", std::move(alive)}};
}

json leak_json(const LeakVerdict& verdict, const Trace& trace, PageNames& names) {
  json group_times = json::array();
  for (const std::uint64_t time_ns : verdict.group_begin_ns) group_times.push_back(relative(time_ns, trace));
  json leak = {{"verdict", verdict_name(verdict.verdict)},
               {"device", verdict.device},
               {"floor", floor_name(verdict.floor)},
               {"process", verdict.process},
               {"node", names.node(verdict.site)},
               {"phases", verdict.phases},
               {"size_low", verdict.size_low},
               {"size_high", verdict.size_high},
               {"bytes_per_second", verdict.bytes_per_second},
               {"ci95", {verdict.ci95[0], verdict.ci95[1]}},
               {"bytes_per_window", verdict.bytes_per_window},
               {"windows", verdict.windows},
               {"window", verdict.window},
               {"live_bytes", verdict.live_bytes},
               {"live_count", verdict.live_count},
               {"births", verdict.births},
               {"mature_births", verdict.mature_births},
               {"survivors", verdict.survivors},
               {"residue_share", verdict.residue_share},
               {"group_births", verdict.group_births},
               {"group_survivors", verdict.group_survivors},
               {"group_bytes", verdict.group_bytes},
               {"group_begin_ns", std::move(group_times)},
               {"longest_life_seconds", verdict.longest_life_seconds},
               {"reason", verdict.reason}};
  if (verdict.oom_in_seconds) {
    leak["oom_in_seconds"] = *verdict.oom_in_seconds;
    leak["oom_interval"] = {verdict.oom_interval[0], verdict.oom_interval[1]};
  }
  if (verdict.ran_out_ns != 0) leak["ran_out_ns"] = relative(verdict.ran_out_ns, trace);
  return leak;
}

json oom_json(const OomReport& oom, const Trace& trace, PageNames& names) {
  json sites = json::array();
  for (const SiteBytes& site : oom.top_sites.sites) {
    sites.push_back({{"node", names.node(site.site)}, {"bytes", site.bytes}, {"count", site.count}});
  }
  const FloorState& floor = oom.state[oom.floor];
  return {{"at_ns", relative(oom.at.time_ns, trace)}, {"device", oom.device}, {"floor", floor_name(oom.floor)},
          {"request", oom.request}, {"node", names.node(oom.site)},
          {"phase", oom.phase == 0 ? "" : phase_name(trace, oom.phase)}, {"live", floor.live}, {"held", floor.held},
          {"device_total", oom.device_total}, {"class", oom.oom_class}, {"evidence", oom.evidence}, {"advice", oom.advice},
          {"will_not_help", oom.will_not_help}, {"top_sites", std::move(sites)}};
}

json fragmentation_json(const FloorFragmentation& floor, PageNames& names) {
  constexpr std::size_t kMostSites = 50;
  json sites = json::array();
  for (const PinningSite& site : floor.pinning_sites) {
    if (sites.size() >= kMostSites) break;
    sites.push_back({{"node", names.node(site.site)}, {"live_bytes", site.live_bytes},
                     {"pinned_idle_bytes", site.pinned_idle_bytes}, {"sole_idle_bytes", site.sole_idle_bytes},
                     {"segments", site.segments}});
  }
  return {{"device", floor.device}, {"floor", floor_name(floor.floor)}, {"live", floor.live}, {"held", floor.held},
          {"fragmentation", floor.fragmentation}, {"segments_known", floor.segments_known},
          {"segment_count", floor.segment_count}, {"idle_bytes", floor.idle_bytes},
          {"wholly_idle_bytes", floor.wholly_idle_bytes}, {"largest_hole", floor.largest_hole},
          {"holes", floor.holes}, {"pinning_sites", std::move(sites)}};
}

PageSection space_section(const std::string& name, const FragmentationReport& report, std::size_t max_blocks, PageNames& names,
                          std::size_t& left_out) {
  // The largest segments until the budget of blocks is spent; drawn in order of address.
  std::vector<std::size_t> order(report.segments.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return report.segments[a].size > report.segments[b].size; });
  std::size_t blocks = 0, taken = 0;
  while (taken < order.size() && blocks + report.segments[order[taken]].blocks.size() + 1 <= max_blocks) {
    blocks += report.segments[order[taken++]].blocks.size() + 1;
  }
  left_out = order.size() - taken;
  order.resize(taken);
  std::sort(order.begin(), order.end());

  std::vector<std::int64_t> address, device, born, block_node, segment_node;
  std::vector<std::uint64_t> size, floor, joins, block_count, offset, block_size;
  for (const std::size_t i : order) {
    const Segment& segment = report.segments[i];
    address.push_back(static_cast<std::int64_t>(segment.address));
    size.push_back(segment.size);
    device.push_back(segment.device);
    floor.push_back(index_of(segment.floor));
    segment_node.push_back(names.node(segment.site));
    joins.push_back(segment.joins_next ? 1 : 0);
    block_count.push_back(segment.blocks.size());
    for (const SegmentBlock& block : segment.blocks) {
      // A block may begin before its piece of the range; the page draws what lies inside.
      const std::uint64_t begin = std::max(block.address, segment.address);
      const std::uint64_t end = std::min(block.address + block.size, segment.address + segment.size);
      offset.push_back(begin - segment.address);
      block_size.push_back(end > begin ? end - begin : 0);
      block_node.push_back(names.node(block.site));
    }
  }
  PageSection section(name);
  section.add_delta("address", address);
  section.add_uint("size", size);
  section.add_delta("device", device);
  section.add_uint("floor", floor);
  section.add_delta("node", segment_node);
  section.add_uint("joins", joins);
  section.add_uint("blocks", block_count);
  section.add_uint("block_offset", offset);
  section.add_uint("block_size", block_size);
  section.add_delta("block_node", block_node);
  return section;
}

}  // namespace cuheap
