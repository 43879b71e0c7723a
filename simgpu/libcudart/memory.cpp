// Allocation in all its forms, what a pointer is, and memory that is shared with other processes.
#include <cstring>

#include "runtime.h"

namespace cuheap::sim::runtime {
namespace {

CUdeviceptr* out(void** pointer) {
  return reinterpret_cast<CUdeviceptr*>(pointer);
}

// cudaFree(NULL) is the customary way to start the runtime: success, and a context.
CUresult free_device(void* pointer) {
  return pointer == nullptr ? CUDA_SUCCESS : driver().cuMemFree_(address(pointer));
}

CUresult allocate_pitched(void** pointer, size_t* pitch, size_t width, size_t height) {
  if (width == 0 || height == 0) {
    *pointer = nullptr;
    *pitch = 0;
    return CUDA_SUCCESS;
  }
  return driver().cuMemAllocPitch_(out(pointer), pitch, width, height, 4);
}

CUmemLocation driver_location(const cudaMemLocation& location) {
  CUmemLocation result{};
  result.type = static_cast<CUmemLocationType>(location.type);
  result.id = location.id;
  return result;
}

// The older form names a device, or -1 for the host.
[[maybe_unused]] CUmemLocation location_of_device(int device) {
  CUmemLocation result{};
  result.type = device == cudaCpuDeviceId ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  result.id = device == cudaCpuDeviceId ? 0 : device;
  return result;
}

}  // namespace

CUDART_EXPORT cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  if (pointer == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    *pointer = nullptr;
    if (bytes == 0) return CUDA_SUCCESS;  // the driver would refuse; the runtime answers success and NULL
    return driver().cuMemAlloc_(out(pointer), bytes);
  });
}

CUDART_EXPORT cudaError_t cudaFree(void* pointer) {
  return with_context([&] { return free_device(pointer); });
}

CUDART_EXPORT cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  if (pointer == nullptr || pitch == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] { return allocate_pitched(pointer, pitch, width, height); });
}

CUDART_EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* result, cudaExtent extent) {
  if (result == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    result->xsize = extent.width;
    result->ysize = extent.height;
    return allocate_pitched(&result->ptr, &result->pitch, extent.width, extent.height * extent.depth);
  });
}

CUDART_EXPORT cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  if (pointer == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    *pointer = nullptr;
    if (bytes == 0) return CUDA_SUCCESS;
    return driver().cuMemHostAlloc_(pointer, bytes, flags);
  });
}

CUDART_EXPORT cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, 0);
}

CUDART_EXPORT cudaError_t cudaFreeHost(void* pointer) {
  return with_context([&] { return pointer == nullptr ? CUDA_SUCCESS : driver().cuMemFreeHost_(pointer); });
}

CUDART_EXPORT cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  return with_context([&] { return driver().cuMemHostRegister_(pointer, bytes, flags); });
}

CUDART_EXPORT cudaError_t cudaHostUnregister(void* pointer) {
  return with_context([&] { return driver().cuMemHostUnregister_(pointer); });
}

CUDART_EXPORT cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int flags) {
  if (device == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] { return driver().cuMemHostGetDevicePointer_(out(device), host, flags); });
}

CUDART_EXPORT cudaError_t cudaHostGetFlags(unsigned int* flags, void* host) {
  if (flags == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] { return driver().cuMemHostGetFlags_(flags, host); });
}

CUDART_EXPORT cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned int flags) {
  if (pointer == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] { return driver().cuMemAllocManaged_(out(pointer), bytes, flags); });
}

CUDART_EXPORT cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return with_context([&] {
    size_t ignored = 0;
    return driver().cuMemGetInfo_(free == nullptr ? &ignored : free, total == nullptr ? &ignored : total);
  });
}

// Stream-ordered allocation and its pools.

CUDART_WITH_TWIN(cudaMallocAsync, _ptsz, (void** pointer, size_t bytes, cudaStream_t stream),
                 (pointer, bytes, stream)) {
  if (pointer == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    *pointer = nullptr;
    if (bytes == 0) return CUDA_SUCCESS;
    return driver.cuMemAllocAsync_(out(pointer), bytes, stream);
  });
}

CUDART_WITH_TWIN(cudaFreeAsync, _ptsz, (void* pointer, cudaStream_t stream), (pointer, stream)) {
  return with_context([&] { return driver.cuMemFreeAsync_(address(pointer), stream); });
}

CUDART_WITH_TWIN(cudaMallocFromPoolAsync, _ptsz,
                 (void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                 (pointer, bytes, pool, stream)) {
  if (pointer == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    *pointer = nullptr;
    if (bytes == 0) return CUDA_SUCCESS;
    return driver.cuMemAllocFromPoolAsync_(out(pointer), bytes, pool, stream);
  });
}

CUDART_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* props) {
  static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
  return with_context([&] { return driver().cuMemPoolCreate_(pool, reinterpret_cast<const CUmemPoolProps*>(props)); });
}

CUDART_EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return with_context([&] { return driver().cuMemPoolDestroy_(pool); });
}

CUDART_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  return with_context([&] { return driver().cuMemPoolTrimTo_(pool, keep); });
}

CUDART_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attr, void* value) {
  return with_context(
      [&] { return driver().cuMemPoolSetAttribute_(pool, static_cast<CUmemPool_attribute>(attr), value); });
}

CUDART_EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attr, void* value) {
  return with_context(
      [&] { return driver().cuMemPoolGetAttribute_(pool, static_cast<CUmemPool_attribute>(attr), value); });
}

CUDART_EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t count) {
  static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
  return with_context(
      [&] { return driver().cuMemPoolSetAccess_(pool, reinterpret_cast<const CUmemAccessDesc*>(access), count); });
}

CUDART_EXPORT cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                               cudaMemLocation* location) {
  if (flags == nullptr || location == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUmemLocation where = driver_location(*location);
    return driver().cuMemPoolGetAccess_(reinterpret_cast<CUmemAccess_flags*>(flags), pool, &where);
  });
}

CUDART_EXPORT cudaError_t cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool,
                                                             cudaMemAllocationHandleType type, unsigned int flags) {
  return with_context([&] {
    return driver().cuMemPoolExportToShareableHandle_(handle, pool, static_cast<CUmemAllocationHandleType>(type),
                                                      flags);
  });
}

CUDART_EXPORT cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* handle,
                                                               cudaMemAllocationHandleType type, unsigned int flags) {
  return with_context([&] {
    return driver().cuMemPoolImportFromShareableHandle_(pool, handle, static_cast<CUmemAllocationHandleType>(type),
                                                        flags);
  });
}

CUDART_EXPORT cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* data, void* pointer) {
  return with_context([&] {
    return driver().cuMemPoolExportPointer_(reinterpret_cast<CUmemPoolPtrExportData*>(data), address(pointer));
  });
}

CUDART_EXPORT cudaError_t cudaMemPoolImportPointer(void** pointer, cudaMemPool_t pool, cudaMemPoolPtrExportData* data) {
  return with_context([&] {
    return driver().cuMemPoolImportPointer_(out(pointer), pool, reinterpret_cast<CUmemPoolPtrExportData*>(data));
  });
}

CUDART_EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return with_driver([&] { return driver().cuDeviceGetDefaultMemPool_(pool, device); });
}

CUDART_EXPORT cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return with_driver([&] { return driver().cuDeviceSetMemPool_(device, pool); });
}

CUDART_EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return with_driver([&] { return driver().cuDeviceGetMemPool_(pool, device); });
}

// Managed memory's advice.

namespace {

cudaError_t advise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, CUmemLocation location) {
  return with_context(
      [&] { return driver().cuMemAdvise_(address(pointer), bytes, static_cast<CUmem_advise>(advice), location); });
}

cudaError_t prefetch(const Driver& driver, const void* pointer, size_t bytes, CUmemLocation location,
                     unsigned int flags, cudaStream_t stream) {
  return with_context([&] { return driver.cuMemPrefetchAsync_(address(pointer), bytes, location, flags, stream); });
}

}  // namespace

#if CUDART_VERSION >= 13000
CUDART_EXPORT cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                                        cudaMemLocation location) {
  return advise(pointer, bytes, advice, driver_location(location));
}

CUDART_WITH_TWIN(cudaMemPrefetchAsync, _ptsz,
                 (const void* pointer, size_t bytes, cudaMemLocation location, unsigned int flags, cudaStream_t stream),
                 (pointer, bytes, location, flags, stream)) {
  return prefetch(driver, pointer, bytes, driver_location(location), flags, stream);
}
#else
CUDART_EXPORT cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, int device) {
  return advise(pointer, bytes, advice, location_of_device(device));
}

CUDART_EXPORT cudaError_t cudaMemAdvise_v2(const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                                           cudaMemLocation location) {
  return advise(pointer, bytes, advice, driver_location(location));
}

CUDART_WITH_TWIN(cudaMemPrefetchAsync, _ptsz, (const void* pointer, size_t bytes, int device, cudaStream_t stream),
                 (pointer, bytes, device, stream)) {
  return prefetch(driver, pointer, bytes, location_of_device(device), 0, stream);
}

CUDART_WITH_TWIN(cudaMemPrefetchAsync_v2, _ptsz,
                 (const void* pointer, size_t bytes, cudaMemLocation location, unsigned int flags, cudaStream_t stream),
                 (pointer, bytes, location, flags, stream)) {
  return prefetch(driver, pointer, bytes, driver_location(location), flags, stream);
}
#endif

CUDART_EXPORT cudaError_t cudaMemRangeGetAttribute(void* data, size_t size, cudaMemRangeAttribute attr,
                                                   const void* pointer, size_t bytes) {
  return with_context([&] {
    return driver().cuMemRangeGetAttribute_(data, size, static_cast<CUmem_range_attribute>(attr), address(pointer),
                                            bytes);
  });
}

CUDART_EXPORT cudaError_t cudaMemRangeGetAttributes(void** data, size_t* sizes, cudaMemRangeAttribute* attrs,
                                                    size_t count, const void* pointer, size_t bytes) {
  return with_context([&] {
    return driver().cuMemRangeGetAttributes_(data, sizes, reinterpret_cast<CUmem_range_attribute*>(attrs), count,
                                             address(pointer), bytes);
  });
}

// What a pointer is. Memory the driver does not know is ordinary host memory: success and type 0.

namespace {

struct PointerFacts {
  unsigned int memory_type = 0;
  unsigned int is_managed = 0;
  int device = 0;
  CUdeviceptr device_pointer = 0;
  void* host_pointer = nullptr;
};

PointerFacts pointer_facts(const void* pointer) {
  PointerFacts facts;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&facts.memory_type, &facts.is_managed, &facts.device, &facts.device_pointer, &facts.host_pointer};
  driver().cuPointerGetAttributes_(5, which, values, address(pointer));  // success for unknown memory, with zeros
  return facts;
}

cudaMemoryType memory_type(const PointerFacts& facts) {
  if (facts.is_managed != 0) return cudaMemoryTypeManaged;
  if (facts.memory_type == CU_MEMORYTYPE_DEVICE) return cudaMemoryTypeDevice;
  if (facts.memory_type == CU_MEMORYTYPE_HOST) return cudaMemoryTypeHost;
  return cudaMemoryTypeUnregistered;
}

}  // namespace

CUDART_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (attributes == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    const PointerFacts facts = pointer_facts(pointer);
    std::memset(attributes, 0, sizeof *attributes);
    attributes->type = memory_type(facts);
    if (attributes->type == cudaMemoryTypeUnregistered) {
      attributes->device = cudaInvalidDeviceId;
      attributes->hostPointer = const_cast<void*>(pointer);
      return CUDA_SUCCESS;
    }
    attributes->device = facts.device;
    attributes->devicePointer = reinterpret_cast<void*>(facts.device_pointer);
    attributes->hostPointer = attributes->type == cudaMemoryTypeDevice ? nullptr : facts.host_pointer;
    return CUDA_SUCCESS;
  });
}

// Sharing with other processes. The handles have one layout in both APIs.

CUDART_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle));
  if (handle == nullptr) return remember(cudaErrorInvalidValue);
  return with_context(
      [&] { return driver().cuIpcGetMemHandle_(reinterpret_cast<CUipcMemHandle*>(handle), address(pointer)); });
}

CUDART_EXPORT cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned int flags) {
  if (pointer == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUipcMemHandle driver_handle;
    std::memcpy(&driver_handle, &handle, sizeof driver_handle);
    return driver().cuIpcOpenMemHandle_(out(pointer), driver_handle, flags);
  });
}

CUDART_EXPORT cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  return with_context([&] { return driver().cuIpcCloseMemHandle_(address(pointer)); });
}

CUDART_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle));
  if (handle == nullptr) return remember(cudaErrorInvalidValue);
  return with_context(
      [&] { return driver().cuIpcGetEventHandle_(reinterpret_cast<CUipcEventHandle*>(handle), event); });
}

CUDART_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  if (event == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUipcEventHandle driver_handle;
    std::memcpy(&driver_handle, &handle, sizeof driver_handle);
    return driver().cuIpcOpenEventHandle_(event, driver_handle);
  });
}

}  // namespace cuheap::sim::runtime
