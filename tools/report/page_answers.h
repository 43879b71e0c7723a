// The answers of the analyses in the page's form: leaks with their survival pictures, out-of-memories, and the address
// space at a moment.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/analysis/fragmentation.h"
#include "tools/analysis/leaks.h"
#include "tools/analysis/oom.h"
#include "tools/report/columns.h"
#include "tools/report/html.h"
#include "tools/report/page_names.h"

namespace cuheap {

/// Birth groups by age, for every judged site: which share of a group was still alive at an age. A leak is a column that
/// never fades.
class SurvivalPictures : public LiveSetObserver {
 public:
  SurvivalPictures(const Trace& trace, const std::vector<LeakVerdict>& verdicts);

  void born(Block& block, const Event& event) override;
  void died(const Block& block, const Event& event, Death death) override;
  void revived(Block& block, const Event& event) override;

  /// {"births": per group, "alive": per group a list of per mille by age, as far as the run could see}.
  nlohmann::json picture(std::size_t verdict) const;

 private:
  static constexpr std::size_t kGroups = 32, kAges = 16;
  struct Picture {
    const LeakVerdict* verdict;
    std::uint64_t births[kGroups] = {};
    std::int64_t deaths[kGroups][kAges] = {};
  };
  Picture* find(const Block& block);
  std::size_t part_of(std::uint64_t ns, std::size_t parts) const;
  void count_death(const Block& block, const Event& event, std::int64_t by);

  std::uint64_t start_ns_, end_ns_;
  std::vector<Picture> pictures_;
  std::unordered_map<SiteId, std::vector<std::size_t>> by_site_;
};

nlohmann::json leak_json(const LeakVerdict& verdict, const Trace& trace, PageNames& names);
nlohmann::json oom_json(const OomReport& oom, const Trace& trace, PageNames& names);
nlohmann::json fragmentation_json(const FloorFragmentation& floor, PageNames& names);

/// Segments and blocks as columns. `left_out` counts the segments that did not fit.
PageSection space_section(const std::string& name, const FragmentationReport& report, std::size_t max_blocks, PageNames& names,
                          std::size_t& left_out);

}  // namespace cuheap
