#include "shim/hooks/captures.h"

#include <atomic>

#include "tracer/base/process.h"
#include "tracer/base/spin_lock.h"

namespace cuheap {
namespace {

// One more than that at the same time is not known to the pool, which then takes it for no capture.
constexpr std::uint32_t kCaptures = 256;

struct Capture {
  CUstream stream;
  std::uint64_t context;
  CUstreamCaptureMode mode;
  std::uint32_t thread;
  std::uint32_t serial;  // 0: a free place
};

struct Captures {
  SpinLock lock;
  std::uint32_t last_serial;
  std::uint32_t used;  // places that were ever taken
  Capture slots[kCaptures];
};
constinit Captures captures{};
constinit std::atomic<std::uint32_t> open_captures{0};
constinit std::atomic<std::uint32_t> open_global_captures{0};
constinit thread_local CUstreamCaptureMode my_mode __attribute__((tls_model("initial-exec"))) = CU_STREAM_CAPTURE_MODE_GLOBAL;

// The thread's own default stream is another one in each thread.
bool is_same_stream(const Capture& capture, CUstream stream) {
  return capture.serial != 0 && capture.stream == stream &&
         (stream != CU_STREAM_PER_THREAD || capture.thread == process::thread_id());
}

// The lock is held.
void end(Capture& slot) {
  slot.serial = 0;
  open_captures.fetch_sub(1, std::memory_order_relaxed);
  if (slot.mode == CU_STREAM_CAPTURE_MODE_GLOBAL) open_global_captures.fetch_sub(1, std::memory_order_relaxed);
}

/// Has this thread begun a capture that is open and not relaxed?
bool has_strict_capture() {
  const std::uint32_t thread = process::thread_id();
  const SpinGuard guard(captures.lock);
  for (std::uint32_t i = 0; guard && i < captures.used; ++i) {
    const Capture& slot = captures.slots[i];
    if (slot.serial != 0 && slot.thread == thread && slot.mode != CU_STREAM_CAPTURE_MODE_RELAXED) return true;
  }
  return false;
}

}  // namespace

CaptureTicket note_capture_begun(const HookScope&, CUstream stream, CUstreamCaptureMode mode, std::uint64_t context) {
  const SpinGuard guard(captures.lock);
  if (!guard) return {};
  for (std::uint32_t i = 0; i < kCaptures; ++i) {
    Capture& slot = captures.slots[i];
    if (slot.serial != 0) continue;
    if (++captures.last_serial == 0) ++captures.last_serial;
    slot = {stream, context, mode, process::thread_id(), captures.last_serial};
    if (i == captures.used) ++captures.used;
    open_captures.fetch_add(1, std::memory_order_relaxed);
    if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL) open_global_captures.fetch_add(1, std::memory_order_relaxed);
    return {i, slot.serial};
  }
  return {};
}

CaptureTicket find_capture(const HookScope&, CUstream stream) {
  if (open_captures.load(std::memory_order_relaxed) == 0) return {};
  const SpinGuard guard(captures.lock);
  for (std::uint32_t i = 0; guard && i < captures.used; ++i) {
    if (is_same_stream(captures.slots[i], stream)) return {i, captures.slots[i].serial};
  }
  return {};
}

bool note_capture_ended(const HookScope&, CaptureTicket ticket) {
  if (!ticket) return false;
  const SpinGuard guard(captures.lock);
  if (!guard || captures.slots[ticket.slot].serial != ticket.serial) return false;
  end(captures.slots[ticket.slot]);
  return true;
}

CaptureTicket note_context_capture_ended(const HookScope&, std::uint64_t context, CUstream* stream) {
  if (open_captures.load(std::memory_order_relaxed) == 0) return {};
  const SpinGuard guard(captures.lock);
  for (std::uint32_t i = 0; guard && i < captures.used; ++i) {
    Capture& slot = captures.slots[i];
    if (slot.serial == 0 || slot.context != context) continue;
    const CaptureTicket ticket{i, slot.serial};
    *stream = slot.stream;
    end(slot);
    return ticket;
  }
  return {};
}

void note_capture_mode(CUstreamCaptureMode mode) { my_mode = mode; }

CaptureView capture_view() {
  if (open_captures.load(std::memory_order_relaxed) == 0) return {};
  CaptureView view{.open = true, .prohibited = false};
  if (my_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return view;
  const bool others = my_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && open_global_captures.load(std::memory_order_relaxed) != 0;
  view.prohibited = others || has_strict_capture();
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
