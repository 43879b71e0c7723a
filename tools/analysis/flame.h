// flame: a weighted tree of frames, outermost first, from bytes by site. Rendered by the page and the exporters.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/analysis/peak.h"

namespace cuheap {

enum class FrameClass : std::uint8_t { Python, Native, CudaLibrary, Runtime };  // colour of a frame; see short_name.h

struct FlameNode {
  std::uint32_t parent = 0;        // index of the parent; the root is its own
  std::uint32_t depth = 0;         // root 0
  const Frame* frame = nullptr;    // null for the root; points into the trace
  FrameClass kind = FrameClass::Native;
  std::uint64_t total_bytes = 0;   // with everything below
  std::uint64_t self_bytes = 0;    // of stacks that end here
  std::uint64_t total_count = 0;
  std::uint64_t self_count = 0;
};

struct FlameOptions {
  bool by_line = false;            // two lines of one function are two nodes
  bool fold_runtime = false;       // drop runtime frames (FrameClass::Runtime)
};

/// Preorder: a node comes before its children, children by bytes, largest first. nodes[0] is the root.
std::vector<FlameNode> flame_tree(const Trace& trace, const LiveSites& sites, const FlameOptions& options = {});

/// One line a stack, outermost first: "a;b;c BYTES". Stacks with equal names are summed.
std::vector<std::string> folded_stacks(const Trace& trace, const LiveSites& sites);

}  // namespace cuheap
