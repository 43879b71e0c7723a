#include "shim/hooks/captures.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace cuheap {
namespace {

CUstream stream_number(std::uintptr_t number) { return reinterpret_cast<CUstream>(number); }

CaptureTicket begin(std::uintptr_t stream, CUstreamCaptureMode mode, std::uint64_t context = 0x1000) {
  const HookScope scope;
  return note_capture_begun(scope, stream_number(stream), mode, context);
}

CaptureTicket find(std::uintptr_t stream) {
  const HookScope scope;
  return find_capture(scope, stream_number(stream));
}

bool end(CaptureTicket ticket) {
  const HookScope scope;
  return note_capture_ended(scope, ticket);
}
bool end(std::uintptr_t stream) { return end(find(stream)); }

CaptureView view_of_another_thread() {
  CaptureView view;
  std::thread([&view] { view = capture_view(); }).join();
  return view;
}

TEST(Captures, AreNeitherOpenNorProhibitingAtFirst) {
  EXPECT_FALSE(capture_view().open);
  EXPECT_FALSE(capture_view().prohibited);
}

TEST(Captures, GlobalOnesProhibitEveryThread) {
  ASSERT_TRUE(begin(0x100, CU_STREAM_CAPTURE_MODE_GLOBAL));

  EXPECT_TRUE(capture_view().prohibited);
  EXPECT_TRUE(view_of_another_thread().prohibited);

  EXPECT_TRUE(end(0x100));
  EXPECT_FALSE(capture_view().prohibited);
}

TEST(Captures, ThreadLocalOnesProhibitTheirThreadOnly) {
  ASSERT_TRUE(begin(0x100, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));

  EXPECT_TRUE(capture_view().prohibited);
  EXPECT_FALSE(view_of_another_thread().prohibited);
  EXPECT_TRUE(view_of_another_thread().open);

  EXPECT_TRUE(end(0x100));
}

TEST(Captures, RelaxedOnesProhibitNobody) {
  ASSERT_TRUE(begin(0x100, CU_STREAM_CAPTURE_MODE_RELAXED));

  EXPECT_TRUE(capture_view().open);
  EXPECT_FALSE(capture_view().prohibited);

  EXPECT_TRUE(end(0x100));
}

TEST(Captures, AThreadMayExchangeItsMode) {
  ASSERT_TRUE(begin(0x100, CU_STREAM_CAPTURE_MODE_GLOBAL));

  note_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_FALSE(capture_view().prohibited);
  note_capture_mode(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_TRUE(capture_view().prohibited);  // it began the capture itself
  note_capture_mode(CU_STREAM_CAPTURE_MODE_GLOBAL);

  EXPECT_TRUE(end(0x100));
}

TEST(Captures, TheThreadsOwnDefaultStreamIsAnotherInEachThread) {
  ASSERT_TRUE(begin(2, CU_STREAM_CAPTURE_MODE_RELAXED));
  bool ended_elsewhere = true;

  std::thread([&ended_elsewhere] { ended_elsewhere = end(2); }).join();

  EXPECT_FALSE(ended_elsewhere);
  EXPECT_TRUE(end(2));
}

TEST(Captures, ARefusedSecondBeginningLeavesTheFirst) {
  const CaptureTicket first = begin(0x100, CU_STREAM_CAPTURE_MODE_GLOBAL);
  const CaptureTicket second = begin(0x100, CU_STREAM_CAPTURE_MODE_RELAXED);

  EXPECT_TRUE(end(second));

  EXPECT_TRUE(capture_view().prohibited);
  EXPECT_TRUE(end(first));
  EXPECT_FALSE(end(first));
  EXPECT_FALSE(capture_view().open);
}

TEST(Captures, AnOldTicketDoesNotEndANewCaptureOfTheSameHandle) {
  const CaptureTicket old = begin(0x100, CU_STREAM_CAPTURE_MODE_RELAXED);
  ASSERT_TRUE(end(old));
  const CaptureTicket next = begin(0x100, CU_STREAM_CAPTURE_MODE_RELAXED);

  EXPECT_FALSE(end(old));

  EXPECT_TRUE(capture_view().open);
  EXPECT_TRUE(end(next));
}

TEST(Captures, GoWithTheirContext) {
  ASSERT_TRUE(begin(0x100, CU_STREAM_CAPTURE_MODE_GLOBAL, 0x1000));
  ASSERT_TRUE(begin(0x200, CU_STREAM_CAPTURE_MODE_GLOBAL, 0x2000));
  CUstream stream = nullptr;
  const HookScope scope;

  EXPECT_TRUE(note_context_capture_ended(scope, 0x1000, &stream));
  EXPECT_FALSE(note_context_capture_ended(scope, 0x1000, &stream));

  EXPECT_EQ(stream, stream_number(0x100));
  EXPECT_TRUE(capture_view().open);
  EXPECT_TRUE(note_capture_ended(scope, find_capture(scope, stream_number(0x200))));
  EXPECT_FALSE(capture_view().open);
}

TEST(Captures, EndedByAnotherThreadProhibitTheirOwnNoLonger) {
  const CaptureTicket ticket = begin(0x100, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  ASSERT_TRUE(begin(0x200, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_TRUE(capture_view().prohibited);

  std::thread([&] { EXPECT_TRUE(end(ticket)); }).join();

  EXPECT_FALSE(capture_view().prohibited);
  EXPECT_TRUE(end(0x200));
}

TEST(Captures, WithoutAPlaceAreNotEntered) {
  std::vector<CaptureTicket> open;
  for (std::uintptr_t i = 1; CaptureTicket ticket = begin(0x1000 * i, CU_STREAM_CAPTURE_MODE_RELAXED); ++i) open.push_back(ticket);

  EXPECT_GE(open.size(), 64u);
  for (const CaptureTicket ticket : open) EXPECT_TRUE(end(ticket));
  EXPECT_FALSE(capture_view().open);
}

TEST(Captures, AnAnswerThatEndsNothingIsNotAnEnd) {
  EXPECT_TRUE(ends_capture(CUDA_SUCCESS));
  EXPECT_TRUE(ends_capture(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
  EXPECT_FALSE(ends_capture(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD));
  EXPECT_FALSE(ends_capture(CUDA_ERROR_ILLEGAL_STATE));
}

}  // namespace
}  // namespace cuheap
