// Nobody walks around us: runtimes and libraries ask the driver for its functions by cuGetProcAddress. The driver answers
// first, name, version and flags being its business; then what it returned is replaced by address. So old ABIs, _ptsz
// twins and "not found" come out right without rules of ours. cuGetExportTable is never touched. dlsym: resolver.cpp.
#include "shim/driver/driver.h"
#include "shim/hooks/accounting.h"
#include "shim/hooks/entry_points.h"

using namespace cuheap;

CUHEAP_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** out, int version, cuuint64_t flags,
                                           CUdriverProcAddressQueryResult* status) {
  const CUresult result = driver().cuGetProcAddress_v2(symbol, out, version, flags, status);
  if (result == CUDA_SUCCESS && out != nullptr) *out = substitute(symbol, *out);
  return result;
}

CUHEAP_EXPORT CUresult cuGetProcAddress(const char* symbol, void** out, int version, cuuint64_t flags) {
  const CUresult result = driver().cuGetProcAddress(symbol, out, version, flags);
  if (result == CUDA_SUCCESS && out != nullptr) *out = substitute(symbol, *out);
  return result;
}
