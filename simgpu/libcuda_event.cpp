// Events: recorded on streams and contexts, waited for, timed on the streams' virtual clock.
#include <time.h>

#include "simgpu/libcuda_entry.h"

using namespace cuheap::sim;

namespace cuheap::sim {
namespace {

constexpr unsigned kEventFlags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

Work stamp_work(Event& event, const std::shared_ptr<Stamp>& stamp) {
  Work work;
  SharedEvent* shared = event.shared;
  const uint64_t turn = shared != nullptr ? shared->recorded.fetch_add(1) + 1 : 0;
  work.run = [stamp, shared, turn](Stream& stream) {
    stamp->time_ns.store(stream.virtual_time_ns());
    if (shared != nullptr && shared->passed.load() < turn) shared->passed.store(turn);
    return Io::Ok;
  };
  return work;
}

CUresult record(CUstream handle, CUevent event_handle) {
  Context& context = current_context();
  const auto event = machine().events.find(event_handle);
  const auto stream = find_stream(handle, context);
  if (event == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->device != event->device) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capturing.load()) return result_of(capture_record(stream, *event));
  auto stamp = std::make_shared<Stamp>();
  Work work = stamp_work(*event, stamp);
  if (const CUresult result = submit(context, stream, NodeType::EventRecord, std::move(work), {}, &stamp->mark); result != CUDA_SUCCESS)
    return result;
  std::lock_guard guard(event->lock);
  event->last = std::move(stamp);
  event->capture = nullptr;
  event->nodes.clear();
  return CUDA_SUCCESS;
}

bool has_passed(Event& event) {
  std::lock_guard guard(event.lock);
  if (event.shared != nullptr && event.shared->passed.load() < event.shared->recorded.load()) return false;
  return event.last == nullptr || event.last->mark.is_reached();
}

bool is_captured(Event& event) {
  std::lock_guard guard(event.lock);
  return event.capture != nullptr;
}

void invalidate_capture_of(Event& event) {
  std::lock_guard capture_guard(capture_lock());
  std::lock_guard guard(event.lock);
  if (event.capture != nullptr) event.capture->invalidated = true;
}

void wait_shared(SharedEvent& shared, uint64_t turn) {
  const timespec pause{0, 20000};
  while (shared.passed.load() < turn) ::nanosleep(&pause, nullptr);
}

void wait_event(Event& event) {
  std::shared_ptr<Stamp> last;
  {
    std::lock_guard guard(event.lock);
    last = event.last;
  }
  if (last != nullptr) last->mark.stream->wait(last->mark.sequence);
  if (event.shared != nullptr) wait_shared(*event.shared, event.shared->recorded.load());
}

Work after_event(const std::shared_ptr<Event>& event) {
  Work work;
  std::lock_guard guard(event->lock);
  if (event->last != nullptr) work.after.push_back(event->last->mark);
  if (event->shared == nullptr || event->last != nullptr) return work;
  // Recorded by another process.
  const uint64_t turn = event->shared->recorded.load();
  work.may_run_inline = event->shared->passed.load() >= turn;
  work.run = [event, turn](Stream&) { return wait_shared(*event->shared, turn), Io::Ok; };
  return work;
}

}  // namespace
}  // namespace cuheap::sim

SIMGPU_API CUresult cuEventCreate(CUevent* out, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  if (out == nullptr || (flags & ~kEventFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
  const Context& context = current_context();
  auto event = std::make_shared<Event>(context.device, context.id, flags);
  if ((flags & CU_EVENT_INTERPROCESS) != 0 && !event->make_shared_page()) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUevent>(machine().events.add(std::move(event)));
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuEventDestroy_v2(CUevent handle) {
  SIMGPU_ENTER(Needs::Init);
  return machine().events.take(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIMGPU_API CUresult cuEventRecord(CUevent event, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  return record(stream, event);
}

SIMGPU_API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  if ((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto target = find_stream(stream, current_context());
  if (flags == 0 || target == nullptr || !target->capturing.load()) return record(stream, event);
  // In a capture, an external record is a node of its own: every launch of the graph records the event.
  const auto found = machine().events.find(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Work work;
  work.run = [found](Stream& on) {
    auto stamp = std::make_shared<Stamp>();
    stamp->time_ns.store(on.virtual_time_ns());
    std::lock_guard guard(found->lock);
    found->last = std::move(stamp);
    return Io::Ok;
  };
  return submit(current_context(), target, NodeType::EventRecord, std::move(work), event);
}

SIMGPU_API CUresult cuEventQuery(CUevent handle) {
  SIMGPU_ENTER(Needs::Init);
  const auto event = machine().events.find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (is_captured(*event)) return invalidate_capture_of(*event), CUDA_ERROR_CAPTURED_EVENT;
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  if (const ContextRef context = machine().context_by_id(event->context_id))
    if (const CUresult error = sticky(*context); error != CUDA_SUCCESS) return error;
  return has_passed(*event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIMGPU_API CUresult cuEventSynchronize(CUevent handle) {
  SIMGPU_ENTER(Needs::Init);
  const auto event = machine().events.find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (is_captured(*event)) return invalidate_capture_of(*event), CUDA_ERROR_CAPTURED_EVENT;
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  wait_event(*event);
  trim_pools(event->device);
  const ContextRef context = machine().context_by_id(event->context_id);
  return context != nullptr ? sticky(*context) : CUDA_SUCCESS;
}

SIMGPU_API CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  SIMGPU_ENTER(Needs::Init);
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto first = machine().events.find(start);
  const auto second = machine().events.find(end);
  if (first == nullptr || second == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (is_captured(*first) || is_captured(*second)) return CUDA_ERROR_CAPTURED_EVENT;
  const auto timed = [](Event& e) { return (e.flags & CU_EVENT_DISABLE_TIMING) == 0 && e.last != nullptr; };
  if (!timed(*first) || !timed(*second)) return CUDA_ERROR_INVALID_HANDLE;
  if (!has_passed(*first) || !has_passed(*second)) return CUDA_ERROR_NOT_READY;
  const auto a = static_cast<int64_t>(first->last->time_ns.load());
  const auto b = static_cast<int64_t>(second->last->time_ns.load());
  // "A resolution of approximately 0.5 microseconds"
  *milliseconds = static_cast<float>(static_cast<double>(b - a) / 1e6);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  const auto stream = find_stream(handle, current_context());
  const auto event = machine().events.find(event_handle);
  if (stream == nullptr || event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if ((flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (flags != 0 && stream->capturing.load()) {
    Work work;
    work.run = [event](Stream&) { return wait_event(*event), Io::Ok; };
    work.may_run_inline = false;
    return submit(current_context(), stream, NodeType::WaitEvent, std::move(work), event_handle);
  }
  bool handled = false;
  const CaptureResult captured = capture_wait(stream, *event, handled);
  if (handled) return result_of(captured);
  return submit(current_context(), stream, NodeType::WaitEvent, after_event(event));
}

SIMGPU_API CUresult cuCtxRecordEvent(CUcontext handle, CUevent event_handle) {
  SIMGPU_ENTER(Needs::Init);
  const ContextRef context = handle != nullptr ? find_context(handle) : current_context_or_null();
  const auto event = machine().events.find(event_handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (event == nullptr || event->device != context->device) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = result_of(check_context_wait(context->id)); refused != CUDA_SUCCESS) return refused;
  // A point after all work of the context so far: a stream of its own that waits for every other.
  auto stamp = std::make_shared<Stamp>();
  Work work = stamp_work(*event, stamp);
  work.after = context->marks();
  const auto stream = std::make_shared<Stream>(context->device, true, 0, context->errors);
  stamp->mark = context->submit(stream, std::move(work));
  stream->close();
  std::lock_guard guard(event->lock);
  event->last = std::move(stamp);
  event->capture = nullptr;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxWaitEvent(CUcontext handle, CUevent event_handle) {
  SIMGPU_ENTER(Needs::Init);
  const ContextRef context = handle != nullptr ? find_context(handle) : current_context_or_null();
  const auto event = machine().events.find(event_handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (is_captured(*event)) return CUDA_ERROR_CAPTURED_EVENT;
  if (const CUresult refused = result_of(check_context_wait(context->id)); refused != CUDA_SUCCESS) return refused;
  for (const auto& stream : context->streams()) context->submit(stream, after_event(event));
  return CUDA_SUCCESS;
}
