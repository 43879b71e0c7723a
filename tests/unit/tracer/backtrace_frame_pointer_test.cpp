#include <gtest/gtest.h>
#include <unwind.h>

#include <thread>
#include <vector>

#include "tracer/backtrace.h"

namespace cuheap {
namespace {

using Frames = std::vector<std::uintptr_t>;

[[gnu::noinline]] Frames stack_by_gcc() {
  Frames frames;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* out) {
        if (_Unwind_GetIP(context) != 0) static_cast<Frames*>(out)->push_back(_Unwind_GetIP(context) - 1);
        return _URC_NO_REASON;
      },
      &frames);
  return frames;
}

struct Pair {
  Frames ours, theirs;
};

[[gnu::noinline]] void take(int depth, Pair& pair) {
  if (depth != 0) {
    take(depth - 1, pair);
    asm volatile("");
    return;
  }
  std::uintptr_t frames[kMaxFrames];
  const Backtrace trace = capture(frames, kMaxFrames);
  pair.ours.assign(frames + 1, frames + std::max(trace.depth, 1u));
  pair.theirs = stack_by_gcc();
  pair.theirs.erase(pair.theirs.begin(), pair.theirs.begin() + 2);
}

// Libraries have no frame pointers here, so the stack may end before the program's own outer end; it must not be wrong.
void expect_right_as_far_as_it_goes(const Pair& pair, std::size_t at_least) {
  ASSERT_GE(pair.ours.size(), at_least);
  for (std::size_t i = 0; i < at_least; ++i) EXPECT_EQ(pair.ours[i], pair.theirs[i]) << "frame " << i;
}

TEST(FramePointerBacktrace, AgreesWithTheCompilersUnwinder) {
  prepare_backtraces();
  for (int depth = 0; depth < 100; depth += 9) {
    Pair pair;
    take(depth, pair);
    expect_right_as_far_as_it_goes(pair, static_cast<std::size_t>(depth) + 1);
  }
}

TEST(FramePointerBacktrace, WorksOnOtherThreads) {
  prepare_backtraces();
  Pair pair;
  std::thread([&] { take(10, pair); }).join();
  expect_right_as_far_as_it_goes(pair, 11);
}

}  // namespace
}  // namespace cuheap
