// The calling thread's last error, and the names and texts of all errors.
#include "runtime.h"

namespace cuheap::sim::runtime {

CUDART_EXPORT cudaError_t cudaGetLastError() {
  return last_error(true);
}
CUDART_EXPORT cudaError_t cudaPeekAtLastError() {
  return last_error(false);
}

CUDART_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  switch (static_cast<int>(error)) {
#define CUDART_ERROR(number, name, text) \
  case number:                           \
    return #name;
#include "errors.inc"
#undef CUDART_ERROR
    default:
      return "unrecognized error code";
  }
}

CUDART_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  switch (static_cast<int>(error)) {
#define CUDART_ERROR(number, name, text) \
  case number:                           \
    return text;
#include "errors.inc"
#undef CUDART_ERROR
    default:
      return "unrecognized error code";
  }
}

}  // namespace cuheap::sim::runtime
