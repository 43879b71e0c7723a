// Captures in progress, as the hooks on begin, end and mode exchange see them: what a potentially unsafe call of this
// thread would meet. The rules are those of cuThreadExchangeStreamCaptureMode.
#pragma once
#include <cstdint>

#include "shim/driver/cuda_api.h"
#include "shim/pool/allocator.h"
#include "tracer/base/hook_scope.h"

namespace cuheap {

/// One capture of the book. Empty: none, and nobody may count it.
struct CaptureTicket {
  std::uint32_t slot = 0;
  std::uint32_t serial = 0;  // never used twice
  explicit operator bool() const { return serial != 0; }
};

/// The calling thread is about to begin a capture on a stream of that context. Entered before the driver begins it: from
/// then on no other thread may do what would break it. A refusal ends it. Empty: it could not be entered.
[[nodiscard]] CaptureTicket note_capture_begun(const HookScope&, CUstream stream, CUstreamCaptureMode mode, std::uint64_t context);
/// The capture of a stream. To be asked before a call that may end it: after a destruction the handle may be another's.
[[nodiscard]] CaptureTicket find_capture(const HookScope&, CUstream stream);
/// It is over: ended, refused, or gone with its stream. True for one caller only.
[[nodiscard]] bool note_capture_ended(const HookScope&, CaptureTicket ticket);
/// Some capture that was open in a context that has ended; it is over now. Empty: there is none.
[[nodiscard]] CaptureTicket note_context_capture_ended(const HookScope&, std::uint64_t context, CUstream* stream);
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
