#include "shim/hooks/block_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace cuheap {
namespace {

Block block_of(std::uint64_t size, std::uint64_t context = 0, std::uint32_t generation = 0) {
  Block block;
  block.size = size;
  block.context = context;
  block.generation = generation;
  return block;
}

TEST(BlockTable, GivesBackWhatWasPutIn) {
  const auto table = std::make_unique<BlockTable>();
  ASSERT_TRUE(table->insert(0x1000, block_of(42)));

  Block found;
  ASSERT_TRUE(table->find(0x1000, &found));

  EXPECT_EQ(found.size, 42u);
  EXPECT_FALSE(table->find(0x2000, &found));
}

TEST(BlockTable, ForgetsAFreedBlock) {
  const auto table = std::make_unique<BlockTable>();
  table->insert(0x1000, block_of(42));
  Block freed;
  ASSERT_TRUE(table->find(0x1000, &freed));

  table->erase(0x1000, freed.serial);

  EXPECT_FALSE(table->find(0x1000, &freed));
}

TEST(BlockTable, KeepsTheBlockThatTookTheAddressOfAFreedOne) {
  const auto table = std::make_unique<BlockTable>();
  table->insert(0x1000, block_of(42));
  Block freed;
  table->find(0x1000, &freed);

  table->insert(0x1000, block_of(43));  // the driver gave the address to another thread
  table->erase(0x1000, freed.serial);

  Block found;
  ASSERT_TRUE(table->find(0x1000, &found));
  EXPECT_EQ(found.size, 43u);
}

TEST(BlockTable, ForgetsTheBlocksOfOneContextGenerationOnly) {
  const auto table = std::make_unique<BlockTable>();
  for (std::uint64_t i = 1; i <= 10000; ++i) table->insert(i << 9, block_of(i, i % 2 == 0 ? 7 : 8, i % 3 == 0 ? 1 : 0));
  std::multiset<std::uint64_t> forgotten;

  table->forget_context(7, 1, [&forgotten](const Block& block) { forgotten.insert(block.size); });

  std::multiset<std::uint64_t> expected;
  for (std::uint64_t i = 6; i <= 10000; i += 6) expected.insert(i);
  EXPECT_EQ(forgotten, expected);
  EXPECT_EQ(table->size(), 10000 - expected.size());
}

TEST(BlockTable, HoldsWhatManyThreadsPutAndTake) {
  const auto table = std::make_unique<BlockTable>();
  std::vector<std::thread> threads;

  for (std::uint64_t number = 1; number <= 4; ++number) {
    threads.emplace_back([&table, number] {
      for (std::uint64_t i = 0; i < 20000; ++i) {
        const std::uint64_t key = number << 40 | i << 9;
        table->insert(key, block_of(i + 1));
        Block block;
        if (i % 2 == 0 && table->find(key, &block)) table->erase(key, block.serial);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(table->size(), 40000u);
}

}  // namespace
}  // namespace cuheap
