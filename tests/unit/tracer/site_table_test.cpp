#include "tracer/site_table.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace cuheap {
namespace {

using Stack = std::vector<std::uintptr_t>;  // innermost first

class SiteTableTest : public ::testing::Test {
 protected:
  SiteTableTest() { EXPECT_TRUE(table_->reset()); }

  KnownSite intern(const Stack& stack, std::uint64_t epoch = 0) {
    const auto depth = static_cast<unsigned>(stack.size());
    return table_->intern(hash_stack(stack.data(), depth, epoch), stack.data(), depth, modules_, [this](const SiteNode& node) {
      if (!can_write_) return false;
      nodes_[node.id] = node;
      return true;
    });
  }
  Stack stack_of(SiteId site) const {
    Stack stack;
    for (; site != 0; site = nodes_.at(site).parent) stack.push_back(nodes_.at(site).b);
    return stack;
  }

  std::unique_ptr<SiteTable> table_ = std::make_unique<SiteTable>();
  ModuleMap modules_;  // empty: all frames are of module 0, at their address
  std::map<SiteId, SiteNode> nodes_;
  bool can_write_ = true;
};

TEST_F(SiteTableTest, SharesTheOuterFrames) {
  const KnownSite a = intern({0x30, 0x20, 0x10});
  const KnownSite b = intern({0x31, 0x20, 0x10});
  const KnownSite outer = intern({0x20, 0x10});

  EXPECT_NE(a.id, b.id);
  EXPECT_EQ(nodes_.at(a.id).parent, outer.id);
  EXPECT_EQ(nodes_.at(b.id).parent, outer.id);
  EXPECT_EQ(table_->size(), 4u);
}

TEST_F(SiteTableTest, GivesEveryStackBackAsItWas) {
  std::mt19937 random(3);
  std::map<Stack, SiteId> seen;
  for (int i = 0; i < 20'000; ++i) {
    Stack stack(1 + random() % 30);
    for (std::uintptr_t& frame : stack) frame = 0x1000 + random() % 3;
    const SiteId id = intern(stack).id;
    ASSERT_EQ(stack_of(id), stack);
    const auto [entry, is_new] = seen.emplace(stack, id);
    ASSERT_EQ(entry->second, id);
  }
}

TEST_F(SiteTableTest, FindsSeenStacksByTheirHashAlone) {
  const Stack stack{0x30, 0x20, 0x10};
  KnownSite found;
  EXPECT_FALSE(table_->find(hash_stack(stack.data(), 3, 0), &found));

  const KnownSite site = intern(stack);

  ASSERT_TRUE(table_->find(hash_stack(stack.data(), 3, 0), &found));
  EXPECT_EQ(found.id, site.id);
  EXPECT_FALSE(table_->find(hash_stack(stack.data(), 3, 1), &found)) << "another epoch";
  EXPECT_FALSE(table_->find(hash_stack(stack.data(), 2, 0), &found)) << "another depth";
}

TEST_F(SiteTableTest, ForgetsHashesBeforeSitesWhenThereAreTooMany) {
  std::vector<SiteId> ids;
  for (std::uintptr_t i = 0; i < 300'000; ++i) ids.push_back(intern({0x1000 + i}).id);
  for (std::uintptr_t i = 0; i < 300'000; ++i) ASSERT_EQ(intern({0x1000 + i}).id, ids[i]);
  EXPECT_EQ(table_->size(), 300'000u);
}

TEST_F(SiteTableTest, UsesNoNodeThatCouldNotBeWritten) {
  const KnownSite outer = intern({0x10});
  can_write_ = false;
  EXPECT_EQ(intern({0x20, 0x10}).id, 0u);
  EXPECT_EQ(intern({0x10}).id, outer.id);
  can_write_ = true;
  EXPECT_EQ(nodes_.at(intern({0x20, 0x10}).id).parent, outer.id);
}

TEST(HashStack, DiffersForDifferentStacks) {
  for (unsigned depth = 1; depth <= 7; ++depth) {
    std::set<std::uint64_t> hashes;
    for (std::uintptr_t i = 0; i < 200'000; ++i) {  // neighbours in every position, the likeliest to collide
      std::uintptr_t frames[7] = {1000, 1000, 1000, 1000, 1000, 1000, 1000};
      frames[i % depth] += i / depth;
      if (i >= depth || i == 0) hashes.insert(hash_stack(frames, depth, 0));
    }
    EXPECT_EQ(hashes.size(), 200'000u - (depth - 1)) << "depth " << depth;
  }
}

}  // namespace
}  // namespace cuheap
