// PageNames: sites as the page sees them. A node is one named frame below its caller; two sites whose stacks read the same
// are one node. Strings, frames and nodes are interned; only those of sites that the page mentions are written. What names a
// stack is decided here, by short_name.h, as in every other answer.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tools/model/trace.h"
#include "tools/report/columns.h"

namespace cuheap {

using PageNode = std::uint32_t;  // 0: no stack

class PageNames {
 public:
  explicit PageNames(const Trace& trace) : trace_(trace), node_of_site_(trace.sites.size(), kUnknown) {}

  /// Node of the innermost frame of `site`; adds its ancestors, so a node's parent always comes before it.
  PageNode node(SiteId site);
  /// What the page puts together for every node that node() gave: short_names of all of them, as of a list read together.
  std::vector<std::string> names() const;
  std::size_t node_count() const { return parents_.size(); }

  PageSection section() const;

 private:
  static constexpr PageNode kUnknown = ~PageNode{0};
  PageNode add(SiteId site);
  PageNode child(PageNode parent, const Frame& frame);
  void choose_own(PageNode node);
  std::string with_place(PageNode node) const;
  std::vector<std::string> callers() const;
  std::uint32_t string_id(const std::string& text);
  std::uint32_t frame_id(const Frame& frame);

  const Trace& trace_;
  std::vector<PageNode> node_of_site_;  // kUnknown until asked for
  std::map<std::pair<PageNode, std::uint32_t>, PageNode> children_;
  std::unordered_map<std::string, std::uint32_t> string_ids_;
  std::vector<std::string> strings_;
  using FrameKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, FrameLanguage>;
  std::map<FrameKey, std::uint32_t> frame_ids_;
  std::vector<std::uint64_t> functions_, bare_, places_, files_, lines_, modules_, kinds_;
  std::vector<std::int64_t> parents_{0};
  std::vector<std::uint64_t> frames_{0};
  std::vector<unsigned> ranks_;             // by frame: how well it names a stack
  std::vector<PageNode> own_{0};            // by node: the one that names its stack
  std::vector<std::uint64_t> own_back_{0};  // so many nodes back
  std::vector<SiteId> site_of_node_{0};     // one that node() was asked for; 0: none
};

}  // namespace cuheap
