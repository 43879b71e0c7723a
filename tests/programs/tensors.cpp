// The framework floor without PyTorch: two libraries that report as libc10 and libc10_cuda do, loaded late and locally, as
// Python loads them. Every report must also arrive in libc10.
#include <dlfcn.h>

#include "program.h"

int main(int, char** argv) {
  start_cuda();
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 1;
  const auto run = reinterpret_cast<int (*)()>(dlsym(library, "run_tensors"));
  std::printf("reports %d\n", run());
}
