#include "tools/analysis/python_frames.h"

#include <algorithm>

namespace cuheap {

const char* missing_python_frames(const Trace& trace) {
  const bool ran = std::any_of(trace.processes.begin(), trace.processes.end(),
                               [](const Process& process) { return process.meta.contains("python"); });
  const bool recorded = std::any_of(trace.frames.begin(), trace.frames.end(),
                                    [](const Frame& frame) { return frame.language == FrameLanguage::Python; });
  return ran && !recorded ? "Python frames are not recorded yet; cuheap.phase() tells phases apart" : nullptr;
}

}  // namespace cuheap
