#include "tracer/base/scratch.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace cuheap {
namespace {

struct Room {
  std::atomic<int> users;
};

TEST(ScratchPool, GivesEachRoomOnceAndThenNone) {
  static constinit ScratchPool<Room, 4> pool = {};
  std::set<Room*> rooms;
  for (int i = 0; i < 4; ++i) rooms.insert(pool.take());
  EXPECT_EQ(rooms.size(), 4u);
  EXPECT_EQ(rooms.count(nullptr), 0u);
  EXPECT_EQ(pool.take(), nullptr);

  pool.give_back(*rooms.begin());

  EXPECT_EQ(pool.take(), *rooms.begin());
}

TEST(ScratchPool, NeverGivesARoomToTwoThreads) {
  static constinit ScratchPool<Room, 2> pool = {};
  std::atomic<int> shared{0}, taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        const ScratchLease lease(pool);
        if (!lease) continue;
        ++taken;
        if (lease->users.fetch_add(1) != 0) ++shared;
        lease->users.fetch_sub(1);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared, 0);
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace cuheap
