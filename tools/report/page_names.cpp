#include "tools/report/page_names.h"

#include "tools/analysis/short_name.h"

namespace cuheap {

PageNode PageNames::node(SiteId site) {
  if (site == 0 || site >= trace_.sites.size()) return 0;
  if (node_of_site_[site] != kUnknown) return node_of_site_[site];

  // Walk out to the first known ancestor, then add the chain from there: sites are hundreds of frames deep at most, but
  // a damaged trace may hold a cycle.
  std::vector<SiteId> chain;
  PageNode node = 0;
  for (SiteId at = site; at != 0 && at < trace_.sites.size() && chain.size() < 4096; at = trace_.sites[at].parent) {
    if (node_of_site_[at] != kUnknown) {
      node = node_of_site_[at];
      break;
    }
    chain.push_back(at);
  }
  for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
    const Site& step = trace_.sites[*at];
    for (std::uint32_t i = step.frame_count; i-- > 0;) {
      if (step.first_frame + i < trace_.frames.size()) node = child(node, trace_.frames[step.first_frame + i]);
    }
    node_of_site_[*at] = node;
  }
  return node;
}

PageNode PageNames::child(PageNode parent, const Frame& frame) {
  const std::uint32_t id = frame_id(frame);
  const auto [entry, is_new] = children_.try_emplace({parent, id}, static_cast<PageNode>(parents_.size()));
  if (is_new) {
    parents_.push_back(parent);
    frames_.push_back(id);
  }
  return entry->second;
}

std::uint32_t PageNames::string_id(const std::string& text) {
  const auto [entry, is_new] = string_ids_.try_emplace(text, static_cast<std::uint32_t>(strings_.size()));
  if (is_new) strings_.push_back(text);
  return entry->second;
}

std::uint32_t PageNames::frame_id(const Frame& frame) {
  const FrameKey key{string_id(frame.function), string_id(frame.file), frame.line, string_id(frame.module), frame.language};
  const auto [entry, is_new] = frame_ids_.try_emplace(key, static_cast<std::uint32_t>(functions_.size()));
  if (is_new) {
    functions_.push_back(std::get<0>(key));
    files_.push_back(std::get<1>(key));
    lines_.push_back(frame.line);
    modules_.push_back(std::get<3>(key));
    ranks_.push_back(name_rank(frame));
    kinds_.push_back(static_cast<std::uint64_t>(classify(frame)) << 1 | (is_how_not_why(frame) ? 1U : 0U));
  }
  return entry->second;
}

PageSection PageNames::section() const {
  PageSection section("names");
  section.add_text("string", strings_);
  section.add_uint("function", functions_);
  section.add_uint("file", files_);
  section.add_uint("line", lines_);
  section.add_uint("module", modules_);
  section.add_uint("kind", kinds_);
  section.add_uint("rank", ranks_);
  section.add_delta("parent", parents_);
  section.add_uint("frame", frames_);
  return section;
}

}  // namespace cuheap
