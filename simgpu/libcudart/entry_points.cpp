// The runtime hands out driver entry points: the question goes to the driver as it is, through the pointer we were
// given ourselves.
#include "runtime.h"

namespace cuheap::sim::runtime {
namespace {

cudaDriverEntryPointQueryResult to_runtime(CUdriverProcAddressQueryResult result) {
  switch (result) {
    case CU_GET_PROC_ADDRESS_SUCCESS:
      return cudaDriverEntryPointSuccess;
    case CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT:
      return cudaDriverEntryPointVersionNotSufficent;
    default:
      return cudaDriverEntryPointSymbolNotFound;
  }
}

// A name that is not there is not an error of the call: success, a null pointer, and the reason in *status.
cudaError_t entry_point(const char* symbol, void** pointer, unsigned int version, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* status, bool per_thread) {
  if (symbol == nullptr || pointer == nullptr) return remember(cudaErrorInvalidValue);
  const bool is_default = (flags & (cudaEnableLegacyStream | cudaEnablePerThreadDefaultStream)) == 0;
  if (is_default && per_thread) flags |= cudaEnablePerThreadDefaultStream;
  return with_driver([&] {
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    *pointer = nullptr;
    const CUresult result = driver_tables().look_up(symbol, pointer, static_cast<int>(version), flags, &found);
    if (status != nullptr) *status = to_runtime(found);
    const bool is_answer = found != CU_GET_PROC_ADDRESS_SUCCESS && status != nullptr;
    return result == CUDA_ERROR_NOT_FOUND && is_answer ? CUDA_SUCCESS : result;
  });
}

}  // namespace

CUDART_EXPORT cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** pointer, unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, pointer, CUDART_VERSION, flags, status, false);
}

CUDART_EXPORT cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** pointer, unsigned long long flags,
                                                       cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, pointer, CUDART_VERSION, flags, status, true);
}

CUDART_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** pointer, unsigned int version,
                                                           unsigned long long flags,
                                                           cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, pointer, version, flags, status, false);
}

CUDART_EXPORT cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** pointer,
                                                                unsigned int version, unsigned long long flags,
                                                                cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, pointer, version, flags, status, true);
}

}  // namespace cuheap::sim::runtime
