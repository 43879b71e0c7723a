#include "registry.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cuheap::sim::runtime {
namespace {

// What __cudaRegisterFatBinary is given (fatbinary_section.h): a wrapper around the image that the driver loads.
struct FatBinaryWrapper {
  std::int32_t magic;
  std::int32_t version;
  const void* image;
  const void* file_name_or_more_images;
};

struct ManagedVariable {
  void** host_pointer;
  const char* name;
  size_t bytes;
};

struct Image {
  const FatBinaryWrapper* wrapper = nullptr;
  std::mutex loading;
  CUlibrary library = nullptr;          // null until first needed
  std::vector<const void*> registered;  // host addresses, to forget them when their library is unloaded
  std::vector<ManagedVariable> managed;
  std::once_flag managed_ready;
};

struct KernelEntry {
  Image* image;
  const char* name;
  CUkernel kernel;  // null until first used
};

struct VariableEntry {
  Image* image;
  const char* name;
  size_t bytes;
};

struct Registry {
  std::shared_mutex lock;  // never held across a driver call
  std::unordered_map<const void*, KernelEntry> kernels;
  std::unordered_map<const void*, VariableEntry> variables;
  std::unordered_map<CUkernel, const void*> host_functions;
  // Variables of images whose content the driver cannot read: memory made for them, by variable and context.
  std::map<std::pair<const void*, CUcontext>, CUdeviceptr> made_for;
};

// Never destroyed: programs register before main and unregister from atexit.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

Image* image_of(void** handle) {
  return reinterpret_cast<Image*>(handle);
}

// A kernel's first use may come while its stream is captured. Loading allocates, which a capture forbids unless the
// thread says that it knows what it does: the documented way out.
class RelaxedCapture {
 public:
  RelaxedCapture() { driver().cuThreadExchangeStreamCaptureMode_(&mode_); }
  ~RelaxedCapture() { driver().cuThreadExchangeStreamCaptureMode_(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

CUresult load(Image& image) {
  const std::scoped_lock guard(image.loading);
  if (image.library != nullptr) return CUDA_SUCCESS;
  const void* code = image.wrapper == nullptr ? nullptr : image.wrapper->image;
  return driver().cuLibraryLoadData_(&image.library, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

CUresult make_variable(const void* host_address, size_t bytes, CUdeviceptr& address) {
  CUcontext context = nullptr;
  driver().cuCtxGetCurrent_(&context);
  const auto key = std::make_pair(host_address, context);
  {
    const std::shared_lock guard(registry().lock);
    if (const auto found = registry().made_for.find(key); found != registry().made_for.end()) {
      address = found->second;
      return CUDA_SUCCESS;
    }
  }
  if (const CUresult result = driver().cuMemAlloc_(&address, bytes == 0 ? 1 : bytes); result != CUDA_SUCCESS)
    return result;
  driver().cuMemsetD8_(address, 0, bytes == 0 ? 1 : bytes);
  const std::unique_lock guard(registry().lock);
  registry().made_for.emplace(key, address);
  return CUDA_SUCCESS;
}

void make_managed(Image& image) {
  for (const ManagedVariable& variable : image.managed) {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    if (load(image) != CUDA_SUCCESS ||
        driver().cuLibraryGetManaged_(&address, &bytes, image.library, variable.name) != CUDA_SUCCESS) {
      if (driver().cuMemAllocManaged_(&address, variable.bytes, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS) continue;
    }
    *variable.host_pointer = reinterpret_cast<void*>(address);
  }
}

}  // namespace

CUresult find_variable(const void* host_address, Variable& variable) {
  VariableEntry entry{};
  {
    const std::shared_lock guard(registry().lock);
    const auto found = registry().variables.find(host_address);
    if (found == registry().variables.end()) return static_cast<CUresult>(cudaErrorInvalidSymbol);
    entry = found->second;
  }
  variable.bytes = entry.bytes;
  const RelaxedCapture relaxed;
  if (load(*entry.image) == CUDA_SUCCESS) {
    size_t bytes = 0;
    const CUresult result = driver().cuLibraryGetGlobal_(&variable.address, &bytes, entry.image->library, entry.name);
    if (result == CUDA_SUCCESS && bytes >= entry.bytes) return CUDA_SUCCESS;
  }
  return make_variable(host_address, entry.bytes, variable.address);
}

CUresult find_kernel(const void* host_address, CUkernel& kernel) {
  KernelEntry entry{};
  {
    const std::shared_lock guard(registry().lock);
    const auto found = registry().kernels.find(host_address);
    if (found == registry().kernels.end()) {
      // A handle of cudaLibraryGetKernel or cudaGetKernel may stand where a host function is expected.
      kernel = reinterpret_cast<CUkernel>(const_cast<void*>(host_address));
      const bool is_handle = registry().host_functions.contains(kernel);
      return is_handle ? CUDA_SUCCESS : static_cast<CUresult>(cudaErrorInvalidDeviceFunction);
    }
    entry = found->second;
  }
  kernel = entry.kernel;
  if (kernel != nullptr) return CUDA_SUCCESS;
  const RelaxedCapture relaxed;
  if (const CUresult result = load(*entry.image); result != CUDA_SUCCESS) return result;
  const CUresult result = driver().cuLibraryGetKernel_(&kernel, entry.image->library, entry.name);
  if (result == CUDA_ERROR_NOT_FOUND) return static_cast<CUresult>(cudaErrorInvalidDeviceFunction);
  if (result != CUDA_SUCCESS) return result;
  const std::unique_lock guard(registry().lock);
  if (const auto found = registry().kernels.find(host_address); found != registry().kernels.end()) {
    found->second.kernel = kernel;
  }
  registry().host_functions.emplace(kernel, host_address);
  return CUDA_SUCCESS;
}

const void* image_of_kernel(const void* host_address) {
  const std::shared_lock guard(registry().lock);
  const auto found = registry().kernels.find(host_address);
  if (found == registry().kernels.end() || found->second.image->wrapper == nullptr) return nullptr;
  return found->second.image->wrapper->image;
}

const void* host_function(CUkernel kernel) {
  const std::shared_lock guard(registry().lock);
  const auto found = registry().host_functions.find(kernel);
  return found == registry().host_functions.end() || found->second == nullptr ? kernel : found->second;
}

void remember_handle(CUkernel kernel) {
  const std::unique_lock guard(registry().lock);
  registry().host_functions.emplace(kernel, nullptr);
}

// The compiler's own calls (crt/host_runtime.h).

CUDART_EXPORT void** __cudaRegisterFatBinary(void* wrapper) {
  Image* image = new Image;
  image->wrapper = static_cast<const FatBinaryWrapper*>(wrapper);
  return reinterpret_cast<void**>(image);
}

CUDART_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}

// The image itself stays: its library handle may be in use by a graph, and at exit the driver may already be gone.
CUDART_EXPORT void __cudaUnregisterFatBinary(void** handle) {
  if (handle == nullptr) return;
  const std::unique_lock guard(registry().lock);
  for (const void* address : image_of(handle)->registered) {
    registry().kernels.erase(address);
    registry().variables.erase(address);
  }
  image_of(handle)->registered.clear();
}

CUDART_EXPORT void __cudaRegisterFunction(void** handle, const char* host_function, char*, const char* device_name, int,
                                          uint3*, uint3*, dim3*, dim3*, int*) {
  const std::unique_lock guard(registry().lock);
  registry().kernels[host_function] = KernelEntry{image_of(handle), device_name, nullptr};
  image_of(handle)->registered.push_back(host_function);
}

CUDART_EXPORT void __cudaRegisterVar(void** handle, char* host_variable, char*, const char* device_name, int,
                                     size_t bytes, int, int) {
  const std::unique_lock guard(registry().lock);
  registry().variables[host_variable] = VariableEntry{image_of(handle), device_name, bytes};
  image_of(handle)->registered.push_back(host_variable);
}

CUDART_EXPORT void __cudaRegisterManagedVar(void** handle, void** host_pointer, char*, const char* device_name, int,
                                            size_t bytes, int, int) {
  const std::unique_lock guard(registry().lock);
  registry().variables[host_pointer] = VariableEntry{image_of(handle), device_name, bytes};
  image_of(handle)->managed.push_back({host_pointer, device_name, bytes});
  image_of(handle)->registered.push_back(host_pointer);
}

CUDART_EXPORT void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}

CUDART_EXPORT char __cudaInitModule(void** handle) {
  Image* image = image_of(handle);
  if (image == nullptr || image->managed.empty()) return 1;
  if (enter_context() != CUDA_SUCCESS) return 0;
  std::call_once(image->managed_ready, [&] { make_managed(*image); });
  return 1;
}

}  // namespace cuheap::sim::runtime
