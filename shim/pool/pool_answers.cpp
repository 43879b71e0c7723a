// What the pool says of its memory when it is asked: as plain memory would answer, or as the driver does.
#include "shim/pool/pool.h"

#include "shim/pool/pool_messages.h"
#include "tracer/base/hook_scope.h"
#include "tracer/base/process.h"

namespace cuheap {
namespace {

/// Attributes whose answer lets the asker keep hold of the physical memory beyond the block's life.
bool exposes(CUpointer_attribute attribute) {
  return attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID || attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS ||
         attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
}

/// The driver was asked about mapped memory. False: it would have answered so for plain memory, too (no context, one that has
/// ended or failed, a driver that is gone), and the host gets to hear it.
bool is_about_memory(CUresult asked) {
  return asked == CUDA_SUCCESS || asked == CUDA_ERROR_NOT_FOUND || asked == CUDA_ERROR_INVALID_VALUE ||
         asked == CUDA_ERROR_NOT_SUPPORTED;
}

/// What the driver cannot know of a pooled block: it answers for the whole reservation, or for no context.
bool answer(const PoolBlock& block, CUpointer_attribute attribute, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = reinterpret_cast<CUcontext>(block.context);
      return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = block.buffer_id;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = block.address;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(data) = block.bytes;
      return true;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      *static_cast<unsigned*>(data) = block.sync_memops ? 1 : 0;
      return true;
    default:
      return false;  // MAPPING_*, MEMORY_BLOCK_ID, ALLOWED_HANDLE_TYPES, IS_LEGACY_CUDA_IPC_CAPABLE (0): the driver knows
  }
}

}  // namespace

CUresult Pool::memory_info(const Caller& caller, std::size_t* free, std::size_t* total) {
  Device* device = process::is_owner() && !process::is_exiting() ? armed(caller.device) : nullptr;
  std::uint64_t idle = 0;
  if (device != nullptr && free != nullptr && total != nullptr) {
    const HookScope scope;
    if (scope) {
      device->pool->settle(Waiting::Native);
      idle = device->pool->idle_bytes();
    }
  }
  const CUresult result = shared_.driver->cuMemGetInfo_v2(free, total);
  if (result == CUDA_SUCCESS && idle != 0) *free = *total - *free < idle ? *total : *free + idle;
  return result;
}

bool Pool::find_block(CUdeviceptr address, PoolBlock* out, bool* is_ours) {
  Segment* segment = shared_.segments.find(address);
  *is_ours = segment != nullptr && !is_dead_.load(std::memory_order_relaxed) && process::is_owner();
  if (!*is_ours) return false;
  const HookScope scope;
  if (!scope) {
    *is_ours = false;
    return false;
  }
  return devices_[segment->device].pool->find(segment, address, out);
}

template <class Change>
bool Pool::change_block(CUdeviceptr address, Change change) {
  Segment* segment = shared_.segments.find(address);
  if (segment == nullptr || !process::is_owner()) return false;
  const HookScope scope;
  return scope && devices_[segment->device].pool->change(segment, address, change);
}

bool Pool::expose_block(CUdeviceptr address) {
  return change_block(address, [](PoolBlock& block) { block.exposed = true; });
}

CUresult Pool::address_range(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) {
  PoolBlock block;
  bool is_ours = false;
  const bool found = find_block(address, &block, &is_ours);
  if (!is_ours || (base == nullptr && size == nullptr)) return shared_.driver->cuMemGetAddressRange_v2(base, size, address);
  CUdeviceptr mapped = 0;
  std::size_t bytes = 0;
  const CUresult asked = shared_.driver->cuMemGetAddressRange_v2(&mapped, &bytes, found ? address : unmapped(address));
  if (!found || !is_about_memory(asked)) return asked;  // unknown, as after a native free
  if (base != nullptr) *base = block.address;
  if (size != nullptr) *size = block.bytes;
  return CUDA_SUCCESS;
}

CUresult Pool::pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  PoolBlock block;
  bool is_ours = false;
  const bool found = find_block(address, &block, &is_ours);
  if (found && exposes(attribute)) expose_block(address);
  const CUresult asked = shared_.driver->cuPointerGetAttribute(data, attribute, is_ours && !found ? unmapped(address) : address);
  if (!found || data == nullptr || !is_about_memory(asked)) return asked;
  return answer(block, attribute, data) ? CUDA_SUCCESS : asked;
}

CUresult Pool::pointer_attributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) {
  PoolBlock block;
  bool is_ours = false;
  const bool found = find_block(address, &block, &is_ours);
  if (is_ours && !found) {
    // The answers for a pointer that means nothing: the driver gives them for any it does not know, such as one of ours.
    return shared_.driver->cuPointerGetAttributes(count, attributes, data, number_of(&block));
  }
  const CUresult result = shared_.driver->cuPointerGetAttributes(count, attributes, data, address);
  if (result != CUDA_SUCCESS || !found) return result;
  for (unsigned i = 0; i < count; ++i) {
    if (exposes(attributes[i])) expose_block(address);
    if (data[i] != nullptr) answer(block, attributes[i], data[i]);
  }
  return result;
}

CUresult Pool::set_pointer_attribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  PoolBlock block;
  bool is_ours = false;
  const bool found = find_block(address, &block, &is_ours);
  const CUdeviceptr asked_of = is_ours && !found ? unmapped(address) : address;
  const CUresult result = shared_.driver->cuPointerSetAttribute(value, attribute, asked_of);
  if (!found || !is_about_memory(result)) return result;
  if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || value == nullptr) return result;
  // Drivers refuse it for mapped memory. Whoever asks is about to let a device of others reach the memory.
  unsigned wanted = 0;
  __builtin_memcpy(&wanted, value, sizeof wanted);
  change_block(address, [&](PoolBlock& changed) {
    changed.exposed = true;
    changed.sync_memops = wanted != 0;
  });
  if (result != CUDA_SUCCESS && wanted != 0) message::pool_sync_memops_asked();
  return CUDA_SUCCESS;
}

CUresult Pool::ipc_handle(CUipcMemHandle* handle, CUdeviceptr address) {
  if (expose_block(address)) message::pool_ipc_asked();
  return shared_.driver->cuIpcGetMemHandle(handle, address);
}

CUresult Pool::range_handle(void* handle, CUdeviceptr address, std::size_t size, CUmemRangeHandleType type,
                            unsigned long long flags) {
  expose_block(address);
  return shared_.driver->cuMemGetHandleForAddressRange(handle, address, size, type, flags);
}

CUdeviceptr Pool::unmapped(CUdeviceptr address) {
  static constinit char nobodys = 0;
  const bool is_ours = address != 0 && shared_.segments.find(address) != nullptr && process::is_owner();
  return is_ours ? number_of(&nobodys) : address;
}

}  // namespace cuheap
