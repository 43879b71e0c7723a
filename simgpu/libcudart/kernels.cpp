// Launching kernels, and what can be asked about them.
#include <array>
#include <cstring>

#include "fat_image.h"
#include "registry.h"

namespace cuheap::sim::runtime {
namespace {

CUfunction launchable(CUkernel kernel) {
  return reinterpret_cast<CUfunction>(kernel);
}  // documented cast

bool is_empty(const dim3& size) {
  return size.x == 0 || size.y == 0 || size.z == 0;
}

// The driver calls a bad launch shape an invalid value, the runtime an invalid configuration.
CUresult launch_result(CUresult result, const dim3& grid, const dim3& block) {
  const size_t threads = size_t{block.x} * block.y * block.z;
  const bool bad_shape = is_empty(grid) || is_empty(block) || threads > 1024;
  if (result == CUDA_ERROR_INVALID_VALUE && bad_shape) return static_cast<CUresult>(cudaErrorInvalidConfiguration);
  return result;
}

CUresult launch(const Driver& driver, CUkernel kernel, const dim3& grid, const dim3& block, void** args, size_t shared,
                cudaStream_t stream) {
  const CUresult result = driver.cuLaunchKernel_(launchable(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                                 static_cast<unsigned int>(shared), stream, args, nullptr);
  return launch_result(result, grid, block);
}

CUlaunchConfig driver_config(const cudaLaunchConfig_t& config) {
  static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
  CUlaunchConfig result{};
  result.gridDimX = config.gridDim.x;
  result.gridDimY = config.gridDim.y;
  result.gridDimZ = config.gridDim.z;
  result.blockDimX = config.blockDim.x;
  result.blockDimY = config.blockDim.y;
  result.blockDimZ = config.blockDim.z;
  result.sharedMemBytes = static_cast<unsigned int>(config.dynamicSmemBytes);
  result.hStream = config.stream;
  result.attrs = reinterpret_cast<CUlaunchAttribute*>(config.attrs);
  result.numAttrs = config.numAttrs;
  return result;
}

// Body with the kernel and the current device.
template <typename Body>
cudaError_t with_kernel(const void* function, Body&& body) {
  return with_context([&] {
    CUkernel kernel = nullptr;
    if (const CUresult result = find_kernel(function, kernel); result != CUDA_SUCCESS) return result;
    return body(kernel);
  });
}

int ask(CUkernel kernel, CUfunction_attribute attribute, CUdevice device) {
  int value = 0;
  if (driver().cuKernelGetAttribute_(&value, attribute, kernel, device) != CUDA_SUCCESS) return 0;
  return value;
}

size_t ask_size(CUkernel kernel, CUfunction_attribute attribute, CUdevice device) {
  return static_cast<size_t>(ask(kernel, attribute, device));
}

void fill_attributes(cudaFuncAttributes& out, CUkernel kernel, CUdevice device) {
  std::memset(&out, 0, sizeof out);
  out.sharedSizeBytes = ask_size(kernel, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, device);
  out.constSizeBytes = ask_size(kernel, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, device);
  out.localSizeBytes = ask_size(kernel, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, device);
  out.maxThreadsPerBlock = ask(kernel, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
  out.numRegs = ask(kernel, CU_FUNC_ATTRIBUTE_NUM_REGS, device);
  out.ptxVersion = ask(kernel, CU_FUNC_ATTRIBUTE_PTX_VERSION, device);
  out.binaryVersion = ask(kernel, CU_FUNC_ATTRIBUTE_BINARY_VERSION, device);
  out.cacheModeCA = ask(kernel, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, device);
  out.maxDynamicSharedSizeBytes = ask(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, device);
  out.preferredShmemCarveout = ask(kernel, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, device);
  out.clusterDimMustBeSet = ask(kernel, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, device);
  out.requiredClusterWidth = ask(kernel, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, device);
  out.requiredClusterHeight = ask(kernel, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, device);
  out.requiredClusterDepth = ask(kernel, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, device);
  out.clusterSchedulingPolicyPreference = ask(kernel, CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, device);
  out.nonPortableClusterSizeAllowed = ask(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, device);
}

// Of a registered kernel we know more than the driver says: which of its machine codes this device would run.
void fill_architecture(cudaFuncAttributes& out, const void* function, CUdevice device) {
  int major = 0;
  int minor = 0;
  driver().cuDeviceGetAttribute_(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  driver().cuDeviceGetAttribute_(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  const int architecture = best_architecture(image_of_kernel(function), major * 10 + minor);
  if (architecture != 0) out.ptxVersion = out.binaryVersion = architecture;
}

// <<<grid, block, shared, stream>>> waiting for its kernel.
struct CallConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared;
  cudaStream_t stream;
};

constexpr size_t kMaxConfigurations = 16;  // a launch argument may itself launch; deeper nesting is refused
thread_local std::array<CallConfiguration, kMaxConfigurations> t_configurations;
thread_local size_t t_configuration_count = 0;

}  // namespace

CUDART_WITH_TWIN(cudaLaunchKernel, _ptsz,
                 (const void* function, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream),
                 (function, grid, block, args, shared, stream)) {
  return with_kernel(function,
                     [&](CUkernel kernel) { return launch(driver, kernel, grid, block, args, shared, stream); });
}

CUDART_WITH_TWIN(__cudaLaunchKernel, _ptsz,
                 (cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream),
                 (kernel, grid, block, args, shared, stream)) {
  if (kernel == nullptr) return remember(cudaErrorInvalidDeviceFunction);
  return with_context([&] { return launch(driver, kernel, grid, block, args, shared, stream); });
}

CUDART_WITH_TWIN(cudaLaunchKernelExC, _ptsz, (const cudaLaunchConfig_t* config, const void* function, void** args),
                 (config, function, args)) {
  if (config == nullptr) return remember(cudaErrorInvalidValue);
  return with_kernel(function, [&](CUkernel kernel) {
    const CUlaunchConfig shape = driver_config(*config);
    return launch_result(driver.cuLaunchKernelEx_(&shape, launchable(kernel), args, nullptr), config->gridDim,
                         config->blockDim);
  });
}

CUDART_WITH_TWIN(cudaLaunchCooperativeKernel, _ptsz,
                 (const void* function, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream),
                 (function, grid, block, args, shared, stream)) {
  return with_kernel(function, [&](CUkernel kernel) {
    const CUresult result =
        driver.cuLaunchCooperativeKernel_(launchable(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                          static_cast<unsigned int>(shared), stream, args);
    return launch_result(result, grid, block);
  });
}

CUDART_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  if (t_configuration_count == kMaxConfigurations) return 1;
  t_configurations[t_configuration_count++] = CallConfiguration{grid, block, shared, stream};
  return 0;
}

CUDART_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (t_configuration_count == 0) return remember(cudaErrorMissingConfiguration);
  const CallConfiguration& configuration = t_configurations[--t_configuration_count];
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}

CUDART_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* function) {
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  return with_driver([&] { return find_kernel(function, *out); });
}

CUDART_EXPORT cudaError_t cudaGetKernel(cudaKernel_t* out, const void* function) {
  return __cudaGetKernel(out, function);
}

CUDART_EXPORT cudaError_t cudaGetFuncBySymbol(cudaFunction_t* out, const void* function) {
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  return with_kernel(function, [&](CUkernel kernel) { return driver().cuKernelGetFunction_(out, kernel); });
}

CUDART_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  if (attributes == nullptr) return remember(cudaErrorInvalidValue);
  return with_kernel(function, [&](CUkernel kernel) {
    int device = 0;
    if (const CUresult result = current_device(device); result != CUDA_SUCCESS) return result;
    fill_attributes(*attributes, kernel, device);
    fill_architecture(*attributes, function, device);
    return CUDA_SUCCESS;
  });
}

CUDART_EXPORT cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return with_kernel(function, [&](CUkernel kernel) {
    int device = 0;
    if (const CUresult result = current_device(device); result != CUDA_SUCCESS) return result;
    return driver().cuKernelSetAttribute_(static_cast<CUfunction_attribute>(attribute), value, kernel, device);
  });
}

CUDART_EXPORT cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value,
                                                          int device) {
  return with_driver([&] {
    return driver().cuKernelSetAttribute_(static_cast<CUfunction_attribute>(attribute), value, kernel, device);
  });
}

CUDART_EXPORT cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache config) {
  return with_kernel(function, [&](CUkernel kernel) {
    int device = 0;
    if (const CUresult result = current_device(device); result != CUDA_SUCCESS) return result;
    return driver().cuKernelSetCacheConfig_(kernel, static_cast<CUfunc_cache>(config), device);
  });
}

CUDART_EXPORT cudaError_t cudaFuncSetSharedMemConfig(const void* function, cudaSharedMemConfig) {
  return with_kernel(function, [](CUkernel) { return CUDA_SUCCESS; });  // documented: no effect since capability 5.0
}

CUDART_EXPORT cudaError_t cudaFuncGetName(const char** name, const void* function) {
  if (name == nullptr) return remember(cudaErrorInvalidValue);
  return with_kernel(function, [&](CUkernel kernel) { return driver().cuKernelGetName_(name, kernel); });
}

CUDART_EXPORT cudaError_t cudaFuncGetParamInfo(const void* function, size_t index, size_t* offset, size_t* bytes) {
  return with_kernel(function,
                     [&](CUkernel kernel) { return driver().cuKernelGetParamInfo_(kernel, index, offset, bytes); });
}

// Occupancy.

CUDART_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                                 int block_size, size_t shared,
                                                                                 unsigned int flags) {
  return with_kernel(function, [&](CUkernel kernel) {
    return driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_(blocks, launchable(kernel), block_size,
                                                                          shared, flags);
  });
}

CUDART_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                                        int block_size, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared, 0);
}

CUDART_EXPORT cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks,
                                                                    int block_size) {
  return with_kernel(function, [&](CUkernel kernel) {
    return driver().cuOccupancyAvailableDynamicSMemPerBlock_(bytes, launchable(kernel), blocks, block_size);
  });
}

CUDART_EXPORT cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* function,
                                                               const cudaLaunchConfig_t* config) {
  if (config == nullptr) return remember(cudaErrorInvalidValue);
  return with_kernel(function, [&](CUkernel kernel) {
    const CUlaunchConfig shape = driver_config(*config);
    return driver().cuOccupancyMaxPotentialClusterSize_(size, launchable(kernel), &shape);
  });
}

CUDART_EXPORT cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                         const cudaLaunchConfig_t* config) {
  if (config == nullptr) return remember(cudaErrorInvalidValue);
  return with_kernel(function, [&](CUkernel kernel) {
    const CUlaunchConfig shape = driver_config(*config);
    return driver().cuOccupancyMaxActiveClusters_(clusters, launchable(kernel), &shape);
  });
}

// Libraries loaded at run time.

CUDART_EXPORT cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption* jit_options,
                                              void** jit_values, unsigned int jit_count, cudaLibraryOption* options,
                                              void** values, unsigned int count) {
  return with_driver([&] {
    return driver().cuLibraryLoadData_(library, code, reinterpret_cast<CUjit_option*>(jit_options), jit_values,
                                       jit_count, reinterpret_cast<CUlibraryOption*>(options), values, count);
  });
}

CUDART_EXPORT cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* file, cudaJitOption* jit_options,
                                                  void** jit_values, unsigned int jit_count, cudaLibraryOption* options,
                                                  void** values, unsigned int count) {
  return with_driver([&] {
    return driver().cuLibraryLoadFromFile_(library, file, reinterpret_cast<CUjit_option*>(jit_options), jit_values,
                                           jit_count, reinterpret_cast<CUlibraryOption*>(options), values, count);
  });
}

CUDART_EXPORT cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return with_driver([&] { return driver().cuLibraryUnload_(library); });
}

CUDART_EXPORT cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return with_driver([&] {
    const CUresult result = driver().cuLibraryGetKernel_(kernel, library, name);
    if (result == CUDA_SUCCESS) remember_handle(*kernel);
    return result;
  });
}

CUDART_EXPORT cudaError_t cudaLibraryGetGlobal(void** pointer, size_t* bytes, cudaLibrary_t library, const char* name) {
  return with_context(
      [&] { return driver().cuLibraryGetGlobal_(reinterpret_cast<CUdeviceptr*>(pointer), bytes, library, name); });
}

CUDART_EXPORT cudaError_t cudaLibraryGetManaged(void** pointer, size_t* bytes, cudaLibrary_t library,
                                                const char* name) {
  return with_context(
      [&] { return driver().cuLibraryGetManaged_(reinterpret_cast<CUdeviceptr*>(pointer), bytes, library, name); });
}

CUDART_EXPORT cudaError_t cudaLibraryGetUnifiedFunction(void** pointer, cudaLibrary_t library, const char* symbol) {
  return with_driver([&] { return driver().cuLibraryGetUnifiedFunction_(pointer, library, symbol); });
}

CUDART_EXPORT cudaError_t cudaLibraryGetKernelCount(unsigned int* count, cudaLibrary_t library) {
  return with_driver([&] { return driver().cuLibraryGetKernelCount_(count, library); });
}

CUDART_EXPORT cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned int count,
                                                      cudaLibrary_t library) {
  return with_driver([&] { return driver().cuLibraryEnumerateKernels_(kernels, count, library); });
}

}  // namespace cuheap::sim::runtime
