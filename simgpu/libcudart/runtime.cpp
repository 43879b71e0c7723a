#include "runtime.h"

#include <array>
#include <atomic>
#include <mutex>

namespace cuheap::sim::runtime {
namespace {

constexpr int kMaxDevices = 64;

struct PrimaryContext {
  CUcontext handle = nullptr;  // stays after a reset: a thread may still have it current
  bool retained = false;
};

std::mutex g_contexts_lock;
std::array<PrimaryContext, kMaxDevices> g_contexts;
std::atomic<unsigned> g_resets{0};

thread_local cudaError_t t_last_error = cudaSuccess;
thread_local int t_device = 0;

// The context that this thread last found alive, good until a device is reset: nearly every call ends its checks here.
thread_local CUcontext t_alive = nullptr;
thread_local unsigned t_alive_resets = 0;

// Retains the device's primary context once for the process and makes it current in this thread.
CUresult enter_primary(int ordinal) {
  if (ordinal < 0 || ordinal >= kMaxDevices) return CUDA_ERROR_INVALID_DEVICE;
  CUcontext context = nullptr;
  {
    const std::scoped_lock lock(g_contexts_lock);
    PrimaryContext& primary = g_contexts[static_cast<size_t>(ordinal)];
    if (!primary.retained) {
      CUdevice device = 0;
      if (const CUresult result = driver().cuDeviceGet_(&device, ordinal); result != CUDA_SUCCESS) return result;
      const CUresult result = driver().cuDevicePrimaryCtxRetain_(&primary.handle, device);
      if (result != CUDA_SUCCESS) return result;
      primary.retained = true;
    }
    context = primary.handle;
  }
  return driver().cuCtxSetCurrent_(context);
}

// A context that was reset stays current in other threads; the next runtime call there starts it anew.
bool was_reset(CUcontext context) {
  const std::scoped_lock lock(g_contexts_lock);
  for (const PrimaryContext& primary : g_contexts) {
    if (primary.handle == context) return !primary.retained;
  }
  return false;
}

}  // namespace

CUresult enter_context() {
  if (const CUresult status = driver_tables().status; status != CUDA_SUCCESS) return status;
  CUcontext context = nullptr;
  const CUresult result = driver().cuCtxGetCurrent_(&context);
  if (result != CUDA_SUCCESS) return result;
  const unsigned resets = g_resets.load(std::memory_order_acquire);
  if (context != nullptr && context == t_alive && resets == t_alive_resets) return CUDA_SUCCESS;
  if (context == nullptr || was_reset(context)) return enter_primary(t_device);
  t_alive = context;
  t_alive_resets = resets;
  return CUDA_SUCCESS;
}

CUresult current_device(int& ordinal) {
  if (const CUresult status = driver_tables().status; status != CUDA_SUCCESS) return status;
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (driver().cuCtxGetCurrent_(&context) == CUDA_SUCCESS && context != nullptr &&
      driver().cuCtxGetDevice_(&device) == CUDA_SUCCESS) {
    ordinal = device;
  } else {
    ordinal = t_device;
  }
  return CUDA_SUCCESS;
}

CUresult choose_device(int ordinal) {
  if (const CUresult status = driver_tables().status; status != CUDA_SUCCESS) return status;
  int count = 0;
  if (const CUresult result = driver().cuDeviceGetCount_(&count); result != CUDA_SUCCESS) return result;
  if (count == 0) return CUDA_ERROR_NO_DEVICE;
  if (ordinal < 0 || ordinal >= count) return CUDA_ERROR_INVALID_DEVICE;
  t_device = ordinal;
  return enter_primary(ordinal);
}

CUresult reset_current_device() {
  int ordinal = 0;
  if (const CUresult result = current_device(ordinal); result != CUDA_SUCCESS) return result;
  const CUresult result = driver().cuDevicePrimaryCtxReset_(ordinal);
  const std::scoped_lock lock(g_contexts_lock);
  g_contexts[static_cast<size_t>(ordinal)].retained = false;
  g_resets.fetch_add(1, std::memory_order_release);
  return result;
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) t_last_error = error;
  return error;
}

cudaError_t last_error(bool clear) {
  const cudaError_t error = t_last_error;
  if (clear) t_last_error = cudaSuccess;
  return error;
}

}  // namespace cuheap::sim::runtime
