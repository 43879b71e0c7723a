// When cuheap is there at all: nothing before the host's cuInit has succeeded, everything after it, nothing in a fork
// child. The hooks ask here.
#pragma once
#include <atomic>

#include "shim/pool/allocator.h"
#include "tracer/base/keep_errno.h"
#include "tracer/base/process.h"
#include "tracer/recorder.h"

namespace cuheap {

namespace detail {
extern constinit std::atomic<bool> armed;
extern constinit std::atomic<DeviceAllocator*> chosen_allocator;
}  // namespace detail

/// The host has initialised CUDA here, and this is not a fork child of the process that did.
inline bool is_armed() { return detail::armed.load(std::memory_order_acquire) && process::is_owner(); }
inline bool is_recording() { return is_armed() && recorder().is_recording(); }

/// Direct or pooled; chosen once, at arming, so that a hook has no branch.
inline DeviceAllocator& allocator() { return *detail::chosen_allocator.load(std::memory_order_relaxed); }

/// Tells the allocator what happened around it, if there is anybody to tell; the host's errno stays.
template <typename Tell>
void tell_allocator(Tell&& tell) {
  if (!is_armed()) return;
  const KeepErrno keep;
  tell(allocator());
}

/// The real cuInit has succeeded. The first time it arms; called outside every scope and lock of ours.
void driver_initialised();

}  // namespace cuheap
