#include "odd_driver.h"

#include <atomic>

#include "shim/driver/cuda_api.h"

// Exported by default visibility; no cuGetProcAddress: what is not here is "not in this driver".
namespace {

std::atomic<unsigned long long> next_address{0x700000000000};
void (*during_allocation)() = nullptr;
int context_marker = 0;

}  // namespace

extern "C" {

void odd_driver_during_allocation(void (*call)()) { during_allocation = call; }

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { *version = 13000; return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* count) { *count = 1; return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* device, int ordinal) { *device = ordinal; return CUDA_SUCCESS; }
CUresult cuDeviceGetName(char* name, int, CUdevice) { name[0] = 'o'; name[1] = '\0'; return CUDA_SUCCESS; }
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) { *bytes = size_t{1} << 40; return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) { *value = 0; return CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice* device) { *device = 0; return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(&context_marker);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  if (during_allocation != nullptr) during_allocation();
  // A few addresses over and over, as a busy program sees them.
  *out = 0x700000000000ull + (next_address.fetch_add(512, std::memory_order_relaxed) & 0xfffffull) * 512;
  return bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr) { return CUDA_SUCCESS; }

}  // extern "C"
