// Code that is loaded takes device memory: nothing of it is recorded, but idle memory of the pool must not keep it out.
// Without lazy loading only; what is loaded at a first launch finds what policy.h keeps free.
#include "shim/driver/driver.h"
#include "shim/hooks/accounting.h"

using namespace cuheap;

CUHEAP_EXPORT CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return with_relief(kAnyDevice, kAnyBytes, [&] { return driver().cuModuleLoad(module, path); });
}

CUHEAP_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return with_relief(kAnyDevice, kAnyBytes, [&] { return driver().cuModuleLoadData(module, image); });
}

CUHEAP_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options, void** values) {
  return with_relief(kAnyDevice, kAnyBytes, [&] { return driver().cuModuleLoadDataEx(module, image, count, options, values); });
}

CUHEAP_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return with_relief(kAnyDevice, kAnyBytes, [&] { return driver().cuModuleLoadFatBinary(module, image); });
}

CUHEAP_EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options, void** values, unsigned count,
                                         CUlibraryOption* library_options, void** library_values, unsigned library_count) {
  return with_relief(kAnyDevice, kAnyBytes, [&] {
    return driver().cuLibraryLoadData(library, code, options, values, count, library_options, library_values, library_count);
  });
}

CUHEAP_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* options, void** values,
                                             unsigned count, CUlibraryOption* library_options, void** library_values,
                                             unsigned library_count) {
  return with_relief(kAnyDevice, kAnyBytes, [&] {
    return driver().cuLibraryLoadFromFile(library, path, options, values, count, library_options, library_values, library_count);
  });
}
