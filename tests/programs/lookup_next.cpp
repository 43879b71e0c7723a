// RTLD_NEXT means "after the caller". A dlsym that is called through a wrapper would take the wrapper for the caller: this
// probe would find itself, for ever. Three objects define probe(): the program's first library, its second, nobody else.
#include <dlfcn.h>

#include <cstdio>

extern "C" int probe();

int main() {
  std::printf("probe %d\n", probe());
  const auto by_default = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "probe"));
  std::printf("by default %d\n", by_default != nullptr ? by_default() : -1);
  std::printf("unknown %d\n", dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere") != nullptr);
  const char* const error = dlerror();
  std::printf("error told %d\n", error != nullptr);
}
