#include "driver.h"

#include <dlfcn.h>

#include <mutex>

namespace cuheap::sim::runtime {
namespace {

// What a driver does not have answers like a driver that refuses: a caller never meets a null pointer.
CUresult missing_entry() {
  return CUDA_ERROR_NOT_SUPPORTED;
}

template <typename Entry>
Entry look_up(PFN_cuGetProcAddress_v12000 ask, const char* name, int version, cuuint64_t flags) {
  void* entry = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult result = ask(name, &entry, version, flags, &found);
  if (result != CUDA_SUCCESS || entry == nullptr) entry = reinterpret_cast<void*>(&missing_entry);
  return reinterpret_cast<Entry>(entry);
}

void fill(DriverTables& tables) {
  const PFN_cuGetProcAddress_v12000 ask = tables.look_up;
#define CUDART_DRIVER_CALL(name, version, per_thread_version)                                                 \
  tables.legacy.name##_ = look_up<PFN_##name##_v##version>(ask, #name, version, CU_GET_PROC_ADDRESS_DEFAULT); \
  tables.per_thread.name##_ = per_thread_version == 0                                                         \
                                  ? tables.legacy.name##_                                                     \
                                  : look_up<PFN_##name##_v##version>(ask, #name, per_thread_version,          \
                                                                     CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
#include "driver_calls.inc"
#undef CUDART_DRIVER_CALL
}

CUresult load(DriverTables& tables) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr)
    return static_cast<CUresult>(35);  // cudaErrorInsufficientDriver: what a machine without a driver answers
  tables.look_up = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (tables.look_up == nullptr) return static_cast<CUresult>(35);
  fill(tables);
  return tables.legacy.cuInit_(0);
}

DriverTables g_tables;
std::once_flag g_loaded;

}  // namespace

const DriverTables& driver_tables() {
  std::call_once(g_loaded, [] { g_tables.status = load(g_tables); });
  return g_tables;
}

}  // namespace cuheap::sim::runtime
