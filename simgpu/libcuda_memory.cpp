// Device, managed and pinned memory: allocated, freed, registered, asked about.
#include "simgpu/libcuda_entry.h"
#include "simgpu/pool.h"

namespace cuheap::sim {
namespace {

// Rows of a pitched allocation start at multiples of this, as on current devices.
constexpr size_t kPitchAlignment = 512;

void wait_for_everything() {
  for (const auto& context : machine().contexts.all()) context->synchronize();
}

bool is_pinned(const Allocation& block) { return block.kind == Kind::PinnedHost || block.kind == Kind::RegisteredHost; }

CUresult allocate_pinned(void** out, size_t bytes, unsigned flags) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  constexpr unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if ((flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  const Context& context = current_context();
  const uint64_t address = machine().allocations.allocate_host(bytes, Kind::PinnedHost, context.device, context.id, flags);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<void*>(address);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult free_allocation(uint64_t base, bool wait) {
  const auto found = machine().allocations.find_base(base);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  // Work queued before the free may still use the block; but for pool memory "this API will not perform any implicit
  // synchronization".
  if (wait && found->kind != Kind::Pooled) wait_for_everything();
  if (found->kind == Kind::Graph) return free_graph_memory(base);
  auto block = machine().allocations.take(base);
  if (!block) return CUDA_ERROR_INVALID_VALUE;
  if (block->kind == Kind::Pooled) {
    block->pool->free(base, {});
    block->pool->trim_to_threshold();
    return CUDA_SUCCESS;
  }
  machine().allocations.release(*block);
  return CUDA_SUCCESS;
}

}  // namespace cuheap::sim

using namespace cuheap::sim;

SIMGPU_API CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  SIMGPU_ENTER(Needs::Context);
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  const Context& context = current_context();
  const uint64_t address = machine().allocations.allocate_device(context.device, context.id, bytes);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned int element) {
  SIMGPU_ENTER(Needs::Context);
  if (out == nullptr || pitch == nullptr || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  const Context& context = current_context();
  const size_t row = round_up(width, kPitchAlignment);
  size_t bytes = 0;
  if (row < width || __builtin_mul_overflow(row, height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t address = machine().allocations.allocate_device(context.device, context.id, bytes);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  *pitch = row;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemFree_v2(CUdeviceptr address) {
  SIMGPU_ENTER(Needs::Init);
  if (address == 0) return CUDA_SUCCESS;
  if (const ContextRef context = current_context_or_null())
    if (const CUresult error = sticky(*context); error != CUDA_SUCCESS) return error;
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  const auto block = machine().allocations.find_base(address);
  if (!block || is_pinned(*block) || block->kind == Kind::Imported) return CUDA_ERROR_INVALID_VALUE;
  return free_allocation(address, true);
}

SIMGPU_API CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  SIMGPU_ENTER(Needs::Context);
  const int device = current_context().device;
  if (free != nullptr) *free = machine().free_bytes(device);
  if (total != nullptr) *total = machine().shared.capacity(device);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  SIMGPU_ENTER(Needs::Context);
  if (const auto block = machine().allocations.find(address)) {
    if (base != nullptr) *base = block->base;
    if (size != nullptr) *size = block->size;
    return CUDA_SUCCESS;
  }
  // Mapped memory answers with its whole mapping (what drivers say here varies).
  if (const auto mapping = machine().vmm.mapping_of(address)) {
    if (base != nullptr) *base = mapping->address;
    if (size != nullptr) *size = mapping->bytes;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

SIMGPU_API CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  const Context& context = current_context();
  const uint64_t address = machine().allocations.allocate_host(bytes, Kind::Managed, context.device, context.id, flags);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
  SIMGPU_ENTER(Needs::Context);
  return allocate_pinned(out, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}

SIMGPU_API CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  return allocate_pinned(out, bytes, flags);
}

SIMGPU_API CUresult cuMemFreeHost(void* address) {
  SIMGPU_ENTER(Needs::Init);
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  const auto block = machine().allocations.find_base(reinterpret_cast<uint64_t>(address));
  if (!block || block->kind != Kind::PinnedHost) return CUDA_ERROR_INVALID_VALUE;
  return free_allocation(block->base, true);
}

SIMGPU_API CUresult cuMemHostRegister_v2(void* address, size_t bytes, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  constexpr unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |
                             CU_MEMHOSTREGISTER_READ_ONLY;
  const auto base = reinterpret_cast<uint64_t>(address);
  if (address == nullptr || bytes == 0 || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (machine().memory.is_device_address(base)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  if (machine().allocations.overlaps(base, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  const Context& context = current_context();
  machine().allocations.add({.base = base, .size = bytes, .kind = Kind::RegisteredHost, .device = context.device,
                             .context_id = context.id, .flags = flags});
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemHostUnregister(void* address) {
  SIMGPU_ENTER(Needs::Init);
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  const auto block = machine().allocations.find_base(reinterpret_cast<uint64_t>(address));
  if (!block || block->kind != Kind::RegisteredHost) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  return free_allocation(block->base, true);
}

SIMGPU_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* address, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto block = machine().allocations.find(reinterpret_cast<uint64_t>(address));
  if (!block || !is_pinned(*block)) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<uint64_t>(address);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemHostGetFlags(unsigned int* flags, void* address) {
  SIMGPU_ENTER(Needs::Context);
  const auto block = machine().allocations.find(reinterpret_cast<uint64_t>(address));
  if (flags == nullptr || !block || block->kind != Kind::PinnedHost) return CUDA_ERROR_INVALID_VALUE;
  // Under unified addressing every pinned block is mapped for the device.
  *flags = block->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

// Managed memory is host memory here: hints are checked and accepted, they move nothing.
namespace {

CUresult check_managed(CUdeviceptr address, size_t bytes) {
  const auto block = machine().allocations.find(address);
  const bool inside = block && block->kind == Kind::Managed && bytes > 0 && address + bytes <= block->base + round_up(block->size, 4096);
  return inside ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

SIMGPU_API CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise, CUdevice) {
  SIMGPU_ENTER(Needs::Context);
  return check_managed(address, bytes);
}

SIMGPU_API CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise, CUmemLocation) {
  SIMGPU_ENTER(Needs::Context);
  return check_managed(address, bytes);
}

SIMGPU_API CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  if (const CUresult wrong = check_managed(address, bytes); wrong != CUDA_SUCCESS) return wrong;
  return submit(current_context(), stream, NodeType::Empty, {});
}

SIMGPU_API CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation, unsigned int flags, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult wrong = check_managed(address, bytes); wrong != CUDA_SUCCESS) return wrong;
  return submit(current_context(), stream, NodeType::Empty, {});
}

SIMGPU_API CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t, unsigned int) {
  SIMGPU_ENTER(Needs::Context);
  const auto block = machine().allocations.find(address);
  if (!block || block->kind != Kind::Managed) return CUDA_ERROR_INVALID_VALUE;
  return submit(current_context(), stream, NodeType::Empty, {});
}
