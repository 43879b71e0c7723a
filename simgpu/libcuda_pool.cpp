// Stream-ordered allocation and memory pools.
#include <cstring>

#include "simgpu/libcuda_entry.h"
#include "simgpu/pool.h"

using namespace cuheap::sim;

namespace cuheap::sim {
namespace {

std::shared_ptr<Pool> default_pool(int device) {
  DeviceState& state = machine().states[device];
  std::lock_guard guard(state.lock);
  if (state.default_pool == nullptr) {
    state.default_pool = std::make_shared<Pool>(device);
    machine().pools.add(state.default_pool);
  }
  return state.default_pool;
}

std::shared_ptr<Pool> current_pool(int device) {
  auto fallback = default_pool(device);
  DeviceState& state = machine().states[device];
  std::lock_guard guard(state.lock);
  return state.current_pool != nullptr ? state.current_pool : fallback;
}

CUmemoryPool handle_of(const std::shared_ptr<Pool>& pool) { return reinterpret_cast<CUmemoryPool>(pool.get()); }

/// The node an allocation becomes while its stream is captured.
CUresult capture_allocation(const Ordering& order, CUdeviceptr* out, size_t bytes, int device) {
  auto block = new_graph_block(device, bytes);
  if (block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Work work;
  work.run = [block](Stream&) { return block->go_live(); };
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  parameters.bytesize = bytes;
  parameters.dptr = block->address;
  GraphNode* node = nullptr;
  const CUresult result = submit(*order.context, order.stream, NodeType::MemAlloc, std::move(work), parameters, nullptr, &node);
  if (result != CUDA_SUCCESS) return result;
  node->block = block;
  *out = block->address;
  return CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr* out, size_t bytes, const std::shared_ptr<Pool>& pool, const Ordering& order) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (order.stream->capturing.load()) return capture_allocation(order, out, bytes, pool->device);
  Mark mark;
  if (const CUresult result = submit(*order.context, order.stream, NodeType::MemAlloc, {}, {}, &mark); result != CUDA_SUCCESS)
    return result;
  uint64_t address = pool->allocate(bytes, mark);
  if (address == 0) {
    // Before giving up: let queued frees come true and hand idle segments of all pools back.
    order.context->synchronize();
    for (const auto& other : machine().pools.all())
      if (other->device == pool->device) other->trim(0);
    address = pool->allocate(bytes, mark);
  }
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation block{.base = address, .size = bytes, .kind = Kind::Pooled, .device = pool->device};
  block.pool = pool;
  machine().allocations.add(std::move(block));
  *out = address;
  return CUDA_SUCCESS;
}

template <class T>
CUresult give(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult free_graph_memory(uint64_t address) {
  const auto block = find_graph_block(address);
  if (block == nullptr || !block->out.exchange(false)) return CUDA_ERROR_INVALID_VALUE;
  block->die();
  return CUDA_SUCCESS;
}

}  // namespace cuheap::sim

SIMGPU_API CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  SIMGPU_ENTER(Needs::Init);
  const Ordering order = ordering_of(stream);
  if (order.result != CUDA_SUCCESS) return order.result;
  // "From the memory pool current to the stream's device", whatever context is current.
  return allocate(out, bytes, current_pool(order.stream->device), order);
}

SIMGPU_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool handle, CUstream stream) {
  SIMGPU_ENTER(Needs::Init);
  const Ordering order = ordering_of(stream);
  if (order.result != CUDA_SUCCESS) return order.result;
  const auto pool = machine().pools.find(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return allocate(out, bytes, pool, order);
}

namespace cuheap::sim {
namespace {

/// A free node in a capture; else the memory's life ends when the stream comes to it.
CUresult free_graph_block(const Ordering& order, uint64_t address) {
  const auto memory = find_graph_block(address);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (order.stream->capturing.load()) {
    std::lock_guard guard(capture_lock());
    if (order.stream->capture != nullptr && order.stream->capture->graph->frees(*memory)) return CUDA_ERROR_INVALID_VALUE;
  } else if (!memory->out.exchange(false)) {
    return CUDA_ERROR_INVALID_VALUE;  // never launched, or freed before
  }
  Work work;
  work.run = [memory](Stream&) { return memory->die(), Io::Ok; };
  GraphNode* node = nullptr;
  const CUresult result = submit(*order.context, order.stream, NodeType::MemFree, std::move(work), address, nullptr, &node);
  if (node != nullptr) node->block = memory;
  if (result != CUDA_SUCCESS && !order.stream->capturing.load()) memory->out = true;
  return result;
}

/// Memory of cuMemAlloc too may be freed in stream order.
CUresult free_device_block(const Ordering& order, uint64_t address) {
  auto taken = machine().allocations.take(address);
  if (!taken) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  auto owned = std::make_shared<Allocation>(std::move(*taken));
  work.run = [owned](Stream&) { return machine().allocations.release(*owned), Io::Ok; };
  const CUresult result = submit(*order.context, order.stream, NodeType::MemFree, std::move(work));
  if (result != CUDA_SUCCESS) machine().allocations.add(std::move(*owned));  // refused: it is still the program's
  return result;
}

}  // namespace
}  // namespace cuheap::sim

SIMGPU_API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  SIMGPU_ENTER(Needs::Init);
  const Ordering order = ordering_of(handle);
  if (order.result != CUDA_SUCCESS) return order.result;
  const auto block = address != 0 ? machine().allocations.find_base(address) : std::nullopt;
  if (!block) return CUDA_ERROR_INVALID_VALUE;
  if (block->kind == Kind::Graph) return free_graph_block(order, address);
  // A graph may only free what a graph allocated.
  if (order.stream->capturing.load()) return invalidate(order.stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (block->kind == Kind::Device) return free_device_block(order, address);
  if (block->kind != Kind::Pooled) return CUDA_ERROR_INVALID_VALUE;
  Mark mark;
  if (const CUresult result = submit(*order.context, order.stream, NodeType::MemFree, {}, {}, &mark); result != CUDA_SUCCESS)
    return result;
  if (!machine().allocations.take(address)) return CUDA_ERROR_INVALID_VALUE;
  block->pool->free(address, mark);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  SIMGPU_ENTER(Needs::Init);
  if (out == nullptr || properties == nullptr || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  // Pools of host memory are not implemented; these two are wrong on any driver.
  if (properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT) return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type == CU_MEM_LOCATION_TYPE_HOST && properties->handleTypes != 0) return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!valid_device(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;  // attribute 119 says so
  auto pool = std::make_shared<Pool>(properties->location.id);
  pool->max_bytes = properties->maxSize;
  *out = reinterpret_cast<CUmemoryPool>(machine().pools.add(std::move(pool)));
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  SIMGPU_ENTER(Needs::Init);
  const auto pool = machine().pools.find(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  DeviceState& state = machine().states[pool->device];
  std::lock_guard guard(state.lock);
  if (pool == state.default_pool) return CUDA_ERROR_INVALID_VALUE;
  if (pool == state.current_pool) state.current_pool = nullptr;
  // Blocks still out keep the pool alive, as the documentation asks.
  machine().pools.take(handle);
  pool->trim(0);
  pool->release_threshold = 0;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  SIMGPU_ENTER(Needs::Init);
  const auto pool = machine().pools.find(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  pool->trim(keep);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  SIMGPU_ENTER(Needs::Init);
  const auto pool = machine().pools.find(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: return give<int>(value, pool->reuse_follow_events);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: return give<int>(value, pool->reuse_opportunistic);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return give<int>(value, pool->reuse_internal_dependencies);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return give<cuuint64_t>(value, pool->release_threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return give<cuuint64_t>(value, pool->reserved);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return give<cuuint64_t>(value, pool->reserved_high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return give<cuuint64_t>(value, pool->used);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return give<cuuint64_t>(value, pool->used_high);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

SIMGPU_API CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  SIMGPU_ENTER(Needs::Init);
  const auto pool = machine().pools.find(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  int flag = 0;
  cuuint64_t bytes = 0;
  if (attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) std::memcpy(&flag, value, sizeof flag);
  else std::memcpy(&bytes, value, sizeof bytes);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: pool->reuse_follow_events = flag; break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: pool->reuse_opportunistic = flag; break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: pool->reuse_internal_dependencies = flag; break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool->release_threshold = bytes; break;
    // "Must be set to zero": it resets the mark.
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      if (bytes != 0) return CUDA_ERROR_INVALID_VALUE;
      pool->reserved_high = pool->reserved.load();
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (bytes != 0) return CUDA_ERROR_INVALID_VALUE;
      pool->used_high = pool->used.load();
      break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* descriptions, size_t count) {
  SIMGPU_ENTER(Needs::Init);
  const auto pool = machine().pools.find(handle);
  if (pool == nullptr || (descriptions == nullptr && count > 0)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const CUmemLocation& location = descriptions[i].location;
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(location.id)) return CUDA_ERROR_INVALID_DEVICE;
    if (location.id == pool->device && descriptions[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
    pool->set_access(location.id, descriptions[i].flags);
  }
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle, CUmemLocation* location) {
  SIMGPU_ENTER(Needs::Init);
  const auto pool = machine().pools.find(handle);
  if (flags == nullptr || pool == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !valid_device(location->id)) return CUDA_ERROR_INVALID_VALUE;
  *flags = static_cast<CUmemAccess_flags>(pool->access(location->id));
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = handle_of(default_pool(device));
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = handle_of(current_pool(device));
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle) {
  SIMGPU_ENTER(Needs::Init);
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto pool = machine().pools.find(handle);
  if (pool == nullptr || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
  DeviceState& state = machine().states[device];
  std::lock_guard guard(state.lock);
  state.current_pool = pool;
  return CUDA_SUCCESS;
}

namespace {
CUresult located_pool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type, bool current) {
  if (out == nullptr || location == nullptr || type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!valid_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  *out = handle_of(current ? current_pool(location->id) : default_pool(location->id));
  return CUDA_SUCCESS;
}
}  // namespace

SIMGPU_API CUresult cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  SIMGPU_ENTER(Needs::Init);
  return located_pool(out, location, type, false);
}

SIMGPU_API CUresult cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  SIMGPU_ENTER(Needs::Init);
  return located_pool(out, location, type, true);
}

SIMGPU_API CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool handle) {
  SIMGPU_ENTER(Needs::Init);
  if (location == nullptr || type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!valid_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  const auto pool = machine().pools.find(handle);
  if (pool == nullptr || pool->device != location->id) return CUDA_ERROR_INVALID_VALUE;
  DeviceState& state = machine().states[location->id];
  std::lock_guard guard(state.lock);
  state.current_pool = pool;
  return CUDA_SUCCESS;
}
