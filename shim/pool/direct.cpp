#include "shim/pool/direct.h"

#include "shim/driver/driver.h"

namespace cuheap {

constinit DirectAllocator direct_allocator;

CUresult DirectAllocator::allocate(const AllocationRequest& request, CUdeviceptr* out, std::uint8_t*) {
  return driver().cuMemAlloc_v2(out, request.bytes);
}

CUresult DirectAllocator::release(const Caller&, CUdeviceptr address) { return driver().cuMemFree_v2(address); }

CUresult DirectAllocator::release_async(const Caller&, CUdeviceptr address, CUstream stream) {
  return driver().cuMemFreeAsync(address, stream);
}

CUresult DirectAllocator::memory_info(const Caller&, std::size_t* free, std::size_t* total) {
  return driver().cuMemGetInfo_v2(free, total);
}

CUresult DirectAllocator::address_range(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) {
  return driver().cuMemGetAddressRange_v2(base, size, address);
}

CUresult DirectAllocator::pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  return driver().cuPointerGetAttribute(data, attribute, address);
}

CUresult DirectAllocator::pointer_attributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                             CUdeviceptr address) {
  return driver().cuPointerGetAttributes(count, attributes, data, address);
}

CUresult DirectAllocator::set_pointer_attribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return driver().cuPointerSetAttribute(value, attribute, address);
}

CUresult DirectAllocator::ipc_handle(CUipcMemHandle* handle, CUdeviceptr address) {
  return driver().cuIpcGetMemHandle(handle, address);
}

CUresult DirectAllocator::range_handle(void* handle, CUdeviceptr address, std::size_t size, CUmemRangeHandleType type,
                                       unsigned long long flags) {
  return driver().cuMemGetHandleForAddressRange(handle, address, size, type, flags);
}

}  // namespace cuheap
