#include "shim/hooks/resolver.h"

#include <dlfcn.h>

#include <cstring>

#include "shim/driver/elf_symbols.h"
#include "shim/hooks/entry_points.h"
#include "shim/lifecycle.h"
#include "tracer/module_map.h"

namespace cuheap {
namespace {

constinit DlsymFunction next = nullptr;

/// The C library's own.
DlsymFunction find_libc() {
  // 2.34 merged libdl into libc; the other two are the first versions of the two architectures.
  constexpr const char* kVersions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
  for (const char* version : kVersions) {
    if (void* const found = dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<DlsymFunction>(found);
  }
  return reinterpret_cast<DlsymFunction>(find_symbol("dlsym", reinterpret_cast<const void*>(&find_libc)));
}

/// Another library that stands before dlsym behind us must be asked, as it would be without us. Its dlsym has no version, so
/// dlvsym passes it by.
DlsymFunction find_next() {
  const DlsymFunction libc = find_libc();
  void* const found = libc != nullptr ? libc(RTLD_NEXT, "dlsym") : nullptr;
  return found != nullptr ? reinterpret_cast<DlsymFunction>(found) : libc;
}

/// The answer of a process without libcuda. Our own export of the name must not make it look as if there were one; the
/// failed look-up is the real dlsym's, so that dlerror() has something to say.
void* not_there(const char* name) {
  constexpr const char kWhy[] = " (libcuda.so.1 is not loaded)";
  char text[128];
  const std::size_t size = strnlen(name, sizeof(text) - sizeof(kWhy));
  std::memcpy(text, name, size);
  std::memcpy(text + size, kWhy, sizeof(kWhy));
  return next_dlsym()(RTLD_DEFAULT, text);
}

}  // namespace

DlsymFunction next_dlsym() {
  DlsymFunction found = __atomic_load_n(&next, __ATOMIC_ACQUIRE);
  if (found == nullptr) {
    found = find_next();
    __atomic_store_n(&next, found, __ATOMIC_RELEASE);
  }
  return found;
}

void* look_up_hooked(void* handle, const char* name) {
  const EntryPoint* const entry = find_entry_point(name);
  if (handle == RTLD_DEFAULT) return not_there(name);
  void* const real = next_dlsym()(handle, name);
  if (real == nullptr || entry == nullptr) return real;
  const bool have_driver = find_driver();
  if (real == entry->hook) return have_driver ? real : not_there(name);
  if (!have_driver) return real;
  if (driver_function(entry->slot) != real && !is_armed()) find_driver_again();
  return driver_function(entry->slot) == real ? entry->hook : real;
}

}  // namespace cuheap

/// For the assembly stub: the function that shall answer this call; it is jumped to with the same arguments.
extern "C" __attribute__((visibility("hidden"), used)) cuheap::DlsymFunction cuheap_route_dlsym(void* handle, const char* name) {
  using namespace cuheap;
  if (handle == RTLD_NEXT || find_entry_point(name) == nullptr) return next_dlsym();
  if (handle == RTLD_DEFAULT) return find_driver() ? next_dlsym() : &look_up_hooked;
  return &look_up_hooked;
}

/// What is remembered of code holds until an object is unloaded; asking the loader at every event would take its lock there.
/// Whoever unloads holds that lock anyway. An unload on another way (a dlclose looked up in libc itself) is noticed at the
/// next new stack.
extern "C" __attribute__((visibility("default"))) int dlclose(void* handle) {
  using namespace cuheap;
  using Function = int (*)(void*);
  static constinit Function next_close = nullptr;
  Function close = __atomic_load_n(&next_close, __ATOMIC_ACQUIRE);
  if (close == nullptr) {
    close = reinterpret_cast<Function>(next_dlsym()(RTLD_NEXT, "dlclose"));
    if (close == nullptr) return -1;
    __atomic_store_n(&next_close, close, __ATOMIC_RELEASE);
  }
  const int result = close(handle);
  static_cast<void>(look_for_unloads());
  return result;
}
