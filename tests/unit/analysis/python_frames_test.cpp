#include "tools/analysis/python_frames.h"

#include <gtest/gtest.h>

#include "tests/unit/analysis/trace_builder.h"

namespace cuheap {
namespace {

Trace recorded(FrameLanguage language, bool ran_python) {
  test::TraceBuilder b;
  Frame frame;
  frame.function = "step";
  frame.language = language;
  b.push(0, frame);
  Trace trace = b.build();
  if (ran_python) trace.processes[0].meta["python"] = "3.11.7";
  return trace;
}

TEST(PythonFrames, AreMissedOnlyWherePythonRan) {
  EXPECT_NE(missing_python_frames(recorded(FrameLanguage::Native, true)), nullptr);
  EXPECT_EQ(missing_python_frames(recorded(FrameLanguage::Native, false)), nullptr);
  EXPECT_EQ(missing_python_frames(recorded(FrameLanguage::Python, true)), nullptr);
}

}  // namespace
}  // namespace cuheap
