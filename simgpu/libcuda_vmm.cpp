// Virtual memory management. Property checks follow the text of the cuMem* calls; a fabric handle and multicast are refused.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "simgpu/libcuda_entry.h"

namespace cuheap::sim {
namespace {

constexpr unsigned kDefinedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_WIN32 |
                                         CU_MEM_HANDLE_TYPE_WIN32_KMT | CU_MEM_HANDLE_TYPE_FABRIC;
// In the physical memory's flags.
constexpr unsigned kFlagRdma = 1;
constexpr unsigned kFlagCompression = 2;

bool is_host(CUmemLocationType type) { return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA; }

CUresult check_properties(const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if ((properties->requestedHandleTypes & ~kDefinedHandleTypes) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  // "HOST allocations are not IPC capable and requestedHandleTypes must be 0"
  if (properties->location.type == CU_MEM_LOCATION_TYPE_HOST && properties->requestedHandleTypes != 0) return CUDA_ERROR_INVALID_VALUE;
  if (is_host(properties->location.type)) return CUDA_SUCCESS;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  return valid_device(properties->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUmemGenericAllocationHandle handle_of(Physical* physical) { return reinterpret_cast<CUmemGenericAllocationHandle>(physical); }
const void* key(CUmemGenericAllocationHandle handle) { return reinterpret_cast<const void*>(handle); }

bool is_granular(uint64_t value) { return value % kGranule == 0; }
constexpr uint64_t kHostPage = 4096;

// An exported descriptor says what it is by the name of its file: it may travel through any socket.
bool read_descriptor(int fd, int& device, uint64_t& bytes) {
  char link[64], target[256];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = ::readlink(link, target, sizeof target - 1);
  if (n <= 0) return false;
  target[n] = 0;
  unsigned long long size = 0;
  const char* at = std::strstr(target, "simgpu-shared:");
  if (at == nullptr || std::sscanf(at, "simgpu-shared:%d:%llu", &device, &size) != 2) return false;
  bytes = size;
  return true;
}

}  // namespace
}  // namespace cuheap::sim

using namespace cuheap::sim;

SIMGPU_API CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags) {
  SIMGPU_ENTER(Needs::Init);
  if (out == nullptr || bytes == 0 || bytes % kHostPage != 0 || hint % kHostPage != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (alignment != 0 && (alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t address = machine().vmm.reserve(bytes, alignment, hint);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  SIMGPU_ENTER(Needs::Init);
  return machine().vmm.unreserve(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* properties,
                                unsigned long long flags) {
  SIMGPU_ENTER(Needs::Init);
  if (out == nullptr || bytes == 0 || !is_granular(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult wrong = check_properties(properties); wrong != CUDA_SUCCESS) return wrong;
  // Not among the calls that capture forbids: PyTorch's expandable segments grow while a graph is captured.
  const int device = is_host(properties->location.type) ? -1 : properties->location.id;
  PhysicalRef physical = machine().memory.new_physical(device, bytes);
  if (physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  physical->shareable = properties->requestedHandleTypes;
  physical->flags = (properties->allocFlags.gpuDirectRDMACapable != 0 ? kFlagRdma : 0u) |
                    (properties->allocFlags.compressionType != 0 ? kFlagCompression : 0u);
  *out = handle_of(machine().vmm.add_handle(std::move(physical)));
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  SIMGPU_ENTER(Needs::Init);
  return machine().vmm.release_handle(key(handle)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                             unsigned long long flags) {
  SIMGPU_ENTER(Needs::Init);
  if (bytes == 0 || !is_granular(bytes) || !is_granular(address) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (offset != 0) return CUDA_ERROR_INVALID_VALUE;  // "currently must be zero"
  PhysicalRef physical = machine().vmm.find_handle(key(handle));
  if (physical == nullptr || bytes > physical->size) return CUDA_ERROR_INVALID_VALUE;
  return machine().vmm.map(address, bytes, offset, std::move(physical)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  SIMGPU_ENTER(Needs::Init);
  return machine().vmm.unmap(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* descriptions, size_t count) {
  SIMGPU_ENTER(Needs::Init);
  if (descriptions == nullptr || count == 0 || bytes == 0 || !is_granular(address) || !is_granular(bytes)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& d = descriptions[i];
    const bool right = d.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || d.flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                       d.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (!right) return CUDA_ERROR_INVALID_VALUE;
    if (is_host(d.location.type)) continue;
    if (d.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(d.location.id)) return CUDA_ERROR_INVALID_DEVICE;
  }
  for (size_t i = 0; i < count; ++i) {
    if (is_host(descriptions[i].location.type)) continue;
    if (!machine().vmm.set_access(address, bytes, descriptions[i].location.id, descriptions[i].flags)) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  SIMGPU_ENTER(Needs::Init);
  if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  const auto right = machine().vmm.access_of(address, location->id);
  if (!right) return CUDA_ERROR_INVALID_VALUE;
  *flags = *right;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                                  CUmemAllocationGranularity_flags option) {
  SIMGPU_ENTER(Needs::Init);
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult wrong = check_properties(properties); wrong != CUDA_SUCCESS) return wrong;
  *bytes = kGranule;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  SIMGPU_ENTER(Needs::Init);
  const PhysicalRef physical = machine().vmm.find_handle(key(handle));
  if (properties == nullptr || physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *properties = {};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->requestedHandleTypes = static_cast<CUmemAllocationHandleType>(physical->shareable);
  properties->location.type = physical->device < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = std::max(physical->device, 0);
  properties->allocFlags.gpuDirectRDMACapable = (physical->flags & kFlagRdma) != 0;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  SIMGPU_ENTER(Needs::Init);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto mapping = machine().vmm.mapping_of(reinterpret_cast<uint64_t>(address));
  if (!mapping || !machine().vmm.retain_handle(mapping->physical.get())) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(mapping->physical.get());
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                                 unsigned long long flags) {
  SIMGPU_ENTER(Needs::Init);
  const PhysicalRef physical = machine().vmm.find_handle(key(handle));
  if (out == nullptr || physical == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) return CUDA_ERROR_NOT_SUPPORTED;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || (physical->shareable & type) == 0) return CUDA_ERROR_INVALID_VALUE;
  const int fd = machine().memory.own_file(*physical);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(out) = fd;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* os_handle, CUmemAllocationHandleType type) {
  SIMGPU_ENTER(Needs::Init);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
  int device = 0;
  uint64_t bytes = 0;
  if (!read_descriptor(fd, device, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (device >= 0 && !valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  PhysicalRef physical = machine().memory.import_physical(fd, 0, device, bytes);
  if (physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  physical->shareable = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  *out = handle_of(machine().vmm.add_handle(std::move(physical)));
  return CUDA_SUCCESS;
}

// No dma-buf here; the attribute says so.
SIMGPU_API CUresult cuMemGetHandleForAddressRange(void*, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long) {
  SIMGPU_ENTER(Needs::Init);
  return CUDA_ERROR_NOT_SUPPORTED;
}
