// real_runtime LIBRARY: a runtime of NVIDIA's, shared or inside a library, resolves the driver. It stops at its own check of the
// driver afterwards (simgpu is not one), but its tables of pointers are filled: those are counted, in its writable memory.
// Prints how many words are hooks of ours and how many are hooked functions of the driver itself: under cuheap the second
// number must be 0, bare the first is.
#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <set>

#include "program.h"
#include "shim/driver/elf_symbols.h"

static const char* const kNames[] = {
#define CUHEAP_HOOK(name, need, action) #name,
#define CUHEAP_PASS(name, why)
#include "shim/hooks/entry_points.inc"
#undef CUHEAP_HOOK
#undef CUHEAP_PASS
};

static std::set<std::uintptr_t> hooks, reals;

static int count_words(dl_phdr_info* info, std::size_t, void* wanted) {
  if (std::strcmp(info->dlpi_name, static_cast<const char*>(wanted)) != 0) return 0;
  int ours = 0, drivers = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0) continue;
    const std::uintptr_t begin = (info->dlpi_addr + header.p_vaddr + 7) & ~std::uintptr_t{7};
    for (std::uintptr_t at = begin; at + 8 <= info->dlpi_addr + header.p_vaddr + header.p_memsz; at += 8) {
      const std::uintptr_t word = *reinterpret_cast<const std::uintptr_t*>(at);
      ours += hooks.contains(word);
      drivers += reals.contains(word);
    }
  }
  std::printf("hooks %d\ndriver functions %d\n", ours, drivers);
  return 1;
}

int main(int, char** argv) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* const runtime = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr || runtime == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  const auto free = reinterpret_cast<int (*)(void*)>(dlsym(runtime, "cudaFree"));
  if (free == nullptr) return 1;
  std::printf("cudaFree %d\n", free(nullptr));

  cuheap::LoadedObject library;
  if (!cuheap::find_object("libcuda.so.1", &library)) return 1;
  for (const char* name : kNames) {
    const auto real = reinterpret_cast<std::uintptr_t>(library.find(name));
    const auto found = reinterpret_cast<std::uintptr_t>(dlsym(driver, name));
    if (real != 0) reals.insert(real);
    if (found != real) hooks.insert(found);
  }
  return dl_iterate_phdr(count_words, argv[1]) == 1 ? 0 : 1;
}
