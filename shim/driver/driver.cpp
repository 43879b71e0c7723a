#include "shim/driver/driver.h"

#include "shim/driver/elf_symbols.h"

namespace cuheap {
namespace {

constexpr const char* kDriverSoname = "libcuda.so.1";

constinit DriverRange found_range;
constinit bool found_simulated = false;
constinit bool found = false;  // set last, with release order

/// What a call gets whose function does not exist. Without any driver: what a program without CUDA may expect.
template <typename F>
struct StandIn;
template <typename... Args>
struct StandIn<CUresult (*)(Args...)> {
  template <CUresult (*DriverTable::* Slot)(Args...), CUresult kWithoutDriver>
  static CUresult call(Args... args) {
    if (!find_driver()) return kWithoutDriver;
    const auto function = detail::driver_table.*Slot;
    return function == &call<Slot, kWithoutDriver> ? CUDA_ERROR_NOT_SUPPORTED : function(args...);
  }
};

constexpr bool is_init(const char* name) { return __builtin_strcmp(name, "cuInit") == 0; }

}  // namespace

namespace detail {
// Constant-initialised: hooks may run before any constructor of this library.
constinit DriverTable driver_table = {
#define CUHEAP_DRIVER_CALL(name)                             \
  .name = &StandIn<decltype(&::name)>::call<&DriverTable::name, \
                                            is_init(#name) ? CUDA_ERROR_NO_DEVICE : CUDA_ERROR_NOT_INITIALIZED>,
#include "shim/driver/functions.inc"
#undef CUHEAP_DRIVER_CALL
};

constinit bool driver_stays = false;

// Before CUDA is initialised calls are few, and the library may come and go between them.
const DriverTable& table_of_what_is_loaded() {
  if (is_driver_found()) static_cast<void>(find_driver_again());
  return driver_table;
}
}  // namespace detail

const DriverSlot kDriverSlots[] = {
#define CUHEAP_DRIVER_CALL(name) {#name, offsetof(DriverTable, name)},
#include "shim/driver/functions.inc"
#undef CUHEAP_DRIVER_CALL
};
const std::size_t kDriverSlotCount = sizeof(kDriverSlots) / sizeof(kDriverSlots[0]);

static void** slot_pointer(const DriverSlot& slot) {
  return reinterpret_cast<void**>(reinterpret_cast<char*>(&detail::driver_table) + slot.offset);
}

bool is_driver_function(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return is_driver_found() && address >= found_range.begin && address < found_range.end;
}

void* driver_function(const DriverSlot& slot) {
  void* const pointer = *slot_pointer(slot);
  return is_driver_function(pointer) ? pointer : nullptr;
}

bool is_driver_found() { return __atomic_load_n(&found, __ATOMIC_ACQUIRE); }

DriverRange driver_range() { return is_driver_found() ? found_range : DriverRange{}; }

bool is_driver_simulated() { return is_driver_found() && found_simulated; }

static void fill_table(const LoadedObject& library) {
  for (const DriverSlot& slot : kDriverSlots) {
    if (void* const function = library.find(slot.name)) __atomic_store_n(slot_pointer(slot), function, __ATOMIC_RELEASE);
  }
  found_range = {library.begin, library.end};
  found_simulated = library.find("simgpu_version") != nullptr;
  __atomic_store_n(&found, true, __ATOMIC_RELEASE);
}

bool find_driver() {
  if (is_driver_found()) return true;
  LoadedObject library;
  if (!find_object(kDriverSoname, &library)) return false;
  fill_table(library);
  return true;
}

bool find_driver_again() {
  LoadedObject library;
  if (!find_object(kDriverSoname, &library)) return false;
  if (!is_driver_found() || library.begin != found_range.begin || library.end != found_range.end) fill_table(library);
  return true;
}

}  // namespace cuheap
