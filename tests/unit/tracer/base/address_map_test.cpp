#include "tracer/base/address_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace cuheap {
namespace {

TEST(AddressMap, HoldsNothingAtNull) {
  AddressMap<int> map;
  ASSERT_NE(map.insert(0x1000, 42), nullptr);

  EXPECT_EQ(map.find(0), nullptr);
  EXPECT_FALSE(map.erase(0));
  EXPECT_EQ(map.size(), 1u);
  map.reset();
}

TEST(AddressMap, FindsNothingWhenEmpty) {
  AddressMap<int> map;
  EXPECT_EQ(map.find(1), nullptr);
  EXPECT_FALSE(map.erase(1));
  map.reset();
}

TEST(AddressMap, ReplacesTheValueOfAnAddress) {
  AddressMap<int> map;
  ASSERT_NE(map.insert(512, 1), nullptr);
  ASSERT_NE(map.insert(512, 2), nullptr);
  EXPECT_EQ(*map.find(512), 2);
  EXPECT_EQ(map.size(), 1u);
  map.reset();
}

TEST(AddressMap, BehavesAsAStandardMapThroughGrowthAndChurn) {
  AddressMap<std::uint64_t> map;
  std::map<std::uint64_t, std::uint64_t> model;
  std::mt19937_64 random(7);
  for (int step = 0; step < 400'000; ++step) {
    // Device addresses: multiples of 512 in a narrow range, so that neighbours collide if the hash is bad.
    const std::uint64_t address = 0x7f00'0000'0000u + (1 + random() % (step < 200'000 ? 60'000 : 3'000)) * 512;
    if (random() % 5 < 3) {
      ASSERT_NE(map.insert(address, static_cast<std::uint64_t>(step)), nullptr);
      model[address] = static_cast<std::uint64_t>(step);
    } else {
      std::uint64_t value = 0;
      const auto expected = model.find(address);
      ASSERT_EQ(map.erase(address, &value), expected != model.end());
      if (expected != model.end()) {
        ASSERT_EQ(value, expected->second);
        model.erase(expected);
      }
    }
    ASSERT_EQ(map.size(), model.size());
  }
  std::map<std::uint64_t, std::uint64_t> all;
  map.for_each([&](std::uint64_t address, std::uint64_t value) { all[address] = value; });
  EXPECT_EQ(all, model);
  for (const auto& [address, value] : model) ASSERT_EQ(*map.find(address), value);
  map.reset();
}

}  // namespace
}  // namespace cuheap
