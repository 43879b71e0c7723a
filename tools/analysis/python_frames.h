// Says so where a program ran Python and its stacks hold no Python frames: such a program is a few sites in a framework, and
// who reads a report must know that it is the recording that is coarse and not the program.
#pragma once
#include "tools/model/trace.h"

namespace cuheap {

/// One line, or null where there is nothing to say.
const char* missing_python_frames(const Trace& trace);

}  // namespace cuheap
