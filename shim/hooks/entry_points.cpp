#include "shim/hooks/entry_points.h"

#include <cstring>

#include "shim/hooks/entry_names.h"

namespace cuheap {

const EntryPoint kEntryPoints[] = {
#define CUHEAP_HOOK(name, need, action) \
  {#name, reinterpret_cast<void*>(&::name), {#name, offsetof(DriverTable, name)}, Need::need, Action::action},
#define CUHEAP_PASS(name, why)
#include "shim/hooks/entry_points.inc"
#undef CUHEAP_HOOK
#undef CUHEAP_PASS
};
const std::size_t kEntryPointCount = sizeof(kEntryPoints) / sizeof(kEntryPoints[0]);

const EntryPoint* find_entry_point(const char* name) {
  const int number = find_entry_number(name);
  return number >= 0 ? &kEntryPoints[number] : nullptr;
}

void* substitute(const char* symbol, void* real) {
  if (real == nullptr || symbol == nullptr) return real;
  const std::size_t size = std::strlen(symbol);
  for (const EntryPoint& entry : kEntryPoints) {
    if (driver_function(entry.slot) == real && std::strncmp(entry.name, symbol, size) == 0) return entry.hook;
  }
  return real;
}

}  // namespace cuheap
