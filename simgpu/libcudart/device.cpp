// Devices: choice, properties, limits, peers, versions, the profiler's switch.
#include <cstdio>
#include <cstring>

#include "runtime.h"

namespace cuheap::sim::runtime {
namespace {

CUresult attribute(int& value, CUdevice_attribute which, CUdevice device) {
  const CUresult result = driver().cuDeviceGetAttribute_(&value, which, device);
  if (result != CUDA_SUCCESS) value = 0;  // a device without the attribute reports 0
  return result;
}

template <typename Field>
void set(Field& field, CUdevice_attribute which, CUdevice device) {
  int value = 0;
  attribute(value, which, device);
  field = static_cast<Field>(value);
}

void fill_limits(cudaDeviceProp& prop, CUdevice device) {
  set(prop.sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device);
  set(prop.regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, device);
  set(prop.warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
  set(prop.memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH, device);
  set(prop.maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
  set(prop.maxThreadsDim[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, device);
  set(prop.maxThreadsDim[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, device);
  set(prop.maxThreadsDim[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, device);
  set(prop.maxGridSize[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, device);
  set(prop.maxGridSize[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, device);
  set(prop.maxGridSize[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, device);
  set(prop.totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, device);
  set(prop.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  set(prop.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  set(prop.multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  set(prop.maxThreadsPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);
  set(prop.sharedMemPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device);
  set(prop.regsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, device);
  set(prop.sharedMemPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
  set(prop.maxBlocksPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, device);
  set(prop.reservedSharedMemPerBlock, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, device);
}

void fill_textures(cudaDeviceProp& prop, CUdevice device) {
  set(prop.textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, device);
  set(prop.texturePitchAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, device);
  set(prop.surfaceAlignment, CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, device);
  set(prop.maxTexture1D, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, device);
  set(prop.maxTexture1DMipmap, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, device);
  set(prop.maxTexture2D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, device);
  set(prop.maxTexture2D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, device);
  set(prop.maxTexture2DMipmap[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, device);
  set(prop.maxTexture2DMipmap[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, device);
  set(prop.maxTexture2DLinear[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, device);
  set(prop.maxTexture2DLinear[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, device);
  set(prop.maxTexture2DLinear[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, device);
  set(prop.maxTexture2DGather[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH, device);
  set(prop.maxTexture2DGather[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, device);
  set(prop.maxTexture3D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, device);
  set(prop.maxTexture3D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, device);
  set(prop.maxTexture3D[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, device);
  set(prop.maxTexture3DAlt[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, device);
  set(prop.maxTexture3DAlt[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE, device);
  set(prop.maxTexture3DAlt[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE, device);
  set(prop.maxTextureCubemap, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, device);
  set(prop.maxTexture1DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, device);
  set(prop.maxTexture1DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, device);
  set(prop.maxTexture2DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, device);
  set(prop.maxTexture2DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, device);
  set(prop.maxTexture2DLayered[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, device);
  set(prop.maxTextureCubemapLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, device);
  set(prop.maxTextureCubemapLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, device);
  set(prop.maxSurface1D, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, device);
  set(prop.maxSurface2D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, device);
  set(prop.maxSurface2D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, device);
  set(prop.maxSurface3D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, device);
  set(prop.maxSurface3D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT, device);
  set(prop.maxSurface3D[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH, device);
  set(prop.maxSurface1DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH, device);
  set(prop.maxSurface1DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS, device);
  set(prop.maxSurface2DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH, device);
  set(prop.maxSurface2DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT, device);
  set(prop.maxSurface2DLayered[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS, device);
  set(prop.maxSurfaceCubemap, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH, device);
  set(prop.maxSurfaceCubemapLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, device);
  set(prop.maxSurfaceCubemapLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, device);
}

void fill_abilities(cudaDeviceProp& prop, CUdevice device) {
  set(prop.integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, device);
  set(prop.canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, device);
  set(prop.concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, device);
  set(prop.ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED, device);
  set(prop.pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device);
  set(prop.pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device);
  set(prop.pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device);
  set(prop.tccDriver, CU_DEVICE_ATTRIBUTE_TCC_DRIVER, device);
  set(prop.asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, device);
  set(prop.unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device);
  set(prop.memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device);
  set(prop.l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);
  set(prop.persistingL2CacheMaxSize, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, device);
  set(prop.streamPrioritiesSupported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, device);
  set(prop.globalL1CacheSupported, CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, device);
  set(prop.localL1CacheSupported, CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, device);
  set(prop.managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device);
  set(prop.isMultiGpuBoard, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, device);
  set(prop.multiGpuBoardGroupID, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID, device);
  set(prop.hostNativeAtomicSupported, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, device);
  set(prop.pageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device);
  set(prop.concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device);
  set(prop.computePreemptionSupported, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, device);
  set(prop.canUseHostPointerForRegisteredMem, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, device);
  set(prop.cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, device);
  set(prop.pageableMemoryAccessUsesHostPageTables, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
      device);
  set(prop.directManagedMemAccessFromHost, CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, device);
  set(prop.accessPolicyMaxWindowSize, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, device);
  set(prop.hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, device);
  set(prop.sparseCudaArraySupported, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, device);
  set(prop.hostRegisterReadOnlySupported, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, device);
  set(prop.timelineSemaphoreInteropSupported, CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, device);
  set(prop.memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device);
  set(prop.gpuDirectRDMASupported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, device);
  set(prop.gpuDirectRDMAFlushWritesOptions, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, device);
  set(prop.gpuDirectRDMAWritesOrdering, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, device);
  set(prop.memoryPoolSupportedHandleTypes, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, device);
  set(prop.deferredMappingCudaArraySupported, CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, device);
  set(prop.ipcEventSupported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, device);
  set(prop.clusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, device);
  set(prop.unifiedFunctionPointers, CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, device);
}

// The fields that came or went with CUDA 13.
void fill_by_release(cudaDeviceProp& prop, CUdevice device) {
#if CUDART_VERSION >= 13000
  set(prop.deviceNumaConfig, CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, device);
  set(prop.deviceNumaId, CU_DEVICE_ATTRIBUTE_NUMA_ID, device);
  set(prop.mpsEnabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device);
  set(prop.hostNumaId, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device);
  set(prop.gpuPciDeviceID, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID, device);
  set(prop.gpuPciSubsystemID, CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID, device);
  set(prop.hostNumaMultinodeIpcSupported, CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED, device);
#else
  set(prop.clockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device);
  set(prop.deviceOverlap, CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, device);
  set(prop.kernelExecTimeoutEnabled, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, device);
  set(prop.computeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device);
  set(prop.maxTexture1DLinear, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, device);
  set(prop.memoryClockRate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device);
  set(prop.singleToDoublePrecisionPerfRatio, CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, device);
  set(prop.cooperativeMultiDeviceLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH, device);
#endif
}

CUresult fill_properties(cudaDeviceProp& prop, int ordinal) {
  CUdevice device = 0;
  if (const CUresult result = driver().cuDeviceGet_(&device, ordinal); result != CUDA_SUCCESS) return result;
  std::memset(&prop, 0, sizeof prop);
  driver().cuDeviceGetName_(prop.name, sizeof prop.name, device);
  driver().cuDeviceGetUuid_(&prop.uuid, device);
  driver().cuDeviceGetLuid_(prop.luid, &prop.luidDeviceNodeMask, device);
  if (const CUresult result = driver().cuDeviceTotalMem_(&prop.totalGlobalMem, device); result != CUDA_SUCCESS) {
    return result;
  }
  fill_limits(prop, device);
  fill_textures(prop, device);
  fill_abilities(prop, device);
  fill_by_release(prop, device);
  return CUDA_SUCCESS;
}

cudaError_t device_properties(cudaDeviceProp* prop, int ordinal) {
  if (prop == nullptr) return remember(cudaErrorInvalidValue);
  return with_driver([&] { return fill_properties(*prop, ordinal); });
}

// How well a device fits a wish: the documented call only promises "the best match"; every wished minimum that is met
// counts one.
int match(const cudaDeviceProp& wish, const cudaDeviceProp& have) {
  return int{have.major >= wish.major} + int{have.totalGlobalMem >= wish.totalGlobalMem} +
         int{have.multiProcessorCount >= wish.multiProcessorCount};
}

}  // namespace

CUDART_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return remember(cudaErrorInvalidValue);
  return with_driver([&] {
    const CUresult result = driver().cuDeviceGetCount_(count);
    return result == CUDA_SUCCESS && *count == 0 ? CUDA_ERROR_NO_DEVICE : result;
  });
}

// The 12.x header renames its own call to _v2; the unsuffixed one, for programs with 11.x headers, stays a stub.
#if CUDART_VERSION >= 13000
CUDART_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return device_properties(prop, device);
}
#else
#undef cudaGetDeviceProperties
CUDART_EXPORT cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* prop, int device) {
  return device_properties(prop, device);
}
#endif

CUDART_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  if (value == nullptr) return remember(cudaErrorInvalidValue);
  return with_driver([&] {
    CUdevice handle = 0;
    if (const CUresult result = driver().cuDeviceGet_(&handle, device); result != CUDA_SUCCESS) return result;
    return driver().cuDeviceGetAttribute_(value, static_cast<CUdevice_attribute>(attr), handle);
  });
}

CUDART_EXPORT cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* prop) {
  if (device == nullptr || prop == nullptr) return remember(cudaErrorInvalidValue);
  return with_driver([&] {
    int count = 0;
    if (const CUresult result = driver().cuDeviceGetCount_(&count); result != CUDA_SUCCESS) return result;
    int best = -1;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      cudaDeviceProp candidate;
      if (const CUresult result = fill_properties(candidate, ordinal); result != CUDA_SUCCESS) return result;
      if (const int score = match(*prop, candidate); score > best) {
        best = score;
        *device = ordinal;
      }
    }
    return best < 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
  });
}

CUDART_EXPORT cudaError_t cudaSetDevice(int device) {
  return with_driver([&] { return choose_device(device); });
}

CUDART_EXPORT cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags) {
  if (flags == cudaInitDeviceFlagsAreValid) {
    const cudaError_t set = with_driver([&] { return driver().cuDevicePrimaryCtxSetFlags_(device, device_flags); });
    if (set != cudaSuccess) return set;
  }
  return with_driver([&] {
    int chosen = 0;
    CUcontext before = nullptr;
    if (const CUresult result = current_device(chosen); result != CUDA_SUCCESS) return result;
    driver().cuCtxGetCurrent_(&before);
    const CUresult result = choose_device(device);
    if (result == CUDA_SUCCESS && before != nullptr) return choose_device(chosen);  // initialises, does not select
    return result;
  });
}

CUDART_EXPORT cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return remember(cudaErrorInvalidValue);
  return with_driver([&] { return current_device(*device); });
}

CUDART_EXPORT cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  return with_driver([&] {
    int device = 0;
    if (const CUresult result = current_device(device); result != CUDA_SUCCESS) return result;
    return driver().cuDevicePrimaryCtxSetFlags_(device, flags & ~static_cast<unsigned int>(cudaDeviceMapHost));
  });
}

CUDART_EXPORT cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  if (flags == nullptr) return remember(cudaErrorInvalidValue);
  return with_driver([&] {
    int device = 0;
    int active = 0;
    if (const CUresult result = current_device(device); result != CUDA_SUCCESS) return result;
    const CUresult result = driver().cuDevicePrimaryCtxGetState_(device, flags, &active);
    *flags |= cudaDeviceMapHost;  // documented: always set
    return result;
  });
}

CUDART_EXPORT cudaError_t cudaDeviceReset() {
  return with_driver([] { return reset_current_device(); });
}

CUDART_EXPORT cudaError_t cudaDeviceSynchronize() {
  return with_context([] { return driver().cuCtxSynchronize_(); });
}

CUDART_EXPORT cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return with_context([&] { return driver().cuCtxSetLimit_(static_cast<CUlimit>(limit), value); });
}

CUDART_EXPORT cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return with_context([&] { return driver().cuCtxGetLimit_(value, static_cast<CUlimit>(limit)); });
}

CUDART_EXPORT cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  return with_context([&] { return driver().cuCtxGetCacheConfig_(reinterpret_cast<CUfunc_cache*>(config)); });
}

CUDART_EXPORT cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  return with_context([&] { return driver().cuCtxSetCacheConfig_(static_cast<CUfunc_cache>(config)); });
}

CUDART_EXPORT cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  if (config == nullptr) return remember(cudaErrorInvalidValue);
  *config = cudaSharedMemBankSizeFourByte;  // the only one since compute capability 5.0
  return cudaSuccess;
}

CUDART_EXPORT cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) {
  return with_context([] { return CUDA_SUCCESS; });  // documented: no effect since compute capability 5.0
}

CUDART_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return with_context([&] { return driver().cuCtxGetStreamPriorityRange_(least, greatest); });
}

CUDART_EXPORT cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* bus_id) {
  if (device == nullptr || bus_id == nullptr) return remember(cudaErrorInvalidValue);
  return with_driver([&] { return driver().cuDeviceGetByPCIBusId_(device, bus_id); });
}

CUDART_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* bus_id, int length, int device) {
  if (bus_id == nullptr || length <= 0) return remember(cudaErrorInvalidValue);
  return with_driver([&] { return driver().cuDeviceGetPCIBusId_(bus_id, length, device); });
}

CUDART_EXPORT cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t* elements, const cudaChannelFormatDesc* format,
                                                               int device) {
  if (elements == nullptr || format == nullptr) return remember(cudaErrorInvalidValue);
  return with_driver([&] {
    int width = 0;
    const CUresult result = attribute(width, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, device);
    *elements = static_cast<size_t>(width);
    return result;
  });
}

CUDART_EXPORT cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attr, int source, int destination) {
  return with_driver([&] {
    return driver().cuDeviceGetP2PAttribute_(value, static_cast<CUdevice_P2PAttribute>(attr), source, destination);
  });
}

CUDART_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (can == nullptr) return remember(cudaErrorInvalidValue);
  return with_driver([&] { return driver().cuDeviceCanAccessPeer_(can, device, peer); });
}

namespace {

// Peers are named by context below: the peer's primary context, made if it is not there yet.
template <typename Body>
cudaError_t with_peer(int peer, Body&& body) {
  return with_context([&] {
    CUcontext context = nullptr;
    CUdevice device = 0;
    if (const CUresult result = driver().cuDeviceGet_(&device, peer); result != CUDA_SUCCESS) return result;
    if (const CUresult result = driver().cuDevicePrimaryCtxRetain_(&context, device); result != CUDA_SUCCESS)
      return result;
    return body(context);
  });
}

}  // namespace

CUDART_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return with_peer(peer, [&](CUcontext context) { return driver().cuCtxEnablePeerAccess_(context, flags); });
}

CUDART_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return with_peer(peer, [&](CUcontext context) { return driver().cuCtxDisablePeerAccess_(context); });
}

CUDART_EXPORT cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTarget target,
                                                             cudaFlushGPUDirectRDMAWritesScope scope) {
  return with_context([&] {
    return driver().cuFlushGPUDirectRDMAWrites_(static_cast<CUflushGPUDirectRDMAWritesTarget>(target),
                                                static_cast<CUflushGPUDirectRDMAWritesScope>(scope));
  });
}

CUDART_EXPORT cudaError_t cudaCtxResetPersistingL2Cache() {
  return with_context([] { return driver().cuCtxResetPersistingL2Cache_(); });
}

CUDART_EXPORT cudaError_t cudaSetValidDevices(int* devices, int count) {
  return with_driver([&] { return count == 0 || devices != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}

CUDART_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return remember(cudaErrorInvalidValue);
  // Documented: no driver is version 0, and that is no error.
  if (driver_tables().look_up == nullptr) {
    *version = 0;
    return cudaSuccess;
  }
  return remember(to_runtime(driver().cuDriverGetVersion_(version)));
}

CUDART_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return remember(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

CUDART_EXPORT cudaError_t cudaProfilerStart() {
  return with_context([] { return driver().cuProfilerStart_(); });
}

CUDART_EXPORT cudaError_t cudaProfilerStop() {
  return with_context([] { return driver().cuProfilerStop_(); });
}

#if CUDART_VERSION < 13000
// Names of CUDA 3, kept by the 12.x library.
CUDART_EXPORT cudaError_t cudaThreadExit() {
  return cudaDeviceReset();
}
CUDART_EXPORT cudaError_t cudaThreadSynchronize() {
  return cudaDeviceSynchronize();
}
CUDART_EXPORT cudaError_t cudaThreadSetLimit(cudaLimit limit, size_t value) {
  return cudaDeviceSetLimit(limit, value);
}
CUDART_EXPORT cudaError_t cudaThreadGetLimit(size_t* value, cudaLimit limit) {
  return cudaDeviceGetLimit(value, limit);
}
CUDART_EXPORT cudaError_t cudaThreadGetCacheConfig(cudaFuncCache* config) {
  return cudaDeviceGetCacheConfig(config);
}
CUDART_EXPORT cudaError_t cudaThreadSetCacheConfig(cudaFuncCache config) {
  return cudaDeviceSetCacheConfig(config);
}
#endif

}  // namespace cuheap::sim::runtime
