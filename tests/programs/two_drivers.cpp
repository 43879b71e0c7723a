// two_drivers OTHER: a second library of the name libcuda.so.1 (forward compatibility, a stub) in the process. Each one's memory
// goes back to where it came from.
#include <dlfcn.h>

#include "program.h"

template <typename Function>
static Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

static void use(const char* which, void* library) {
  const auto init = find<CUresult (*)(unsigned)>(library, "cuInit");
  const auto retain = find<CUresult (*)(CUcontext*, CUdevice)>(library, "cuDevicePrimaryCtxRetain");
  const auto set = find<CUresult (*)(CUcontext)>(library, "cuCtxSetCurrent");
  const auto alloc = find<CUresult (*)(CUdeviceptr*, size_t)>(library, "cuMemAlloc_v2");
  const auto release = find<CUresult (*)(CUdeviceptr)>(library, "cuMemFree_v2");
  std::printf("%s: init %d\n", which, init(0));
  CUcontext context = nullptr;
  if (retain != nullptr && set != nullptr) std::printf("%s: context %d", which, retain(&context, 0)), std::printf(" %d\n", set(context));
  CUdeviceptr address = 0;
  std::printf("%s: alloc %d", which, alloc(&address, 20260));
  std::printf(" free %d\n", release(address));
}

int main(int, char** argv) {
  void* const first = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const second = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (first == nullptr || second == nullptr || first == second) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  use("first", first);
  use("second", second);
  use("first again", first);
}
