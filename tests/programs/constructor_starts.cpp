// constructor_starts LIBRARY: a library's constructor waits for a thread that initialises CUDA, and the loader's lock is held
// all the while.
#include <dlfcn.h>

#include "program.h"

int main(int, char** argv) {
  std::printf("loaded %d\n", dlopen(argv[1], RTLD_NOW) != nullptr);
  start_cuda();
  SAY(cuMemFree(allocate(20290)));
}
