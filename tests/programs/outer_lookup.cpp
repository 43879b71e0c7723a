// A neighbour that stands before dlsym, as overlays and limiters do, and says what it saw. To be preloaded before or after another.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

static int seen = 0;

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) {
  using Function = void* (*)(void*, const char*);
  static const auto next = [] {
    void* found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (found == nullptr) found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (found == nullptr) found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
    return reinterpret_cast<Function>(found);
  }();
  seen += std::strcmp(name, "cuMemAlloc_v2") == 0;
  return next(handle, name);
}

__attribute__((destructor)) static void tell() { std::printf("seen outside %d\n", seen); }
