#include "shim/hooks/captures.h"

#include <gtest/gtest.h>

#include <thread>

namespace cuheap {
namespace {

CUstream stream_number(std::uintptr_t number) { return reinterpret_cast<CUstream>(number); }

void begin(std::uintptr_t stream, CUstreamCaptureMode mode) {
  const HookScope scope;
  note_capture_begun(scope, stream_number(stream), mode);
}

bool end(std::uintptr_t stream) {
  const HookScope scope;
  return note_capture_ended(scope, stream_number(stream));
}

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
  begin(0x100, CU_STREAM_CAPTURE_MODE_GLOBAL);

  EXPECT_TRUE(capture_view().prohibited);
  EXPECT_TRUE(view_of_another_thread().prohibited);

  EXPECT_TRUE(end(0x100));
  EXPECT_FALSE(capture_view().prohibited);
}

TEST(Captures, ThreadLocalOnesProhibitTheirThreadOnly) {
  begin(0x100, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);

  EXPECT_TRUE(capture_view().prohibited);
  EXPECT_FALSE(view_of_another_thread().prohibited);
  EXPECT_TRUE(view_of_another_thread().open);

  end(0x100);
}

TEST(Captures, RelaxedOnesProhibitNobody) {
  begin(0x100, CU_STREAM_CAPTURE_MODE_RELAXED);

  EXPECT_TRUE(capture_view().open);
  EXPECT_FALSE(capture_view().prohibited);

  end(0x100);
}

TEST(Captures, AThreadMayExchangeItsMode) {
  begin(0x100, CU_STREAM_CAPTURE_MODE_GLOBAL);

  note_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_FALSE(capture_view().prohibited);
  note_capture_mode(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_TRUE(capture_view().prohibited);  // it began the capture itself
  note_capture_mode(CU_STREAM_CAPTURE_MODE_GLOBAL);

  end(0x100);
}

TEST(Captures, TheThreadsOwnDefaultStreamIsAnotherInEachThread) {
  begin(2, CU_STREAM_CAPTURE_MODE_RELAXED);
  bool ended_elsewhere = true;

  std::thread([&ended_elsewhere] { ended_elsewhere = end(2); }).join();

  EXPECT_FALSE(ended_elsewhere);
  EXPECT_TRUE(end(2));
}

TEST(Captures, AnAnswerThatEndsNothingIsNotAnEnd) {
  EXPECT_TRUE(ends_capture(CUDA_SUCCESS));
  EXPECT_TRUE(ends_capture(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
  EXPECT_FALSE(ends_capture(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD));
  EXPECT_FALSE(ends_capture(CUDA_ERROR_ILLEGAL_STATE));
}

}  // namespace
}  // namespace cuheap
