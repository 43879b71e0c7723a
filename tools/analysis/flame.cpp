#include "tools/analysis/flame.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "tools/analysis/short_name.h"

namespace cuheap {
namespace {

// What makes two frames one node.
using FrameKey = std::tuple<std::string_view, std::string_view, std::string_view, std::uint32_t>;

struct Builder {
  struct Node {
    const Frame* frame = nullptr;
    std::uint64_t total_bytes = 0, self_bytes = 0, total_count = 0, self_count = 0;
    std::map<FrameKey, std::uint32_t> children;
  };

  const Trace& trace;
  const FlameOptions& options;
  std::vector<Node> nodes{1};

  FrameKey key(const Frame& f) const { return {f.function, f.file, f.module, options.by_line ? f.line : 0}; }

  // Outermost first.
  std::vector<const Frame*> frames_of(SiteId site) const {
    std::vector<const Frame*> result;
    while (site != 0 && site < trace.sites.size()) {
      const Site& node = trace.sites[site];
      for (std::uint32_t i = 0; i < node.frame_count && node.first_frame + i < trace.frames.size(); ++i) {
        const Frame& frame = trace.frames[node.first_frame + i];
        if (!options.fold_runtime || classify(frame) != FrameClass::Runtime) result.push_back(&frame);
      }
      if (node.parent >= site) break;
      site = node.parent;
    }
    std::reverse(result.begin(), result.end());
    return result;
  }

  void add(const SiteBytes& sum) {
    std::uint32_t at = 0;
    count(at, sum);
    for (const Frame* frame : frames_of(sum.site)) {
      const auto [it, is_new] = nodes[at].children.try_emplace(key(*frame), static_cast<std::uint32_t>(nodes.size()));
      at = it->second;
      if (is_new) nodes.push_back({frame, 0, 0, 0, 0, {}});
      count(at, sum);
    }
    nodes[at].self_bytes += sum.bytes;
    nodes[at].self_count += sum.count;
  }

  void count(std::uint32_t node, const SiteBytes& sum) {
    nodes[node].total_bytes += sum.bytes;
    nodes[node].total_count += sum.count;
  }

  std::vector<FlameNode> flatten() const {
    struct Pending { std::uint32_t node, parent, depth; };
    std::vector<FlameNode> result;
    std::vector<Pending> stack{{0, 0, 0}};
    while (!stack.empty()) {
      const Pending p = stack.back();
      stack.pop_back();
      const Node& n = nodes[p.node];
      const std::uint32_t index = static_cast<std::uint32_t>(result.size());
      result.push_back({p.parent, p.depth, n.frame, n.frame != nullptr ? classify(*n.frame) : FrameClass::Native,
                        n.total_bytes, n.self_bytes, n.total_count, n.self_count});
      std::vector<std::uint32_t> children;
      for (const auto& [k, child] : n.children) children.push_back(child);
      // Smallest first on the stack, so that the largest comes off it first.
      std::stable_sort(children.begin(), children.end(), [&](std::uint32_t a, std::uint32_t b) {
        return nodes[a].total_bytes < nodes[b].total_bytes;
      });
      for (const std::uint32_t child : children) stack.push_back({child, index, p.depth + 1});
    }
    return result;
  }
};

// Separators of the folded format must not occur in names.
std::string folded_name(const Frame& frame) {
  std::string name = frame.function.empty() ? "?" : frame.function;
  for (char& c : name) if (c == ';' || c == '\n' || c == '\r') c = ':';
  return name;
}

}  // namespace

std::vector<FlameNode> flame_tree(const Trace& trace, const LiveSites& sites, const FlameOptions& options) {
  Builder builder{trace, options};
  for (const SiteBytes& sum : sites.sites) builder.add(sum);
  return builder.flatten();
}

std::vector<std::string> folded_stacks(const Trace& trace, const LiveSites& sites) {
  const FlameOptions options;
  const Builder builder{trace, options};
  std::map<std::string, std::uint64_t> lines;
  for (const SiteBytes& sum : sites.sites) {
    std::string line;
    for (const Frame* frame : builder.frames_of(sum.site)) line += (line.empty() ? "" : ";") + folded_name(*frame);
    lines[line.empty() ? "no stack" : line] += sum.bytes;
  }
  std::vector<std::string> result;
  for (const auto& [line, bytes] : lines) result.push_back(line + " " + std::to_string(bytes));
  return result;
}

}  // namespace cuheap
