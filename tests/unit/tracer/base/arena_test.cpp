#include "tracer/base/arena.h"

#include <gtest/gtest.h>

#include <cstring>

namespace cuheap {
namespace {

TEST(Arena, GivesZeroedAlignedMemoryThatDoesNotOverlap) {
  Arena arena;
  char* last = nullptr;
  for (std::size_t bytes = 1; bytes < 5000; bytes += 7) {
    char* const memory = arena.allocate_array<char>(bytes);
    ASSERT_NE(memory, nullptr);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 16, 0u);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory[i], 0);
    std::memset(memory, 1, bytes);
    ASSERT_NE(memory, last);
    last = memory;
  }
  arena.reset();
  EXPECT_EQ(arena.footprint(), 0u);
}

TEST(Arena, ServesRequestsLargerThanItsBlocks) {
  Arena arena;
  char* const memory = arena.allocate_array<char>(5 << 20);
  ASSERT_NE(memory, nullptr);
  memory[(5 << 20) - 1] = 1;
  arena.reset();
}

TEST(Arena, AnswersNullIfTheSystemHasNoMemory) {
  Arena arena;
  EXPECT_EQ(arena.allocate(std::size_t{1} << 60), nullptr);
  EXPECT_NE(arena.allocate(16), nullptr);
  arena.reset();
}

}  // namespace
}  // namespace cuheap
