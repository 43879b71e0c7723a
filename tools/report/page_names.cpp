#include "tools/report/page_names.h"

#include "tools/analysis/short_name.h"

namespace cuheap {

PageNode PageNames::node(SiteId site) {
  if (site == 0 || site >= trace_.sites.size()) return 0;
  const PageNode node = add(site);
  if (node != 0 && site_of_node_[node] == 0) site_of_node_[node] = site;
  return node;
}

PageNode PageNames::add(SiteId site) {
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
    site_of_node_.push_back(0);
    choose_own(entry->second);
  }
  return entry->second;
}

/// The innermost of the best rank names a stack.
void PageNames::choose_own(PageNode node) {
  const PageNode parent = static_cast<PageNode>(parents_[node]);
  const auto rank = [&](PageNode of) { return ranks_[frames_[of]]; };
  own_.push_back(parent == 0 || rank(node) <= rank(own_[parent]) ? node : own_[parent]);
  own_back_.push_back(node - own_.back());
}

std::string PageNames::with_place(PageNode node) const {
  if (node == 0) return "no stack";
  const std::string& place = strings_[places_[frames_[node]]];
  return strings_[bare_[frames_[node]]] + (place.empty() ? "" : " (" + place + ")");
}

/// By node: what stands in its name behind its own frame.
std::vector<std::string> PageNames::callers() const {
  std::vector<PageNode> nodes;
  std::vector<SiteId> sites;
  for (PageNode node = 1; node < site_of_node_.size(); ++node) {
    if (site_of_node_[node] == 0) continue;
    nodes.push_back(node);
    sites.push_back(site_of_node_[node]);
  }
  const std::vector<std::string> names = short_names(trace_, sites);
  std::vector<std::string> callers(node_count());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string own = with_place(own_[nodes[i]]);
    if (names[i].starts_with(own)) callers[nodes[i]] = names[i].substr(own.size());
  }
  return callers;
}

std::vector<std::string> PageNames::names() const {
  std::vector<std::string> names = callers();
  for (PageNode node = 0; node < names.size(); ++node) names[node].insert(0, with_place(own_[node]));
  return names;
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
    bare_.push_back(string_id(function_name(frame)));
    places_.push_back(string_id(place_name(frame)));
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
  section.add_uint("bare", bare_);
  section.add_uint("place", places_);
  section.add_delta("parent", parents_);
  section.add_uint("frame", frames_);
  section.add_uint("own_back", own_back_);
  // Few sites have callers in their names, and many share them.
  std::vector<std::string> texts{""};
  std::map<std::string, std::uint64_t> ids{{"", 0}};
  std::vector<std::uint64_t> callers_of_node;
  for (const std::string& text : callers()) {
    const auto [entry, is_new] = ids.try_emplace(text, texts.size());
    if (is_new) texts.push_back(text);
    callers_of_node.push_back(entry->second);
  }
  section.add_uint("callers", callers_of_node);
  section.add_text("caller_text", texts);
  return section;
}

}  // namespace cuheap
