// The DeviceAllocator that only forwards: tracing without pooling.
#pragma once
#include "shim/pool/allocator.h"

namespace cuheap {

class DirectAllocator final : public DeviceAllocator {
 public:
  CUresult allocate(const AllocationRequest& request, CUdeviceptr* out, std::uint8_t* event_flags) override;
  CUresult release(const Caller& caller, CUdeviceptr address) override;
  CUresult release_async(const Caller& caller, CUdeviceptr address, CUstream stream) override;
  CUresult memory_info(const Caller& caller, std::size_t* free, std::size_t* total) override;
  CUresult address_range(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) override;
  CUresult pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) override;
  CUresult pointer_attributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) override;
  CUresult set_pointer_attribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) override;
  CUresult ipc_handle(CUipcMemHandle* handle, CUdeviceptr address) override;
  CUresult range_handle(void* handle, CUdeviceptr address, std::size_t size, CUmemRangeHandleType type,
                        unsigned long long flags) override;
};

extern constinit DirectAllocator direct_allocator;

}  // namespace cuheap
