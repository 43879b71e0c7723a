// Streams: made, asked, waited for; host functions and memory operations in stream order.
#include <time.h>

#include <algorithm>

#include "simgpu/libcuda_copy.h"
#include "simgpu/pool.h"

using namespace cuheap::sim;

namespace cuheap::sim {

void trim_pools(int device) {
  for (const auto& pool : machine().pools.all())
    if (pool->device == device && pool->reserved.load() > pool->release_threshold.load()) pool->trim_to_threshold();
}

namespace {

CUresult create_stream(CUstream* out, unsigned flags, int priority) {
  if (out == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) return CUDA_ERROR_INVALID_VALUE;
  auto stream = current_context().new_stream(flags, (flags & CU_STREAM_NON_BLOCKING) != 0, std::clamp(priority, kGreatestPriority, 0));
  *out = reinterpret_cast<CUstream>(machine().streams.add(std::move(stream)));
  return CUDA_SUCCESS;
}

std::shared_ptr<Stream> stream_or_null(CUstream handle) { return find_stream(handle, current_context()); }

/// A marker at the end of the stream: for the legacy stream it also comes after the blocking streams.
CUresult wait_stream(Context& context, const std::shared_ptr<Stream>& stream) {
  if (const CUresult refused = result_of(check_stream_wait(*stream)); refused != CUDA_SUCCESS) return refused;
  Mark mark{stream, stream->submitted()};
  if (stream->non_blocking == false) {
    if (const CUresult result = submit(context, stream, NodeType::Empty, {}, {}, &mark); result != CUDA_SUCCESS) return result;
  }
  stream->wait(mark.sequence);
  trim_pools(stream->device);
  return sticky(context);
}

/// A word of device or host memory.
Io load(uint64_t address, void* out, unsigned bytes) { return move_bytes(both(-1), reinterpret_cast<uint64_t>(out), address, bytes); }
Io store(uint64_t address, const void* value, unsigned bytes) {
  return move_bytes(both(-1), address, reinterpret_cast<uint64_t>(value), bytes);
}

bool passes(uint64_t value, uint64_t wanted, unsigned flags, unsigned bytes) {
  switch (flags & 3u) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return bytes == 4 ? static_cast<int32_t>(static_cast<uint32_t>(value - wanted)) >= 0 : static_cast<int64_t>(value - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return value == wanted;
    case CU_STREAM_WAIT_VALUE_AND: return (value & wanted) != 0;
    default: return bytes == 4 ? static_cast<uint32_t>(~(value | wanted)) != 0 : ~(value | wanted) != 0;
  }
}

Work write_work(uint64_t address, uint64_t value, unsigned bytes) {
  Work work;
  work.run = [=](Stream&) { return store(address, &value, bytes); };
  return work;
}

Work wait_work(uint64_t address, uint64_t wanted, unsigned flags, unsigned bytes) {
  Work work;
  work.may_run_inline = false;
  work.run = [=](Stream&) {
    for (;;) {
      uint64_t value = 0;
      if (const Io result = load(address, &value, bytes); result != Io::Ok) return result;
      if (passes(value, wanted, flags, bytes)) return Io::Ok;
      const timespec pause{0, 20000};
      ::nanosleep(&pause, nullptr);
    }
  };
  return work;
}

bool is_word(CUdeviceptr address, unsigned bytes) {
  if (address == 0 || address % bytes != 0) return false;
  return machine().memory.is_device_address(address) ? machine().memory.is_mapped(address)
                                                     : machine().allocations.find(address).has_value();
}

CUresult write_value(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags, unsigned bytes) {
  if (!is_word(address, bytes) || (flags & ~static_cast<unsigned>(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return submit(current_context(), stream, NodeType::BatchMemOp, write_work(address, value, bytes));
}

CUresult wait_value(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags, unsigned bytes) {
  if (!is_word(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return submit(current_context(), stream, NodeType::BatchMemOp, wait_work(address, value, flags, bytes));
}

}  // namespace
}  // namespace cuheap::sim

SIMGPU_API CUresult cuStreamCreate(CUstream* out, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  return create_stream(out, flags, 0);
}

SIMGPU_API CUresult cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
  SIMGPU_ENTER(Needs::Context);
  return create_stream(out, flags, priority);
}

SIMGPU_API CUresult cuStreamDestroy_v2(CUstream handle) {
  SIMGPU_ENTER(Needs::Init);
  const auto stream = machine().streams.take(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  forget_stream(stream);
  if (const ContextRef context = machine().context_by_id(stream->context_id)) context->remove_stream(stream);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuStreamQuery(CUstream handle) {
  SIMGPU_ENTER(Needs::Context);
  const auto stream = stream_or_null(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = result_of(check_stream_wait(*stream)); refused != CUDA_SUCCESS) return refused;
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  bool idle = stream->is_idle();
  if (idle && stream == current_context().legacy)
    for (const Mark& mark : current_context().marks()) idle = idle && (mark.stream->non_blocking || mark.is_reached());
  return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIMGPU_API CUresult cuStreamSynchronize(CUstream handle) {
  SIMGPU_ENTER(Needs::Context);
  const auto stream = stream_or_null(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  return wait_stream(current_context(), stream);
}

SIMGPU_API CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  SIMGPU_ENTER(Needs::Context);
  const auto stream = stream_or_null(handle);
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  SIMGPU_ENTER(Needs::Context);
  const auto stream = stream_or_null(handle);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  SIMGPU_ENTER(Needs::Context);
  const auto stream = stream_or_null(handle);
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *id = stream->id;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  SIMGPU_ENTER(Needs::Context);
  const auto stream = stream_or_null(handle);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *device = stream->device;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  SIMGPU_ENTER(Needs::Context);
  const auto stream = stream_or_null(handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = handle_of(context_of(*stream, current_context()));
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

SIMGPU_API CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* out, CUgreenCtx* green) {
  SIMGPU_ENTER(Needs::Context);
  const auto stream = stream_or_null(handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (green != nullptr) *green = nullptr;
  *out = handle_of(context_of(*stream, current_context()));
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

SIMGPU_API CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  SIMGPU_ENTER(Needs::Context);
  return stream_or_null(to) != nullptr && stream_or_null(from) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIMGPU_API CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  SIMGPU_ENTER(Needs::Context);
  const auto stream = stream_or_null(handle);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *value = {};
  if (attribute == CU_STREAM_ATTRIBUTE_PRIORITY) value->priority = stream->priority;
  else if (attribute == CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY) value->syncPolicy = CU_SYNC_POLICY_AUTO;
  return CUDA_SUCCESS;
}

// Hints of scheduling and caching have no effect on what memory holds: accepted.
SIMGPU_API CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID, const CUstreamAttrValue* value) {
  SIMGPU_ENTER(Needs::Context);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return stream_or_null(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIMGPU_API CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  SIMGPU_ENTER(Needs::Context);
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  work.may_run_inline = false;
  work.run = [=](Stream&) { return function(data), Io::Ok; };
  return submit(current_context(), handle, NodeType::Host, std::move(work), CUDA_HOST_NODE_PARAMS{function, data});
}

SIMGPU_API CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback function, void* data, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  if (function == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto stream = stream_or_null(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // "Not supported while the stream is capturing": the older call has no node of its own.
  if (stream->capturing.load()) return invalidate(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Work work;
  work.may_run_inline = false;
  work.run = [=](Stream&) { return function(handle, CUDA_SUCCESS, data), Io::Ok; };
  return submit(current_context(), stream, NodeType::Host, std::move(work));
}

SIMGPU_API CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  return write_value(stream, address, value, flags, 4);
}

SIMGPU_API CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  return write_value(stream, address, value, flags, 8);
}

SIMGPU_API CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  return wait_value(stream, address, value, flags, 4);
}

SIMGPU_API CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  return wait_value(stream, address, value, flags, 8);
}

SIMGPU_API CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* operations, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  if (operations == nullptr || count > 256 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const CUstreamBatchMemOpParams& op = operations[i];
    CUresult result = CUDA_SUCCESS;
    switch (op.operation) {
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        result = write_value(stream, op.writeValue.address, op.writeValue.value, op.writeValue.flags, 4);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        result = write_value(stream, op.writeValue.address, op.writeValue.value64, op.writeValue.flags, 8);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        result = wait_value(stream, op.waitValue.address, op.waitValue.value, op.waitValue.flags, 4);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        result = wait_value(stream, op.waitValue.address, op.waitValue.value64, op.waitValue.flags, 8);
        break;
      case CU_STREAM_MEM_OP_BARRIER: case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: break;
      default: result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}
