// reloads LIBRARY: without a device cuInit fails, and a plug-in that tried goes, and libcuda with it. When the plug-in comes again
// libcuda lies elsewhere.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <set>

static ElfW(Addr) driver_at() {
  ElfW(Addr) base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        if (std::strstr(info->dlpi_name, "libcuda.so.1") != nullptr) *static_cast<ElfW(Addr)*>(out) = info->dlpi_addr;
        return 0;
      },
      &base);
  return base;
}

int main(int, char** argv) {
  std::set<ElfW(Addr)> places;
  for (int round = 0; round < 4; ++round) {
    void* const library = dlopen(argv[1], RTLD_NOW);
    if (library == nullptr) return std::printf("%s\n", dlerror()), 2;
    const ElfW(Addr) place = driver_at();
    places.insert(place);
    const auto end = reinterpret_cast<int (*)()>(dlsym(library, "end_context"));
    const auto start = reinterpret_cast<int (*)()>(dlsym(library, "start_driver"));
    std::printf("end %d start %d", end(), start());
    dlclose(library);
    std::printf(" gone %d\n", driver_at() == 0);
    std::fflush(stdout);
    // Nothing else may lie where the library lay, and it may not come back there.
    if (driver_at() == 0) mmap(reinterpret_cast<void*>(place), 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  }
  std::printf("places %zu\n", places.size());
}
