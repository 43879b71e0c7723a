// What the stand-ins for cuBLAS and cuBLASLt share: the C ABI of the public headers, without those headers (the pinned
// header wheels do not hold them). Enumerations are ints, handles are pointers to our own state.
#pragma once

#include <cuda_runtime_api.h>

#define BLAS_EXPORT extern "C" __attribute__((visibility("default")))

namespace cuheap::sim::blas {

// Values of cublas_api.h.
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 3,
  kInvalidValue = 7,
  kArchMismatch = 8,
  kMappingError = 11,
  kExecutionFailed = 13,
  kInternalError = 14,
  kNotSupported = 15,
  kLicenseError = 16,
};

// libraryPropertyType of library_types.h.
enum class Property : int { Major = 0, Minor = 1, Patch = 2 };

// The release this library plays: 13.1.0, as PyTorch 2.11 ships it, or 12.8.
#if CUDART_VERSION >= 13000
inline constexpr int kMajor = 13;
inline constexpr int kMinor = 1;
#else
inline constexpr int kMajor = 12;
inline constexpr int kMinor = 8;
#endif
inline constexpr int kVersion = kMajor * 10000 + kMinor * 100;

Status property(int which, int* value);
const char* status_name(int status);
const char* status_text(int status);

// As the documented cublasCreate: the runtime is started, and a machine without a device is refused.
Status start_runtime();

}  // namespace cuheap::sim::blas
