// The stand-in for cuBLASLt: descriptors keep their attributes, the heuristic answers one algorithm that needs no
// workspace, and a matrix product is accepted and not computed.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>

#include "blas.h"

namespace cuheap::sim::blas {
namespace {

// A descriptor is a block of the caller's or ours, of the size that cublasLt.h gives it: entries of attribute, size,
// and the value without its leading zero bytes, so that all attributes of a matrix layout fit its 64 bytes.
class Descriptor {
 public:
  static Status init(void* block, std::size_t bytes, std::size_t needed) {
    if (block == nullptr || bytes < needed) return kInvalidValue;
    std::memset(block, 0, needed);
    auto* self = static_cast<Descriptor*>(block);
    self->capacity_ = static_cast<std::uint8_t>(needed - sizeof(Descriptor) > 255 ? 255 : needed - sizeof(Descriptor));
    return kSuccess;
  }

  Status set(int attribute, const void* value, std::size_t bytes) {
    if (value == nullptr || bytes == 0 || bytes > 15 || attribute < 0 || attribute > 255) return kInvalidValue;
    erase(attribute);
    const auto* source = static_cast<const std::uint8_t*>(value);
    std::size_t kept = bytes;
    while (kept > 0 && source[kept - 1] == 0) --kept;
    if (used_ + 2 + kept > capacity_) return kNotSupported;
    std::uint8_t* entry = entries() + used_;
    entry[0] = static_cast<std::uint8_t>(attribute);
    entry[1] = static_cast<std::uint8_t>(bytes << 4 | kept);
    std::memcpy(entry + 2, source, kept);
    used_ = static_cast<std::uint8_t>(used_ + 2 + kept);
    return kSuccess;
  }

  // An attribute that was never set reads zero: the default of all but a few. A size of 0 asks for the size.
  Status get(int attribute, void* out, std::size_t bytes, std::size_t* written) {
    const std::uint8_t* entry = find(attribute);
    const std::size_t size = entry == nullptr ? bytes : std::size_t{entry[1]} >> 4;
    if (written != nullptr) *written = size;
    if (bytes == 0) return written == nullptr ? kInvalidValue : kSuccess;
    if (out == nullptr || bytes < size) return kInvalidValue;
    std::memset(out, 0, bytes);
    if (entry != nullptr) std::memcpy(out, entry + 2, entry[1] & 15u);
    return kSuccess;
  }

 private:
  std::uint8_t* entries() { return reinterpret_cast<std::uint8_t*>(this + 1); }

  std::uint8_t* find(int attribute) {
    for (std::uint8_t* entry = entries(); entry < entries() + used_; entry += 2 + (entry[1] & 15u)) {
      if (entry[0] == attribute) return entry;
    }
    return nullptr;
  }

  void erase(int attribute) {
    std::uint8_t* entry = find(attribute);
    if (entry == nullptr) return;
    const std::size_t size = 2 + (entry[1] & 15u);
    std::memmove(entry, entry + size, static_cast<std::size_t>(entries() + used_ - (entry + size)));
    used_ = static_cast<std::uint8_t>(used_ - size);
  }

  std::uint8_t used_;
  std::uint8_t capacity_;
};

// Sizes in cublasLt.h.
constexpr std::size_t kLayoutBytes = 64;
constexpr std::size_t kMatmulBytes = 256;
constexpr std::size_t kTransformBytes = 64;
constexpr std::size_t kPreferenceBytes = 64;
constexpr std::size_t kEmulationBytes = 64;

struct Algorithm {
  std::uint64_t data[8];
};

struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

Status create(Descriptor** out, std::size_t bytes) {
  if (out == nullptr) return kInvalidValue;
  *out = static_cast<Descriptor*>(::operator new(bytes, std::nothrow));
  return *out == nullptr ? kAllocFailed : Descriptor::init(*out, bytes, bytes);
}

int destroy(Descriptor* descriptor) {
  ::operator delete(descriptor);
  return kSuccess;
}

HeuristicResult any_algorithm() {
  HeuristicResult result{};
  result.waves = 1.0f;
  return result;
}

// Attribute numbers in cublasLt.h.
enum LayoutAttribute { kType = 0, kRows = 2, kColumns = 3, kLeadingDimension = 4, kBatchCount = 5 };
enum MatmulAttribute { kComputeType = 0, kScaleType = 1 };

Status init_layout(Descriptor* layout, std::size_t bytes, int type, std::uint64_t rows, std::uint64_t columns,
                   std::int64_t leading) {
  if (const Status status = Descriptor::init(layout, bytes, kLayoutBytes); status != kSuccess) return status;
  const std::int32_t batch = 1;
  layout->set(kType, &type, sizeof type);
  layout->set(kRows, &rows, sizeof rows);
  layout->set(kColumns, &columns, sizeof columns);
  layout->set(kLeadingDimension, &leading, sizeof leading);
  return layout->set(kBatchCount, &batch, sizeof batch);
}

Status init_matmul(Descriptor* matmul, std::size_t bytes, int compute_type, int scale_type) {
  if (const Status status = Descriptor::init(matmul, bytes, kMatmulBytes); status != kSuccess) return status;
  matmul->set(kComputeType, &compute_type, sizeof compute_type);
  return matmul->set(kScaleType, &scale_type, sizeof scale_type);
}

Status init_transform(Descriptor* transform, std::size_t bytes, int scale_type) {
  if (const Status status = Descriptor::init(transform, bytes, kTransformBytes); status != kSuccess) return status;
  return transform->set(0, &scale_type, sizeof scale_type);
}

}  // namespace

BLAS_EXPORT int cublasLtCreate(void** handle) {
  if (handle == nullptr) return kInvalidValue;
  if (const Status status = start_runtime(); status != kSuccess) return status;
  *handle = ::operator new(1, std::nothrow);
  return *handle == nullptr ? kAllocFailed : kSuccess;
}

BLAS_EXPORT int cublasLtDestroy(void* handle) {
  if (handle == nullptr) return kNotInitialized;
  ::operator delete(handle);
  return kSuccess;
}

BLAS_EXPORT std::size_t cublasLtGetVersion() {
  return kVersion;
}
BLAS_EXPORT std::size_t cublasLtGetCudartVersion() {
  return CUDART_VERSION;
}
BLAS_EXPORT int cublasLtGetProperty(int which, int* value) {
  return property(which, value);
}
BLAS_EXPORT const char* cublasLtGetStatusName(int status) {
  return status_name(status);
}
BLAS_EXPORT const char* cublasLtGetStatusString(int status) {
  return status_text(status);
}

// Descriptors: create, init in place, destroy, set, get. Each kind has its own names for the same five.

#define CUBLASLT_ATTRIBUTES(kind)                                                                                     \
  BLAS_EXPORT int cublasLt##kind##Destroy(Descriptor* descriptor) {                                                   \
    return destroy(descriptor);                                                                                       \
  }                                                                                                                   \
  BLAS_EXPORT int cublasLt##kind##SetAttribute(Descriptor* descriptor, int attribute, const void* value,              \
                                               std::size_t bytes) {                                                   \
    return descriptor == nullptr ? kInvalidValue : descriptor->set(attribute, value, bytes);                          \
  }                                                                                                                   \
  BLAS_EXPORT int cublasLt##kind##GetAttribute(Descriptor* descriptor, int attribute, void* value, std::size_t bytes, \
                                               std::size_t* written) {                                                \
    return descriptor == nullptr ? kInvalidValue : descriptor->get(attribute, value, bytes, written);                 \
  }

CUBLASLT_ATTRIBUTES(MatrixLayout)
CUBLASLT_ATTRIBUTES(MatmulDesc)
CUBLASLT_ATTRIBUTES(MatrixTransformDesc)
CUBLASLT_ATTRIBUTES(MatmulPreference)
CUBLASLT_ATTRIBUTES(EmulationDesc)

BLAS_EXPORT int cublasLtMatrixLayoutInit_internal(Descriptor* layout, std::size_t bytes, int type, std::uint64_t rows,
                                                  std::uint64_t columns, std::int64_t leading) {
  return init_layout(layout, bytes, type, rows, columns, leading);
}

BLAS_EXPORT int cublasLtMatrixLayoutCreate(Descriptor** layout, int type, std::uint64_t rows, std::uint64_t columns,
                                           std::int64_t leading) {
  if (const Status status = create(layout, kLayoutBytes); status != kSuccess) return status;
  return init_layout(*layout, kLayoutBytes, type, rows, columns, leading);
}

BLAS_EXPORT int cublasLtMatmulDescInit_internal(Descriptor* matmul, std::size_t bytes, int compute_type,
                                                int scale_type) {
  return init_matmul(matmul, bytes, compute_type, scale_type);
}

BLAS_EXPORT int cublasLtMatmulDescCreate(Descriptor** matmul, int compute_type, int scale_type) {
  if (const Status status = create(matmul, kMatmulBytes); status != kSuccess) return status;
  return init_matmul(*matmul, kMatmulBytes, compute_type, scale_type);
}

BLAS_EXPORT int cublasLtMatrixTransformDescInit_internal(Descriptor* transform, std::size_t bytes, int scale_type) {
  return init_transform(transform, bytes, scale_type);
}

BLAS_EXPORT int cublasLtMatrixTransformDescCreate(Descriptor** transform, int scale_type) {
  if (const Status status = create(transform, kTransformBytes); status != kSuccess) return status;
  return init_transform(*transform, kTransformBytes, scale_type);
}

BLAS_EXPORT int cublasLtMatmulPreferenceInit_internal(Descriptor* preference, std::size_t bytes) {
  return Descriptor::init(preference, bytes, kPreferenceBytes);
}

BLAS_EXPORT int cublasLtMatmulPreferenceCreate(Descriptor** preference) {
  return create(preference, kPreferenceBytes);
}

BLAS_EXPORT int cublasLtEmulationDescInit_internal(Descriptor* emulation, std::size_t bytes) {
  return Descriptor::init(emulation, bytes, kEmulationBytes);
}

BLAS_EXPORT int cublasLtEmulationDescCreate(Descriptor** emulation) {
  return create(emulation, kEmulationBytes);
}

// Algorithms.

BLAS_EXPORT int cublasLtMatmulAlgoGetHeuristic(void* handle, Descriptor* operation, Descriptor*, Descriptor*,
                                               Descriptor*, Descriptor*, Descriptor*, int requested,
                                               HeuristicResult* results, int* returned) {
  if (handle == nullptr) return kNotInitialized;
  if (operation == nullptr || results == nullptr || returned == nullptr || requested <= 0) return kInvalidValue;
  results[0] = any_algorithm();
  *returned = 1;
  return kSuccess;
}

BLAS_EXPORT int cublasLtMatmulAlgoCheck(void* handle, Descriptor* operation, Descriptor*, Descriptor*, Descriptor*,
                                        Descriptor*, const Algorithm* algorithm, HeuristicResult* result) {
  if (handle == nullptr) return kNotInitialized;
  if (operation == nullptr || algorithm == nullptr || result == nullptr) return kInvalidValue;
  *result = any_algorithm();
  result->algorithm = *algorithm;
  return kSuccess;
}

BLAS_EXPORT int cublasLtMatmulAlgoGetIds(void* handle, int, int, int, int, int, int, int requested, int* ids,
                                         int* returned) {
  if (handle == nullptr) return kNotInitialized;
  if (ids == nullptr || returned == nullptr || requested <= 0) return kInvalidValue;
  ids[0] = 0;
  *returned = 1;
  return kSuccess;
}

BLAS_EXPORT int cublasLtMatmulAlgoInit(void* handle, int, int, int, int, int, int, int, Algorithm* algorithm) {
  if (handle == nullptr) return kNotInitialized;
  if (algorithm == nullptr) return kInvalidValue;
  *algorithm = {};
  return kSuccess;
}

// An algorithm's options and abilities all read zero: one tile, no split, no workspace.
BLAS_EXPORT int cublasLtMatmulAlgoCapGetAttribute(const Algorithm* algorithm, int, void* value, std::size_t bytes,
                                                  std::size_t* written) {
  if (algorithm == nullptr) return kInvalidValue;
  if (written != nullptr) *written = bytes;
  if (value != nullptr) std::memset(value, 0, bytes);
  return kSuccess;
}

BLAS_EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, int attribute, void* value,
                                                     std::size_t bytes, std::size_t* written) {
  return cublasLtMatmulAlgoCapGetAttribute(algorithm, attribute, value, bytes, written);
}

BLAS_EXPORT int cublasLtMatmulAlgoConfigSetAttribute(Algorithm* algorithm, int, const void* value, std::size_t) {
  return algorithm == nullptr || value == nullptr ? kInvalidValue : kSuccess;
}

// Work: accepted.

BLAS_EXPORT int cublasLtMatmul(void* handle, Descriptor* operation, const void*, const void*, Descriptor*, const void*,
                               Descriptor*, const void*, const void*, Descriptor*, void*, Descriptor*, const Algorithm*,
                               void*, std::size_t, cudaStream_t) {
  if (handle == nullptr) return kNotInitialized;
  return operation == nullptr ? kInvalidValue : kSuccess;
}

BLAS_EXPORT int cublasLtMatrixTransform(void* handle, Descriptor* operation, const void*, const void*, Descriptor*,
                                        const void*, const void*, Descriptor*, void*, Descriptor*, cudaStream_t) {
  if (handle == nullptr) return kNotInitialized;
  return operation == nullptr ? kInvalidValue : kSuccess;
}

BLAS_EXPORT int cublasLtHeuristicsCacheGetCapacity(std::size_t* capacity) {
  if (capacity == nullptr) return kInvalidValue;
  *capacity = 0;
  return kSuccess;
}

}  // namespace cuheap::sim::blas
