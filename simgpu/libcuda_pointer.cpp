// What an address is.
#include <cstring>

#include "simgpu/libcuda_entry.h"
#include "simgpu/pool.h"

using namespace cuheap::sim;

namespace cuheap::sim {
namespace {

template <class T>
CUresult give(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

bool is_host(const Allocation& block) { return block.kind == Kind::PinnedHost || block.kind == Kind::RegisteredHost; }

CUresult block_attribute(const Allocation& block, CUpointer_attribute attribute, uint64_t address, void* out) {
  const bool legacy_ipc = block.kind == Kind::Device;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
      const ContextRef context = machine().context_by_id(block.context_id);
      return give(out, handle_of(context));
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return give<unsigned>(out, is_host(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return give<CUdeviceptr>(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!is_host(block) && block.kind != Kind::Managed) return CUDA_ERROR_INVALID_VALUE;
      return give(out, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS: return CUDA_ERROR_NOT_SUPPORTED;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return give<unsigned>(out, block.sync_memops ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return give<unsigned long long>(out, block.buffer_id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return give<unsigned>(out, block.kind == Kind::Managed ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return give<int>(out, block.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: return give<unsigned>(out, legacy_ipc ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return give<CUdeviceptr>(out, block.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return give<size_t>(out, block.size);
    case CU_POINTER_ATTRIBUTE_MAPPED: return give<unsigned>(out, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return give<unsigned long long>(out, 0);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return give<unsigned>(out, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return give<unsigned>(out, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return give<const void*>(out, block.pool.get());
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return give<size_t>(out, block.physical != nullptr ? block.physical->size : block.size);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return give<CUdeviceptr>(
          out, block.physical != nullptr && block.kind == Kind::Device ? block.base / kGranule * kGranule : block.base);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return give<unsigned long long>(out, block.physical != nullptr ? block.physical->generation : block.buffer_id);
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return give<unsigned>(out, 0);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult mapping_attribute(const Mapping& mapping, CUpointer_attribute attribute, uint64_t address, void* out) {
  switch (attribute) {
    // Mapped memory belongs to no context.
    case CU_POINTER_ATTRIBUTE_CONTEXT: return give<CUcontext>(out, nullptr);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give<unsigned>(out, mapping.physical->device < 0 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return give<CUdeviceptr>(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: return CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS: case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return CUDA_ERROR_NOT_SUPPORTED;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return give<unsigned long long>(out, (uint64_t{1} << 62) | mapping.physical->generation);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return give<unsigned>(out, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return give<int>(out, std::max(mapping.physical->device, 0));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: return give<unsigned>(out, 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: case CU_POINTER_ATTRIBUTE_RANGE_SIZE: {
      const auto reservation = machine().vmm.reservation_of(address);
      if (!reservation) return CUDA_ERROR_INVALID_VALUE;
      if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) return give<size_t>(out, reservation->second);
      return give<CUdeviceptr>(out, reservation->first);
    }
    case CU_POINTER_ATTRIBUTE_MAPPED: return give<unsigned>(out, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return give<unsigned long long>(out, mapping.physical->shareable);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return give<unsigned>(out, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
      const ContextRef context = current_context_or_null();
      const auto right = context != nullptr ? machine().vmm.access_of(address, context->device) : std::nullopt;
      return give<unsigned>(out, right.value_or(0));
    }
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return give<const void*>(out, nullptr);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return give<size_t>(out, mapping.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return give<CUdeviceptr>(out, mapping.address);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return give<unsigned long long>(out, mapping.physical->generation);
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return give<unsigned>(out, 0);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult attribute_of(uint64_t address, CUpointer_attribute attribute, void* out) {
  if (const auto block = machine().allocations.find(address)) return block_attribute(*block, attribute, address, out);
  if (const auto mapping = machine().vmm.mapping_of(address)) return mapping_attribute(*mapping, attribute, address, out);
  // A reserved address with nothing behind it is known, but not mapped.
  if (machine().vmm.reservation_of(address)) {
    if (attribute == CU_POINTER_ATTRIBUTE_MAPPED) return give<unsigned>(out, 0);
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) return give<CUdeviceptr>(out, machine().vmm.reservation_of(address)->first);
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) return give<size_t>(out, machine().vmm.reservation_of(address)->second);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

size_t bytes_of(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED: case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return 4;
    default: return 8;
  }
}

}  // namespace
}  // namespace cuheap::sim

SIMGPU_API CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  SIMGPU_ENTER(Needs::Init);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The pointer for "kernels running in the current CUcontext": the one attribute that asks for one.
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && current_context_or_null() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return attribute_of(address, attribute, out);
}

SIMGPU_API CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** out, CUdeviceptr address) {
  SIMGPU_ENTER(Needs::Init);
  if (count == 0 || attributes == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT || attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
      return CUDA_ERROR_INVALID_VALUE;
    // "If the pointer was not allocated by, mapped by or registered with CUDA, NULL is returned."
    if (attribute_of(address, attributes[i], out[i]) == CUDA_SUCCESS) continue;
    std::memset(out[i], 0, bytes_of(attributes[i]));
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) give<int>(out[i], CU_DEVICE_INVALID);
  }
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  SIMGPU_ENTER(Needs::Init);
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  const auto block = machine().allocations.find(address);
  if (!block) return machine().vmm.mapping_of(address) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  if (block->kind != Kind::Device) return CUDA_ERROR_INVALID_DEVICE;
  const bool on = *static_cast<const unsigned*>(value) != 0;
  machine().allocations.update(block->base, [&](Allocation& changed) { changed.sync_memops = on; });
  return CUDA_SUCCESS;
}
