// The stand-in for cuBLAS: keeps what a handle is told (stream, workspace, modes), moves what cublasSet/GetVector and
// Matrix move, and computes nothing. Operations that are not here are stubs that answer success; a result on the host
// reads zero.
#include <cstddef>
#include <cstdint>
#include <new>

#include "blas.h"

namespace cuheap::sim::blas {
namespace {

struct Handle {
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;  // the caller's; we take none of our own, since nothing is computed in it
  std::size_t workspace_bytes = 0;
  int pointer_mode = 0;  // host
  int atomics_mode = 0;  // not allowed
  int math_mode = 0;     // default
  int sm_count_target = 0;
  int emulation_strategy = 0;
  int emulation_special_values = 0;
  int mantissa_control = 0;
  int mantissa_bits = 0;
  int mantissa_offset = 0;
  int* mantissa_bits_out = nullptr;
};

// The documented rules of every call: a handle, and a place for the answer.
template <typename Value>
Status get(Handle* handle, Value Handle::*member, Value* out) {
  if (handle == nullptr) return kNotInitialized;
  if (out == nullptr) return kInvalidValue;
  *out = handle->*member;
  return kSuccess;
}

template <typename Value>
Status set(Handle* handle, Value Handle::*member, Value value) {
  if (handle == nullptr) return kNotInitialized;
  handle->*member = value;
  return kSuccess;
}

// A scalar that the real library would have computed; in device memory it stays what it was.
template <typename Result>
Status answer_zero(Handle* handle, Result* result) {
  if (handle == nullptr) return kNotInitialized;
  if (result == nullptr) return kInvalidValue;
  if (handle->pointer_mode == 0) *result = Result{};
  return kSuccess;
}

struct Complex {
  float x, y;
};
struct DoubleComplex {
  double x, y;
};

// Rows of elements: a vector with increments is a matrix one element wide.
Status move(std::int64_t rows, std::int64_t columns, std::int64_t element, const void* from, std::int64_t from_stride,
            void* to, std::int64_t to_stride, cudaMemcpyKind kind, const cudaStream_t* stream) {
  if (rows < 0 || columns < 0 || element <= 0 || from_stride <= 0 || to_stride <= 0) return kInvalidValue;
  if (rows == 0 || columns == 0) return kSuccess;
  const auto bytes = [&](std::int64_t count) { return static_cast<std::size_t>(count * element); };
  const cudaError_t error = stream == nullptr
                                ? cudaMemcpy2D(to, bytes(to_stride), from, bytes(from_stride), bytes(rows),
                                               static_cast<std::size_t>(columns), kind)
                                : cudaMemcpy2DAsync(to, bytes(to_stride), from, bytes(from_stride), bytes(rows),
                                                    static_cast<std::size_t>(columns), kind, *stream);
  return error == cudaSuccess ? kSuccess : kMappingError;
}

}  // namespace

// The handle.

BLAS_EXPORT int cublasCreate_v2(Handle** handle) {
  if (handle == nullptr) return kInvalidValue;
  *handle = nullptr;
  if (const Status status = start_runtime(); status != kSuccess) return status;
  *handle = new (std::nothrow) Handle;
  return *handle == nullptr ? kAllocFailed : kSuccess;
}

BLAS_EXPORT int cublasDestroy_v2(Handle* handle) {
  if (handle == nullptr) return kNotInitialized;
  delete handle;
  return kSuccess;
}

BLAS_EXPORT int cublasGetVersion_v2(Handle*, int* version) {  // documented: the handle may be null
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}

BLAS_EXPORT int cublasGetProperty(int which, int* value) {
  return property(which, value);
}
BLAS_EXPORT std::size_t cublasGetCudartVersion() {
  return CUDART_VERSION;
}
BLAS_EXPORT const char* cublasGetStatusName(int status) {
  return status_name(status);
}
BLAS_EXPORT const char* cublasGetStatusString(int status) {
  return status_text(status);
}

BLAS_EXPORT int cublasSetStream_v2(Handle* handle, cudaStream_t stream) {
  if (handle == nullptr) return kNotInitialized;
  handle->stream = stream;
  handle->workspace = nullptr;  // documented: setting the stream goes back to the default workspace
  handle->workspace_bytes = 0;
  return kSuccess;
}

BLAS_EXPORT int cublasGetStream_v2(Handle* handle, cudaStream_t* stream) {
  return get(handle, &Handle::stream, stream);
}

BLAS_EXPORT int cublasSetWorkspace_v2(Handle* handle, void* workspace, std::size_t bytes) {
  if (handle == nullptr) return kNotInitialized;
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return kInvalidValue;  // documented alignment
  handle->workspace = workspace;
  handle->workspace_bytes = bytes;
  return kSuccess;
}

BLAS_EXPORT int cublasGetPointerMode_v2(Handle* handle, int* mode) {
  return get(handle, &Handle::pointer_mode, mode);
}
BLAS_EXPORT int cublasSetPointerMode_v2(Handle* handle, int mode) {
  return set(handle, &Handle::pointer_mode, mode);
}
BLAS_EXPORT int cublasGetAtomicsMode(Handle* handle, int* mode) {
  return get(handle, &Handle::atomics_mode, mode);
}
BLAS_EXPORT int cublasSetAtomicsMode(Handle* handle, int mode) {
  return set(handle, &Handle::atomics_mode, mode);
}
BLAS_EXPORT int cublasGetMathMode(Handle* handle, int* mode) {
  return get(handle, &Handle::math_mode, mode);
}
BLAS_EXPORT int cublasSetMathMode(Handle* handle, int mode) {
  return set(handle, &Handle::math_mode, mode);
}
BLAS_EXPORT int cublasGetSmCountTarget(Handle* handle, int* count) {
  return get(handle, &Handle::sm_count_target, count);
}
BLAS_EXPORT int cublasSetSmCountTarget(Handle* handle, int count) {
  return set(handle, &Handle::sm_count_target, count);
}

#define CUBLAS_STATE(name, type, member)                         \
  BLAS_EXPORT int cublasGet##name(Handle* handle, type* value) { \
    return get(handle, &Handle::member, value);                  \
  }                                                              \
  BLAS_EXPORT int cublasSet##name(Handle* handle, type value) {  \
    return set(handle, &Handle::member, value);                  \
  }

CUBLAS_STATE(EmulationStrategy, int, emulation_strategy)
CUBLAS_STATE(EmulationSpecialValuesSupport, int, emulation_special_values)
CUBLAS_STATE(FixedPointEmulationMantissaControl, int, mantissa_control)
CUBLAS_STATE(FixedPointEmulationMaxMantissaBitCount, int, mantissa_bits)
CUBLAS_STATE(FixedPointEmulationMantissaBitOffset, int, mantissa_offset)
CUBLAS_STATE(FixedPointEmulationMantissaBitCountPointer, int*, mantissa_bits_out)

using LogCallback = void (*)(const char*);
static LogCallback g_log_callback = nullptr;

BLAS_EXPORT int cublasSetLoggerCallback(LogCallback callback) {
  g_log_callback = callback;
  return kSuccess;
}

BLAS_EXPORT int cublasGetLoggerCallback(LogCallback* callback) {
  if (callback == nullptr) return kInvalidValue;
  *callback = g_log_callback;
  return kSuccess;
}

// Moving vectors and matrices between host and device.

#define CUBLAS_MOVES(suffix, integer)                                                                                 \
  BLAS_EXPORT int cublasSetVector##suffix(integer n, integer element, const void* x, integer incx, void* y,           \
                                          integer incy) {                                                             \
    return move(1, n, element, x, incx, y, incy, cudaMemcpyHostToDevice, nullptr);                                    \
  }                                                                                                                   \
  BLAS_EXPORT int cublasGetVector##suffix(integer n, integer element, const void* x, integer incx, void* y,           \
                                          integer incy) {                                                             \
    return move(1, n, element, x, incx, y, incy, cudaMemcpyDeviceToHost, nullptr);                                    \
  }                                                                                                                   \
  BLAS_EXPORT int cublasSetVectorAsync##suffix(integer n, integer element, const void* x, integer incx, void* y,      \
                                               integer incy, cudaStream_t stream) {                                   \
    return move(1, n, element, x, incx, y, incy, cudaMemcpyHostToDevice, &stream);                                    \
  }                                                                                                                   \
  BLAS_EXPORT int cublasGetVectorAsync##suffix(integer n, integer element, const void* x, integer incx, void* y,      \
                                               integer incy, cudaStream_t stream) {                                   \
    return move(1, n, element, x, incx, y, incy, cudaMemcpyDeviceToHost, &stream);                                    \
  }                                                                                                                   \
  BLAS_EXPORT int cublasSetMatrix##suffix(integer rows, integer columns, integer element, const void* a, integer lda, \
                                          void* b, integer ldb) {                                                     \
    return move(rows, columns, element, a, lda, b, ldb, cudaMemcpyHostToDevice, nullptr);                             \
  }                                                                                                                   \
  BLAS_EXPORT int cublasGetMatrix##suffix(integer rows, integer columns, integer element, const void* a, integer lda, \
                                          void* b, integer ldb) {                                                     \
    return move(rows, columns, element, a, lda, b, ldb, cudaMemcpyDeviceToHost, nullptr);                             \
  }                                                                                                                   \
  BLAS_EXPORT int cublasSetMatrixAsync##suffix(integer rows, integer columns, integer element, const void* a,         \
                                               integer lda, void* b, integer ldb, cudaStream_t stream) {              \
    return move(rows, columns, element, a, lda, b, ldb, cudaMemcpyHostToDevice, &stream);                             \
  }                                                                                                                   \
  BLAS_EXPORT int cublasGetMatrixAsync##suffix(integer rows, integer columns, integer element, const void* a,         \
                                               integer lda, void* b, integer ldb, cudaStream_t stream) {              \
    return move(rows, columns, element, a, lda, b, ldb, cudaMemcpyDeviceToHost, &stream);                             \
  }

CUBLAS_MOVES(, int)
CUBLAS_MOVES(_64, std::int64_t)

// Reductions to one scalar.

#define CUBLAS_DOT(name, type)                                                                               \
  BLAS_EXPORT int cublas##name##_v2(Handle* handle, int, const void*, int, const void*, int, type* result) { \
    return answer_zero(handle, result);                                                                      \
  }                                                                                                          \
  BLAS_EXPORT int cublas##name##_v2_64(Handle* handle, std::int64_t, const void*, std::int64_t, const void*, \
                                       std::int64_t, type* result) {                                         \
    return answer_zero(handle, result);                                                                      \
  }

#define CUBLAS_REDUCE(name, type, wide_type)                                                                         \
  BLAS_EXPORT int cublas##name##_v2(Handle* handle, int, const void*, int, type* result) {                           \
    return answer_zero(handle, result);                                                                              \
  }                                                                                                                  \
  BLAS_EXPORT int cublas##name##_v2_64(Handle* handle, std::int64_t, const void*, std::int64_t, wide_type* result) { \
    return answer_zero(handle, result);                                                                              \
  }

CUBLAS_DOT(Sdot, float)
CUBLAS_DOT(Ddot, double)
CUBLAS_DOT(Cdotu, Complex)
CUBLAS_DOT(Cdotc, Complex)
CUBLAS_DOT(Zdotu, DoubleComplex)
CUBLAS_DOT(Zdotc, DoubleComplex)
CUBLAS_REDUCE(Snrm2, float, float)
CUBLAS_REDUCE(Dnrm2, double, double)
CUBLAS_REDUCE(Scnrm2, float, float)
CUBLAS_REDUCE(Dznrm2, double, double)
CUBLAS_REDUCE(Sasum, float, float)
CUBLAS_REDUCE(Dasum, double, double)
CUBLAS_REDUCE(Scasum, float, float)
CUBLAS_REDUCE(Dzasum, double, double)
CUBLAS_REDUCE(Isamax, int, std::int64_t)
CUBLAS_REDUCE(Idamax, int, std::int64_t)
CUBLAS_REDUCE(Icamax, int, std::int64_t)
CUBLAS_REDUCE(Izamax, int, std::int64_t)
CUBLAS_REDUCE(Isamin, int, std::int64_t)
CUBLAS_REDUCE(Idamin, int, std::int64_t)
CUBLAS_REDUCE(Icamin, int, std::int64_t)
CUBLAS_REDUCE(Izamin, int, std::int64_t)

// The legacy API of cublas.h is not played: cublasInit refuses, so no program relies on what its functions return.
BLAS_EXPORT int cublasInit() {
  return kNotSupported;
}
BLAS_EXPORT void cublasXerbla(const char*, int) {}

}  // namespace cuheap::sim::blas
