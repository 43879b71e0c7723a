// DriverTable: one pointer per driver function that we call or forward, under its exact name. The only way out of the
// shim: hooks forward through it, the pool calls through it, and nobody asks the loader for a driver function.
#pragma once
#include <cstddef>

#include "shim/driver/cuda_api.h"

namespace cuheap {

/// The real functions. A slot is never null: until its function is found it holds a stand-in that looks for the loaded
/// libcuda (an ELF walk, no loader call that could block) and then calls it, or answers an error when there is none.
/// Slots are published by plain aligned stores of the same value, so concurrent readers see the stand-in or the function.
struct DriverTable {
#define CUHEAP_DRIVER_CALL(name) decltype(&::name) name;
#include "shim/driver/functions.inc"
#undef CUHEAP_DRIVER_CALL
};

/// One function by number, for tables and for the resolver.
struct DriverSlot {
  const char* name;
  std::size_t offset;  // in DriverTable
};
extern const DriverSlot kDriverSlots[];
extern const std::size_t kDriverSlotCount;

namespace detail {
extern constinit DriverTable driver_table;
extern constinit bool driver_stays;
const DriverTable& table_of_what_is_loaded();
}  // namespace detail

inline const DriverTable& driver() {
  if (!__atomic_load_n(&detail::driver_stays, __ATOMIC_RELAXED)) [[unlikely]] return detail::table_of_what_is_loaded();
  return detail::driver_table;
}

/// CUDA is initialised: the library that was found is kept loaded from now on (lifecycle.cpp).
inline void driver_will_stay() { __atomic_store_n(&detail::driver_stays, true, __ATOMIC_RELAXED); }

/// The real function in this slot, or null if it has not been found (yet).
void* driver_function(const DriverSlot& slot);

/// True if the loaded driver exports the function, e.g. has(driver().cuCtxRecordEvent).
bool is_driver_function(const void* pointer);
template <typename F>
bool has(F* function) {
  return is_driver_function(reinterpret_cast<const void*>(function));
}

/// Finds the loaded libcuda.so.1 and fills the table, if that has not been done. False: no libcuda is loaded. Takes no
/// lock; several threads may do it at once.
bool find_driver();
/// Finds it again if the one that was found has been unloaded meanwhile: a program without a device looks, closes, and
/// looks again. Not once CUDA is initialised: from then on the library stays (lifecycle.cpp). Until then driver() does it too.
bool find_driver_again();
bool is_driver_found();

/// Where the found libcuda is mapped; empty if none.
struct DriverRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};
DriverRange driver_range();

/// True if the found driver is the make-believe one (it exports simgpu's control calls).
bool is_driver_simulated();

}  // namespace cuheap
