#include "shim/pool/direct.h"

#include "shim/driver/driver.h"

namespace cuheap {
namespace {

class DirectAllocator final : public DeviceAllocator {
 public:
  CUresult allocate(const AllocationRequest& request, CUdeviceptr* out, std::uint8_t*) override {
    return driver().cuMemAlloc_v2(out, request.bytes);
  }
  CUresult release(const Caller&, CUdeviceptr address) override { return driver().cuMemFree_v2(address); }
  CUresult release_async(const Caller&, CUdeviceptr address, CUstream stream) override {
    return driver().cuMemFreeAsync(address, stream);
  }
  CUresult memory_info(const Caller&, std::size_t* free, std::size_t* total) override {
    return driver().cuMemGetInfo_v2(free, total);
  }
  CUresult address_range(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) override {
    return driver().cuMemGetAddressRange_v2(base, size, address);
  }
  CUresult pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) override {
    return driver().cuPointerGetAttribute(data, attribute, address);
  }
  CUresult pointer_attributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) override {
    return driver().cuPointerGetAttributes(count, attributes, data, address);
  }
  CUresult set_pointer_attribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) override {
    return driver().cuPointerSetAttribute(value, attribute, address);
  }
  CUresult ipc_handle(CUipcMemHandle* handle, CUdeviceptr address) override {
    return driver().cuIpcGetMemHandle(handle, address);
  }
  CUresult range_handle(void* handle, CUdeviceptr address, std::size_t size, CUmemRangeHandleType type,
                        unsigned long long flags) override {
    return driver().cuMemGetHandleForAddressRange(handle, address, size, type, flags);
  }
  CUresult retain_handle(CUmemGenericAllocationHandle* handle, void* address) override {
    return driver().cuMemRetainAllocationHandle(handle, address);
  }
};

constinit DirectAllocator direct;

}  // namespace

DeviceAllocator& direct_allocator() { return direct; }

}  // namespace cuheap
