// Contexts, streams, peers, captures, checkpoints: nothing is allocated here, but memory begins and ends with them.
#include "shim/hooks/contexts.h"

#include "shim/driver/driver.h"
#include "shim/hooks/accounting.h"
#include "tracer/base/keep_errno.h"

using namespace cuheap;

namespace {

std::uint64_t number_of(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }

/// A release ends the primary context if it was the last one.
bool is_primary_inactive(CUdevice device) {
  unsigned flags = 0;
  int active = 1;
  return driver().cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active == 0;
}

/// Work of every context may use any memory of the process, so the pool must know them all.
void meet(const CurrentContext& met) {
  tell_allocator([&](DeviceAllocator& a) { a.context_met(met.context, met.generation, met.device, met.life); });
}

/// The host has got a context from the driver. While a primary context is released by one thread and retained by another, the
/// one that releases it cannot tell whether it was the last: the one that gets it back sees by its id that it is another.
void meet_new(CUcontext context, CUdevice device) {
  if (!is_armed()) return;
  const KeepErrno keep;
  unsigned long long id = 0;
  if (driver().cuCtxGetId(context, &id) != CUDA_SUCCESS) id = 0;
  const MadeContext made = context_was_made(number_of(context), device, id);
  if (made.has_ended_unseen) context_has_ended({made.now.context, made.ended_generation, now_ns()});
  meet(made.now);
}

/// Makes a stream in the current context. Who that was is asked before: afterwards it may have ended.
template <typename Call>
CUresult make_stream(Call&& call) {
  const CurrentContext now = is_armed() ? current_context() : CurrentContext{};
  const CUresult result = call();
  if (result == CUDA_SUCCESS && now.context != 0) meet(now);
  return result;
}

template <typename Call>
CUresult create_context(const CUcontext* out, CUdevice device, Call&& call) {
  const CUresult result = with_relief(device, kAnyBytes, call);
  if (result == CUDA_SUCCESS) meet_new(*out, device);
  return result;
}

/// A capture goes with its stream, unless the driver refuses.
template <typename Call>
CUresult destroy_stream(CUstream stream, Call&& call) {
  const CaptureTicket ticket = open_capture_of(stream);
  const CUresult result = call();
  if (result == CUDA_SUCCESS && close_capture(ticket, stream, nullptr)) {
    note(EventKind::CaptureEnd, Floor::Allocation, 0, 0, 0, 0, stream);
  }
  return result;
}

}  // namespace

CUHEAP_EXPORT CUresult cuInit(unsigned flags) {
  const CUresult result = driver().cuInit(flags);
  if (result == CUDA_SUCCESS) driver_initialised();
  return result;
}

CUHEAP_EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
  const EndingContext ending = before_context_end(number_of(context));
  const CUresult result = driver().cuCtxDestroy_v2(context);
  after_context_end(ending, result == CUDA_SUCCESS);
  return result;
}

CUHEAP_EXPORT CUresult cuCtxDestroy(CUcontext context) {
  const EndingContext ending = before_context_end(number_of(context));
  const CUresult result = driver().cuCtxDestroy(context);
  after_context_end(ending, result == CUDA_SUCCESS);
  return result;
}

// Its usage count was 1 by cuCtxCreate and more only by the deprecated cuCtxAttach: a success may or may not be the end,
// and the driver does not tell; programs of this century do not call it.
CUHEAP_EXPORT CUresult cuCtxDetach(CUcontext context) {
  const EndingContext ending = before_context_end(number_of(context));
  const CUresult result = driver().cuCtxDetach(context);
  after_context_end(ending, result == CUDA_SUCCESS);
  return result;
}

CUHEAP_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  const CUresult result = with_relief(device, kAnyBytes, [&] { return driver().cuDevicePrimaryCtxRetain(out, device); });
  if (result != CUDA_SUCCESS) return result;
  note_primary_context(device, *out);
  meet_new(*out, device);
  return result;
}

CUHEAP_EXPORT CUresult cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
  return create_context(out, device, [&] { return driver().cuCtxCreate_v2(out, flags, device); });
}

CUHEAP_EXPORT CUresult cuCtxCreate(CUcontext* out, unsigned flags, CUdevice device) {
  return create_context(out, device, [&] { return driver().cuCtxCreate(out, flags, device); });
}

CUHEAP_EXPORT CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* affinity, int count, unsigned flags, CUdevice device) {
  return create_context(out, device, [&] { return driver().cuCtxCreate_v3(out, affinity, count, flags, device); });
}

CUHEAP_EXPORT CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* params, unsigned flags, CUdevice device) {
  return create_context(out, device, [&] { return driver().cuCtxCreate_v4(out, params, flags, device); });
}

CUHEAP_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  const EndingContext ending = before_context_end(primary_context(device));
  const CUresult result = driver().cuDevicePrimaryCtxRelease_v2(device);
  after_context_end(ending, result == CUDA_SUCCESS && is_primary_inactive(device));
  return result;
}

CUHEAP_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  const EndingContext ending = before_context_end(primary_context(device));
  const CUresult result = driver().cuDevicePrimaryCtxRelease(device);
  after_context_end(ending, result == CUDA_SUCCESS && is_primary_inactive(device));
  return result;
}

CUHEAP_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  const EndingContext ending = before_context_end(primary_context(device));
  const CUresult result = driver().cuDevicePrimaryCtxReset_v2(device);
  after_context_end(ending, result == CUDA_SUCCESS);
  return result;
}

CUHEAP_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  const EndingContext ending = before_context_end(primary_context(device));
  const CUresult result = driver().cuDevicePrimaryCtxReset(device);
  after_context_end(ending, result == CUDA_SUCCESS);
  return result;
}

CUHEAP_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  const CUresult result = driver().cuCtxEnablePeerAccess(peer, flags);
  if (result != CUDA_SUCCESS) return result;
  const CurrentContext now = current_context();
  meet(now);  // the pair is this life's
  tell_allocator([&](DeviceAllocator& a) { a.peer_enabled(now.context, number_of(peer)); });
  return result;
}

CUHEAP_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  const CUresult result = driver().cuCtxDisablePeerAccess(peer);
  if (result == CUDA_SUCCESS) tell_allocator([&](DeviceAllocator& a) { a.peer_disabled(current_context().context, number_of(peer)); });
  return result;
}

CUHEAP_EXPORT CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return make_stream([&] { return driver().cuStreamCreate(out, flags); });
}

CUHEAP_EXPORT CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  return make_stream([&] { return driver().cuStreamCreateWithPriority(out, flags, priority); });
}

CUHEAP_EXPORT CUresult cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx context, unsigned flags, int priority) {
  return make_stream([&] { return driver().cuGreenCtxStreamCreate(out, context, flags, priority); });
}

CUHEAP_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  return destroy_stream(stream, [&] { return driver().cuStreamDestroy_v2(stream); });
}

CUHEAP_EXPORT CUresult cuStreamDestroy(CUstream stream) {
  return destroy_stream(stream, [&] { return driver().cuStreamDestroy(stream); });
}

CUHEAP_EXPORT CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs* args) {
  tell_allocator([](DeviceAllocator& a) { a.frozen(true); });
  const CUresult result = driver().cuCheckpointProcessLock(pid, args);
  if (result != CUDA_SUCCESS) tell_allocator([](DeviceAllocator& a) { a.frozen(false); });
  return result;
}

CUHEAP_EXPORT CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs* args) {
  const CUresult result = driver().cuCheckpointProcessUnlock(pid, args);
  if (result == CUDA_SUCCESS) tell_allocator([&](DeviceAllocator& a) { a.frozen(false); });
  return result;
}
