// deep_bind LIBRARY: a library opened with RTLD_DEEPBIND reaches the driver past every preload. What it made, the program frees.
#include <dlfcn.h>

#include <initializer_list>

#include "program.h"

int main(int, char** argv) {
  start_cuda();
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  const auto use = reinterpret_cast<int (*)(size_t)>(dlsym(library, "use_memory"));
  const auto make = reinterpret_cast<CUdeviceptr (*)(size_t)>(dlsym(library, "make_memory"));
  std::printf("inside: failures %d\n", use(20280));
  for (size_t bytes : {size_t{20281}, size_t{5} << 20}) {
    const CUdeviceptr address = make(bytes);
    CUdeviceptr base = 0;
    size_t size = 0;
    SAY(cuMemGetAddressRange(&base, &size, address));
    std::printf("made outside: base %d size %zu\n", base == address, size);
    SAY(cuMemFree(address));
    SAY(cuMemFree(address));
  }
  SAY(cuMemFree(allocate(20282)));
}
