// Contexts: created, primary, current, destroyed; limits and peers.
#include "simgpu/libcuda_entry.h"

namespace cuheap::sim {

CUresult new_context(int device, bool primary, unsigned flags, ContextRef& out) {
  // Memory the driver takes for itself; asked for through the same door as everything else, so it can be refused.
  PhysicalRef overhead = machine().memory.new_physical(device, machine().devices[static_cast<size_t>(device)].spec.context_bytes);
  if (overhead == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  out = std::make_shared<Context>(device, primary, flags, std::move(overhead));
  machine().contexts.add(out);
  machine().shared.add_context(device, 1);
  return CUDA_SUCCESS;
}

void destroy_context(const ContextRef& context) {
  for (const auto& stream : context->streams()) forget_stream(stream);
  context->close();
  // Memory of cuMemCreate and of pools outlives the context; what was allocated in it does not.
  for (const uint64_t base : machine().allocations.bases_of(context->id)) free_allocation(base, false);
  for (const auto& stream : context->streams()) machine().streams.take(stream.get());
  for (const auto& function_owner : machine().modules.all())
    if (function_owner->context_id == context->id) machine().modules.take(function_owner.get());
  machine().contexts.take(context.get());
  machine().shared.add_context(context->device, -1);
}

ContextRef retain_primary(int device, CUresult& result) {
  DeviceState& state = machine().states[device];
  std::lock_guard guard(state.lock);
  result = CUDA_SUCCESS;
  if (state.primary == nullptr) result = new_context(device, true, state.primary_flags, state.primary);
  if (result != CUDA_SUCCESS) return nullptr;
  ++state.primary_references;
  return state.primary;
}

namespace {

constexpr unsigned kContextFlags = CU_CTX_FLAGS_MASK;

void push(ContextRef context) { context_stack().push_back(std::move(context)); }

CUresult create(CUcontext* out, unsigned flags, CUdevice device) {
  if (out == nullptr || (flags & ~kContextFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  ContextRef context;
  if (const CUresult result = new_context(device, false, flags, context); result != CUDA_SUCCESS) return result;
  *out = handle_of(context);
  push(std::move(context));
  return CUDA_SUCCESS;
}

size_t default_limit(int limit, const Context& context) {
  switch (limit) {
    case CU_LIMIT_STACK_SIZE: return 1024;
    case CU_LIMIT_PRINTF_FIFO_SIZE: return size_t{7} << 20;
    case CU_LIMIT_MALLOC_HEAP_SIZE: return size_t{8} << 20;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH: return 2;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT: return 2048;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY: return 64;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE: return 0;
    case CU_LIMIT_SHMEM_SIZE:
      return static_cast<size_t>(machine().devices[static_cast<size_t>(context.device)].spec.shared_memory_per_block_optin);
    default: return 0;
  }
}

}  // namespace
}  // namespace cuheap::sim

using namespace cuheap::sim;

SIMGPU_API CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  return create(out, flags, device);
}

SIMGPU_API CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int count, unsigned int flags, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (count > 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(out, flags, device);
}

SIMGPU_API CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* parameters, unsigned int flags, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (parameters != nullptr && (parameters->numExecAffinityParams > 0 || parameters->cigParams != nullptr))
    return CUDA_ERROR_NOT_SUPPORTED;
  return create(out, flags, device);
}

SIMGPU_API CUresult cuCtxDestroy_v2(CUcontext handle) {
  SIMGPU_ENTER(Needs::Init);
  const ContextRef context = find_context(handle);
  if (context == nullptr || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  destroy_context(context);
  auto& stack = context_stack();
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxAttach(CUcontext* out, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  ++current_context().usage;
  *out = handle_of(current_context_or_null());
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxDetach(CUcontext handle) {
  SIMGPU_ENTER(Needs::Init);
  // "Must be a handle that was passed back by cuCtxCreate() or cuCtxAttach(), and must be current to the calling thread."
  const ContextRef context = find_context(handle);
  if (context == nullptr || context != current_context_or_null()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->primary && context->usage == 1) return CUDA_ERROR_INVALID_CONTEXT;
  if (--context->usage > 0) return CUDA_SUCCESS;
  destroy_context(context);
  context_stack().pop_back();
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  SIMGPU_ENTER(Needs::Init);
  ContextRef context = find_context(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  push(std::move(context));
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  SIMGPU_ENTER(Needs::Init);
  auto& stack = context_stack();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = handle_of(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxSetCurrent(CUcontext handle) {
  SIMGPU_ENTER(Needs::Init);
  auto& stack = context_stack();
  if (handle == nullptr) {
    if (!stack.empty()) stack.pop_back();
    return CUDA_SUCCESS;
  }
  ContextRef context = find_context(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.empty()) stack.push_back(std::move(context));
  else stack.back() = std::move(context);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxGetCurrent(CUcontext* out) {
  SIMGPU_ENTER(Needs::Init);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(current_context_or_null());
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxGetDevice(CUdevice* device) {
  SIMGPU_ENTER(Needs::Init);
  const ContextRef context = current_context_or_null();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  SIMGPU_ENTER(Needs::Init);
  const ContextRef context = handle == nullptr ? current_context_or_null() : find_context(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  SIMGPU_ENTER(Needs::Init);
  const ContextRef context = handle == nullptr ? current_context_or_null() : find_context(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = context->id;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxGetFlags(unsigned int* flags) {
  SIMGPU_ENTER(Needs::Context);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = current_context().flags;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxSetFlags(unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  if ((flags & ~kContextFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  current_context().flags = flags;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxSynchronize() {
  SIMGPU_ENTER(Needs::Context);
  Context& context = current_context();
  if (const CUresult refused = result_of(check_context_wait(context.id)); refused != CUDA_SUCCESS) return refused;
  context.synchronize();
  trim_pools(context.device);
  return sticky(context);
}

SIMGPU_API CUresult cuCtxSynchronize_v2(CUcontext handle) {
  SIMGPU_ENTER(Needs::Init);
  const ContextRef context = handle == nullptr ? current_context_or_null() : find_context(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult refused = result_of(check_context_wait(context->id)); refused != CUDA_SUCCESS) return refused;
  context->synchronize();
  trim_pools(context->device);
  return sticky(*context);
}

SIMGPU_API CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  SIMGPU_ENTER(Needs::Context);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  const Context& context = current_context();
  const auto at = context.limits.find(limit);
  *value = at != context.limits.end() ? at->second : default_limit(limit, context);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  SIMGPU_ENTER(Needs::Context);
  if (limit < 0 || limit >= CU_LIMIT_MAX || limit == CU_LIMIT_SHMEM_SIZE || limit == CU_LIMIT_CIG_ENABLED)
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  current_context().limits[limit] = value;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  SIMGPU_ENTER(Needs::Context);
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = static_cast<CUfunc_cache>(current_context().cache_config);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  SIMGPU_ENTER(Needs::Context);
  current_context().cache_config = config;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  SIMGPU_ENTER(Needs::Context);
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = static_cast<CUsharedconfig>(current_context().shared_config);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  SIMGPU_ENTER(Needs::Context);
  current_context().shared_config = config;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
  SIMGPU_ENTER(Needs::Init);
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (handle != nullptr && find_context(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;  // of the context API, as the header says of CUDA 3.2 and later
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  SIMGPU_ENTER(Needs::Context);
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxResetPersistingL2Cache() {
  SIMGPU_ENTER(Needs::Context);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  CUresult result = CUDA_SUCCESS;
  const ContextRef context = retain_primary(device, result);
  if (context != nullptr) *out = handle_of(context);
  return result;
}

SIMGPU_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  DeviceState& state = machine().states[device];
  ContextRef last;
  {
    std::lock_guard guard(state.lock);
    if (state.primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--state.primary_references == 0) last = std::move(state.primary);
  }
  if (last != nullptr) destroy_context(last);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  DeviceState& state = machine().states[device];
  ContextRef last;
  {
    std::lock_guard guard(state.lock);
    // "Resetting the primary context does not release it": whoever retained it still may, and must, release it.
    last = std::move(state.primary);
  }
  if (last != nullptr) destroy_context(last);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  SIMGPU_ENTER(Needs::Init);
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if ((flags & ~kContextFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  DeviceState& state = machine().states[device];
  std::lock_guard guard(state.lock);
  state.primary_flags = flags;
  if (state.primary != nullptr) state.primary->flags = flags;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  SIMGPU_ENTER(Needs::Init);
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  DeviceState& state = machine().states[device];
  std::lock_guard guard(state.lock);
  *flags = state.primary_flags;
  *active = state.primary != nullptr ? 1 : 0;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  const ContextRef other = find_context(peer);
  if (other == nullptr || other.get() == &current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return current_context().peers.insert(other->id).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

SIMGPU_API CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  SIMGPU_ENTER(Needs::Context);
  const ContextRef other = find_context(peer);
  if (other == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return current_context().peers.erase(other->id) > 0 ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
