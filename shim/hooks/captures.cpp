#include "shim/hooks/captures.h"

#include <atomic>

#include "tracer/base/process.h"
#include "tracer/base/spin_lock.h"

namespace cuheap {
namespace {

constexpr std::size_t kCaptures = 64;

struct Capture {
  CUstream stream;
  CUstreamCaptureMode mode;
  std::uint32_t thread;
  bool open;
};

struct Captures {
  SpinLock lock;
  Capture slots[kCaptures];
};
constinit Captures captures{};
constinit std::atomic<std::uint32_t> open_captures{0};
constinit std::atomic<std::uint32_t> open_global_captures{0};

struct ThreadCaptures {
  std::int32_t strict;  // open captures that this thread began in GLOBAL or THREAD_LOCAL mode
  CUstreamCaptureMode mode;
};
constinit thread_local ThreadCaptures mine __attribute__((tls_model("initial-exec"))) = {0, CU_STREAM_CAPTURE_MODE_GLOBAL};

// The thread's own default stream is another one in each thread.
bool is_same_stream(const Capture& capture, CUstream stream) {
  return capture.open && capture.stream == stream && (stream != CU_STREAM_PER_THREAD || capture.thread == process::thread_id());
}

}  // namespace

void note_capture_begun(const HookScope&, CUstream stream, CUstreamCaptureMode mode) {
  const SpinGuard guard(captures.lock);
  if (!guard) return;
  for (Capture& slot : captures.slots) {
    if (slot.open) continue;
    slot = {stream, mode, process::thread_id(), true};
    open_captures.fetch_add(1, std::memory_order_relaxed);
    if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL) open_global_captures.fetch_add(1, std::memory_order_relaxed);
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED) ++mine.strict;
    return;
  }
}

bool note_capture_ended(const HookScope&, CUstream stream) {
  const SpinGuard guard(captures.lock);
  if (!guard) return false;
  for (Capture& slot : captures.slots) {
    if (!is_same_stream(slot, stream)) continue;
    slot.open = false;
    open_captures.fetch_sub(1, std::memory_order_relaxed);
    if (slot.mode == CU_STREAM_CAPTURE_MODE_GLOBAL) open_global_captures.fetch_sub(1, std::memory_order_relaxed);
    // Only a relaxed capture may be ended by another thread than the one that began it.
    if (slot.mode != CU_STREAM_CAPTURE_MODE_RELAXED && mine.strict > 0) --mine.strict;
    return true;
  }
  return false;
}

void note_capture_mode(CUstreamCaptureMode mode) { mine.mode = mode; }

CaptureView capture_view() {
  const std::uint32_t open = open_captures.load(std::memory_order_relaxed);
  if (open == 0) return {};
  CaptureView view{.open = true, .prohibited = false};
  const bool others = open_global_captures.load(std::memory_order_relaxed) != 0;
  if (mine.mode == CU_STREAM_CAPTURE_MODE_GLOBAL) view.prohibited = mine.strict > 0 || others;
  if (mine.mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) view.prohibited = mine.strict > 0;
  return view;
}

bool ends_capture(CUresult result) {
  switch (result) {
    case CUDA_SUCCESS:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_MERGE: return true;
    default: return false;  // wrong thread, not capturing: nothing ended
  }
}

}  // namespace cuheap
