// Captures in progress, as the hooks on begin, end and mode exchange see them: what a potentially unsafe call of this
// thread would meet. The rules are those of cuThreadExchangeStreamCaptureMode.
#pragma once
#include <cstdint>

#include "shim/driver/cuda_api.h"
#include "shim/pool/allocator.h"
#include "tracer/base/hook_scope.h"

namespace cuheap {

/// The driver began a capture on the stream for the calling thread.
void note_capture_begun(const HookScope&, CUstream stream, CUstreamCaptureMode mode);
/// The driver ended the capture of the stream, or destroyed the stream. False if none was known.
bool note_capture_ended(const HookScope&, CUstream stream);
/// The calling thread's mode, after an exchange.
void note_capture_mode(CUstreamCaptureMode mode);

CaptureView capture_view();

/// Does this answer of cuStreamEndCapture mean that the capture is over?
bool ends_capture(CUresult result);

/// The stream that a handle means: 0 of a _ptsz twin is the thread's own default stream.
inline CUstream stream_of(CUstream stream, bool per_thread) {
  return stream == nullptr && per_thread ? CU_STREAM_PER_THREAD : stream;
}

}  // namespace cuheap
