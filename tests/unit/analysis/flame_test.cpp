#include "tools/analysis/flame.h"

#include <gtest/gtest.h>

#include "tests/unit/analysis/trace_builder.h"

namespace cuheap {
namespace {

using test::TraceBuilder;

TEST(Flame, TreeSumsItsChildren) {
  TraceBuilder b;
  const SiteId x = b.site({"main", "x"}), y = b.site({"main", "y", "deep"}), m = b.site({"main"});
  LiveSites sites;
  sites.sites = {{x, 10, 1}, {y, 30, 2}, {m, 5, 1}};
  const Trace trace = b.build();  // nodes point into it
  const std::vector<FlameNode> tree = flame_tree(trace, sites);
  ASSERT_EQ(tree.size(), 5u);  // root, main, y, deep, x
  EXPECT_EQ(tree[0].total_bytes, 45u);
  EXPECT_EQ(tree[1].frame->function, "main");
  EXPECT_EQ(tree[1].total_bytes, 45u);
  EXPECT_EQ(tree[1].self_bytes, 5u);
  EXPECT_EQ(tree[2].frame->function, "y");  // the largest child first
  EXPECT_EQ(tree[3].frame->function, "deep");
  EXPECT_EQ(tree[3].self_bytes, 30u);
  EXPECT_EQ(tree[3].depth, 3u);
  EXPECT_EQ(tree[4].frame->function, "x");
  EXPECT_EQ(tree[4].parent, 1u);
}

TEST(Flame, LinesOfOneFunctionAreOneNodeUnlessAsked) {
  TraceBuilder b;
  const SiteId x = b.site({"main", "x"}), z = b.site({"main", "x"});  // other lines
  LiveSites sites;
  sites.sites = {{x, 10, 1}, {z, 20, 1}};
  const Trace trace = b.build();
  EXPECT_EQ(flame_tree(trace, sites).size(), 3u);
  FlameOptions by_line;
  by_line.by_line = true;
  EXPECT_EQ(flame_tree(trace, sites, by_line).size(), 5u);
}

TEST(Flame, RuntimeFramesCanBeFolded) {
  TraceBuilder b;
  const SiteId x = b.site({"__libc_start_main", "main", "x"});
  LiveSites sites;
  sites.sites = {{x, 10, 1}};
  FlameOptions fold;
  fold.fold_runtime = true;
  const Trace trace = b.build();
  EXPECT_EQ(flame_tree(trace, sites).size(), 4u);
  EXPECT_EQ(flame_tree(trace, sites, fold)[1].frame->function, "main");
}

TEST(Flame, FoldedLinesAreOutermostFirstAndSummed) {
  TraceBuilder b;
  const SiteId x = b.site({"main", "x;y"}), z = b.site({"main", "x;y"});
  LiveSites sites;
  sites.sites = {{x, 10, 1}, {z, 20, 1}, {0, 3, 1}};
  EXPECT_EQ(folded_stacks(b.build(), sites), (std::vector<std::string>{"main;x:y 30", "no stack 3"}));
}

}  // namespace
}  // namespace cuheap
