#include <dlfcn.h>

extern "C" int probe() {
  const auto next = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "probe"));
  return next != nullptr ? 100 + next() : -99;
}
