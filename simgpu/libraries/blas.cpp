#include "blas.h"

namespace cuheap::sim::blas {

Status property(int which, int* value) {
  if (value == nullptr) return kInvalidValue;
  switch (static_cast<Property>(which)) {
    case Property::Major:
      *value = kMajor;
      return kSuccess;
    case Property::Minor:
      *value = kMinor;
      return kSuccess;
    case Property::Patch:
      *value = 0;
      return kSuccess;
  }
  return kInvalidValue;
}

const char* status_name(int status) {
  switch (status) {
    case kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kAllocFailed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kArchMismatch:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case kMappingError:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kInternalError:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case kLicenseError:
      return "CUBLAS_STATUS_LICENSE_ERROR";
    default:
      return "unknown status";
  }
}

const char* status_text(int status) {
  switch (status) {
    case kSuccess:
      return "success";
    case kNotInitialized:
      return "the library was not initialized";
    case kAllocFailed:
      return "the resource allocation failed";
    case kInvalidValue:
      return "an invalid value was used as an argument";
    case kArchMismatch:
      return "an absent device architectural feature is required";
    case kMappingError:
      return "an access to GPU memory space failed";
    case kExecutionFailed:
      return "the GPU program failed to execute";
    case kInternalError:
      return "an internal operation failed";
    case kNotSupported:
      return "the requested functionality is not supported";
    case kLicenseError:
      return "license error";
    default:
      return "unknown status";
  }
}

Status start_runtime() {
  return cudaFree(nullptr) == cudaSuccess ? kSuccess : kNotInitialized;
}

}  // namespace cuheap::sim::blas
