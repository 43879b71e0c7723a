// Modules, libraries, functions and their attributes. Every image loads; a function is whatever name is asked for.
// A library and its kernels are the same objects as a module and its functions: both handles answer both families.
#include <cstring>

#include "simgpu/libcuda_entry.h"

using namespace cuheap::sim;

namespace cuheap::sim {
namespace {

struct Double {
  KernelDouble call;
  void* user;
};

std::mutex& doubles_lock() {
  static auto& only = *new std::mutex;
  return only;
}

std::map<std::string, Double>& doubles() {
  static auto& only = *new std::map<std::string, Double>;
  return only;
}

template <class Handle>
CUresult load(Handle* out, const void* image, uint64_t context_id) {
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  auto module = std::make_shared<Module>();
  module->context_id = context_id;
  *out = reinterpret_cast<Handle>(machine().modules.add(std::move(module)));
  return CUDA_SUCCESS;
}

CUresult unload(const void* handle) {
  const auto module = machine().modules.take(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard guard(module->lock);
  for (const auto& [name, function] : module->functions) machine().functions.take(function);
  for (const auto& [name, global] : module->globals) free_allocation(global.first, true);
  return CUDA_SUCCESS;
}

template <class Handle>
CUresult get_function(Handle* out, const void* handle, const char* name) {
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto module = machine().modules.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard guard(module->lock);
  Function*& function = module->functions[name];
  if (function == nullptr) {
    auto made = std::make_shared<Function>();
    made->name = name;
    made->module = module.get();
    made->call = find_kernel_double(made->name, &made->user);
    function = machine().functions.add(std::move(made));
  }
  *out = reinterpret_cast<Handle>(function);
  return CUDA_SUCCESS;
}

/// Only what the control API has declared: a name alone does not tell a size.
CUresult get_global(CUdeviceptr* out, size_t* bytes, const void* handle, const char* name) {
  const auto module = machine().modules.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const size_t declared = declared_global(name);
  if (declared == 0) return CUDA_ERROR_NOT_FOUND;
  std::lock_guard guard(module->lock);
  auto& [address, size] = module->globals[name];
  if (address == 0) {
    const Context& context = current_context();
    address = machine().allocations.allocate_device(context.device, context.id, declared);
    size = declared;
    if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (out != nullptr) *out = address;
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}

const DeviceSpec& spec_of(int device) { return machine().devices[static_cast<size_t>(device)].spec; }

// Plausible figures of a compiled kernel: 32 registers, no static shared memory.
CUresult function_attribute(const Function& function, int attribute, int device, int& value) {
  const auto set = function.attributes.find(attribute);
  if (set != function.attributes.end()) return value = set->second, CUDA_SUCCESS;
  const DeviceSpec& spec = spec_of(device);
  const int capability = spec.capability_major * 10 + spec.capability_minor;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: value = 1024; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: value = 32; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: case CU_FUNC_ATTRIBUTE_BINARY_VERSION: value = capability; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: value = spec.shared_memory_per_block; break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: value = -1; break;
    default:
      if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
      value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult set_function_attribute(Function& function, int attribute, int value, int device) {
  const bool settable = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
                        attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ||
                        attribute >= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
  if (!settable || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
      (value < 0 || value > spec_of(device).shared_memory_per_block_optin))
    return CUDA_ERROR_INVALID_VALUE;
  function.attributes[attribute] = value;
  return CUDA_SUCCESS;
}

}  // namespace

KernelDouble find_kernel_double(const std::string& name, void** user) {
  std::lock_guard guard(doubles_lock());
  const auto at = doubles().find(name);
  if (at == doubles().end()) return nullptr;
  *user = at->second.user;
  return at->second.call;
}

void register_kernel_double(const std::string& name, KernelDouble call, void* user) {
  std::lock_guard guard(doubles_lock());
  doubles()[name] = {call, user};
  for (const auto& function : machine().functions.all())
    if (function->name == name) function->call = call, function->user = user;
}

}  // namespace cuheap::sim

SIMGPU_API CUresult cuModuleLoad(CUmodule* out, const char* path) {
  SIMGPU_ENTER(Needs::Context);
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (FILE* file = std::fopen(path, "rbe")) std::fclose(file);
  else return CUDA_ERROR_FILE_NOT_FOUND;
  return load(out, path, current_context().id);
}

SIMGPU_API CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  SIMGPU_ENTER(Needs::Context);
  return load(out, image, current_context().id);
}

SIMGPU_API CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int, CUjit_option*, void**) {
  SIMGPU_ENTER(Needs::Context);
  return load(out, image, current_context().id);
}

SIMGPU_API CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  SIMGPU_ENTER(Needs::Context);
  return load(out, image, current_context().id);
}

SIMGPU_API CUresult cuModuleUnload(CUmodule module) {
  SIMGPU_ENTER(Needs::Context);
  return unload(module);
}

SIMGPU_API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  SIMGPU_ENTER(Needs::Init);
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  SIMGPU_ENTER(Needs::Context);
  return get_function(out, module, name);
}

SIMGPU_API CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule handle) {
  SIMGPU_ENTER(Needs::Context);
  const auto module = machine().modules.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->functions.size());
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuModuleGetGlobal_v2(CUdeviceptr* out, size_t* bytes, CUmodule module, const char* name) {
  SIMGPU_ENTER(Needs::Context);
  return get_global(out, bytes, module, name);
}

SIMGPU_API CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option*, void**, unsigned int, CUlibraryOption*, void**,
                                      unsigned int) {
  SIMGPU_ENTER(Needs::Init);
  return load(out, code, 0);
}

SIMGPU_API CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option*, void**, unsigned int, CUlibraryOption*,
                                          void**, unsigned int) {
  SIMGPU_ENTER(Needs::Init);
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (FILE* file = std::fopen(path, "rbe")) std::fclose(file);
  else return CUDA_ERROR_FILE_NOT_FOUND;
  return load(out, path, 0);
}

SIMGPU_API CUresult cuLibraryUnload(CUlibrary library) {
  SIMGPU_ENTER(Needs::Init);
  return unload(library);
}

SIMGPU_API CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
  SIMGPU_ENTER(Needs::Init);
  return get_function(out, library, name);
}

SIMGPU_API CUresult cuLibraryGetModule(CUmodule* out, CUlibrary library) {
  SIMGPU_ENTER(Needs::Context);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (machine().modules.find(library) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary library) {
  SIMGPU_ENTER(Needs::Init);
  const auto module = machine().modules.find(library);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->functions.size());
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuLibraryGetGlobal(CUdeviceptr* out, size_t* bytes, CUlibrary library, const char* name) {
  SIMGPU_ENTER(Needs::Context);
  return get_global(out, bytes, library, name);
}

SIMGPU_API CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  SIMGPU_ENTER(Needs::Context);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (machine().functions.find(kernel) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel kernel) {
  SIMGPU_ENTER(Needs::Init);
  const auto function = machine().functions.find(kernel);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUlibrary>(function->module);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  SIMGPU_ENTER(Needs::Init);
  const auto function = machine().functions.find(kernel);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  const auto function = machine().functions.find(kernel);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return function_attribute(*function, attribute, device, *value);
}

SIMGPU_API CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  const auto function = machine().functions.find(kernel);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return set_function_attribute(*function, attribute, value, device);
}

SIMGPU_API CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return machine().functions.find(kernel) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIMGPU_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  SIMGPU_ENTER(Needs::Context);
  const auto function = machine().functions.find(handle);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return function_attribute(*function, attribute, current_context().device, *value);
}

SIMGPU_API CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  SIMGPU_ENTER(Needs::Context);
  const auto function = machine().functions.find(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return set_function_attribute(*function, attribute, value, current_context().device);
}

SIMGPU_API CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache) {
  SIMGPU_ENTER(Needs::Context);
  return machine().functions.find(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIMGPU_API CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig) {
  SIMGPU_ENTER(Needs::Context);
  return machine().functions.find(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIMGPU_API CUresult cuFuncGetModule(CUmodule* out, CUfunction handle) {
  SIMGPU_ENTER(Needs::Context);
  const auto function = machine().functions.find(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmodule>(function->module);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuFuncGetName(const char** name, CUfunction handle) {
  SIMGPU_ENTER(Needs::Context);
  const auto function = machine().functions.find(handle);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  SIMGPU_ENTER(Needs::Context);
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (machine().functions.find(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuFuncLoad(CUfunction handle) {
  SIMGPU_ENTER(Needs::Context);
  return machine().functions.find(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
