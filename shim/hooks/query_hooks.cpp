// Questions about memory: the allocator answers for its own addresses, the driver for all others.
#include "shim/driver/driver.h"
#include "shim/hooks/accounting.h"

using namespace cuheap;

CUHEAP_EXPORT CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  const Caller caller = is_armed() ? current_caller() : Caller{};
  const CUresult result = allocator().memory_info(caller, free, total);
  note_memory_info(caller, result, free, total);
  return result;
}

CUHEAP_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  return allocator().address_range(base, size, address);
}

CUHEAP_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  return allocator().pointer_attribute(data, attribute, address);
}

CUHEAP_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) {
  return allocator().pointer_attributes(count, attributes, data, address);
}

CUHEAP_EXPORT CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return allocator().set_pointer_attribute(value, attribute, address);
}

CUHEAP_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  return allocator().ipc_handle(handle, address);
}

CUHEAP_EXPORT CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t size, CUmemRangeHandleType type,
                                                     unsigned long long flags) {
  return allocator().range_handle(handle, address, size, type, flags);
}
