// Driver: the table of driver entry points behind this runtime, filled as the real runtime fills its own:
// dlopen("libcuda.so.1"), dlsym("cuGetProcAddress_v2"), then one question per name and version. Nothing else leads to
// the driver, so a preload library that hooks dlsym, cuGetProcAddress or the driver's exports sees every call.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

namespace cuheap::sim::runtime {

// Declared by cuda.h of both releases, but typed by cudaTypedefs.h of 13.0 only.
using PFN_cuLibraryGetKernelCount_v12040 = decltype(&::cuLibraryGetKernelCount);
using PFN_cuLibraryEnumerateKernels_v12040 = decltype(&::cuLibraryEnumerateKernels);
// Declared by cudaProfiler.h, which the header wheels leave out.
using PFN_cuProfilerStart_v4000 = CUresult (*)();
using PFN_cuProfilerStop_v4000 = CUresult (*)();

struct Driver {
#define CUDART_DRIVER_CALL(name, version, per_thread_version) PFN_##name##_v##version name##_;
#include "driver_calls.inc"
#undef CUDART_DRIVER_CALL
};

// Both tables and the look-up itself; filled once, by the first runtime call of the process.
struct DriverTables {
  Driver legacy;      // stream 0 is the legacy default stream
  Driver per_thread;  // stream 0 is the calling thread's own
  PFN_cuGetProcAddress_v12000 look_up;
  CUresult status;  // CUDA_SUCCESS once cuInit has succeeded
};

const DriverTables& driver_tables();

inline const Driver& driver() {
  return driver_tables().legacy;
}
inline const Driver& per_thread_driver() {
  return driver_tables().per_thread;
}

}  // namespace cuheap::sim::runtime
