// The control API (control.h).
#include "simgpu/control.h"

#include <cstdio>

#include "simgpu/libcuda_entry.h"

using namespace cuheap::sim;

namespace cuheap::sim {
namespace {

std::mutex& globals_lock() {
  static auto& only = *new std::mutex;
  return only;
}

std::map<std::string, size_t>& globals() {
  static auto& only = *new std::map<std::string, size_t>;
  return only;
}

int result_of_io(Io result) {
  return result == Io::Ok ? CUDA_SUCCESS : result == Io::Fault ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

size_t declared_global(const char* name) {
  std::lock_guard guard(globals_lock());
  const auto at = globals().find(name);
  return at == globals().end() ? 0 : at->second;
}

}  // namespace cuheap::sim

SIMGPU_API int simgpu_version() { return 1; }

SIMGPU_API int simgpu_set_capacity(int device, uint64_t bytes) {
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  machine().shared.set_capacity(device, bytes);
  return CUDA_SUCCESS;
}

SIMGPU_API int simgpu_set_foreign_bytes(int device, uint64_t bytes) {
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  machine().shared.set_foreign(device, bytes);
  return CUDA_SUCCESS;
}

SIMGPU_API uint64_t simgpu_used_bytes(int device) { return valid_device(device) ? machine().shared.used(device) : 0; }

SIMGPU_API int simgpu_fail_call(const char* name, uint64_t nth, int code) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simgpu_fault((std::string(name) + ":" + std::to_string(nth) + ":" + std::to_string(code)).c_str());
}

SIMGPU_API int simgpu_fault(const char* faults) {
  std::string error;
  if (faults != nullptr && add_faults(faults, error)) return CUDA_SUCCESS;
  std::fprintf(stderr, "simgpu: simgpu_fault %s\n", error.c_str());
  return CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API int simgpu_clear_faults() {
  clear_faults();
  return CUDA_SUCCESS;
}

SIMGPU_API uint64_t simgpu_calls(const char* name) { return name != nullptr ? call_count(name) : 0; }

SIMGPU_API int simgpu_reset_calls() {
  reset_counts();
  return CUDA_SUCCESS;
}

SIMGPU_API int simgpu_delay_stream(void* handle, uint64_t ns) {
  if (handle == nullptr) {
    default_delay_ns.store(ns);
    return CUDA_SUCCESS;
  }
  const ContextRef context = current_context_or_null();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const auto stream = find_stream(static_cast<CUstream>(handle), *context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  stream->delay_ns.store(ns);
  return CUDA_SUCCESS;
}

SIMGPU_API int simgpu_hold_stream(void* handle, int held) {
  const ContextRef context = current_context_or_null();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const auto stream = find_stream(static_cast<CUstream>(handle), *context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  stream->hold(held != 0);
  return CUDA_SUCCESS;
}

SIMGPU_API int simgpu_read(uint64_t address, void* out, size_t bytes) {
  return result_of_io(machine().memory.read(-1, address, out, bytes));
}

SIMGPU_API int simgpu_write(uint64_t address, const void* data, size_t bytes) {
  return result_of_io(machine().memory.write(-1, address, data, bytes));
}

SIMGPU_API int simgpu_clear(uint64_t address, size_t bytes) {
  const unsigned char zero = 0;
  return result_of_io(machine().memory.fill(-1, address, &zero, 1, bytes));
}

SIMGPU_API int simgpu_register_kernel(const char* name, simgpu_kernel call, void* user) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  register_kernel_double(name, call, user);
  return CUDA_SUCCESS;
}

SIMGPU_API int simgpu_declare_global(const char* name, size_t bytes) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard(globals_lock());
  globals()[name] = bytes;
  return CUDA_SUCCESS;
}

SIMGPU_API int simgpu_set_sticky_error(int code) {
  const ContextRef context = current_context_or_null();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  context->errors->sticky.store(code);
  return CUDA_SUCCESS;
}

SIMGPU_API int simgpu_state_descriptor() { return machine().shared.is_open() ? machine().shared.fd() : -1; }
