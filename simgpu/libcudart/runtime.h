// What every runtime call shares: the calling thread's last error and device, and the way in.
// A call that needs a context goes through with_context(), one that needs only the driver through with_driver(); both
// translate the driver's answer and remember it for cudaGetLastError.
#pragma once

#include <cuda_runtime_api.h>

#include <type_traits>

#include "driver.h"

#define CUDART_EXPORT extern "C" __attribute__((visibility("default")))
#define CUDART_UNPACK(...) __VA_ARGS__

// A call and its per-thread-default-stream twin: the same body over the two driver tables (named `driver` in it).
#define CUDART_WITH_TWIN(name, suffix, params, args)                        \
  static cudaError_t name##_on(const Driver& driver, CUDART_UNPACK params); \
  CUDART_EXPORT cudaError_t name params {                                   \
    return name##_on(runtime::driver(), CUDART_UNPACK args);                \
  }                                                                         \
  CUDART_EXPORT cudaError_t name##suffix params {                           \
    return name##_on(runtime::per_thread_driver(), CUDART_UNPACK args);     \
  }                                                                         \
  static cudaError_t name##_on([[maybe_unused]] const Driver& driver, CUDART_UNPACK params)

namespace cuheap::sim::runtime {

// Makes the thread's device current if nothing is: what the real runtime does lazily in every call.
CUresult enter_context();

// The device of the current context, else the one this thread chose.
CUresult current_device(int& ordinal);
CUresult choose_device(int ordinal);
CUresult reset_current_device();

cudaError_t remember(cudaError_t error);
cudaError_t last_error(bool clear);

// Runtime and driver share their numbers; the few names only the driver has are folded.
inline cudaError_t to_runtime(CUresult result) {
  return static_cast<cudaError_t>(result);
}
inline cudaError_t to_runtime(cudaError_t error) {
  return error;
}

template <typename Body>
cudaError_t with_driver(Body&& body) {
  if (const CUresult status = driver_tables().status; status != CUDA_SUCCESS) return remember(to_runtime(status));
  return remember(to_runtime(body()));
}

template <typename Body>
cudaError_t with_context(Body&& body) {
  if (const CUresult status = enter_context(); status != CUDA_SUCCESS) return remember(to_runtime(status));
  return remember(to_runtime(body()));
}

inline CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

// Handles of both APIs are the same objects under two names.
template <typename To, typename From>
To as(From handle) {
  static_assert(std::is_pointer_v<To> && std::is_pointer_v<From>);
  return reinterpret_cast<To>(handle);
}

}  // namespace cuheap::sim::runtime
