// A neighbour that writes a jump over the first bytes of the function it was given (as UCX does to see frees), and takes it away
// again: what a look-up hands out must be code that can be patched.
#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "program.h"

static int seen = 0;

static CUresult count_it(CUdeviceptr) {
  ++seen;
  return CUDA_SUCCESS;
}

int main() {
  start_cuda();
  const CUdeviceptr block = allocate(20290);
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  const auto release = reinterpret_cast<CUresult (*)(CUdeviceptr)>(dlsym(driver, "cuMemFree_v2"));
  auto* const code = reinterpret_cast<unsigned char*>(release);
  auto* const page = reinterpret_cast<unsigned char*>(reinterpret_cast<std::uintptr_t>(code) & ~std::uintptr_t{4095});
#if defined(__x86_64__)
  unsigned char jump[13] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3};  // mov r11, target; jmp r11
  const auto target = reinterpret_cast<std::uintptr_t>(&count_it);
  std::memcpy(jump + 2, &target, sizeof(target));
#else
  std::uint32_t jump[4] = {0x58000051, 0xd61f0220};  // ldr x17, 8; br x17
  const auto target = reinterpret_cast<std::uintptr_t>(&count_it);
  std::memcpy(jump + 2, &target, sizeof(target));
#endif
  unsigned char before[sizeof(jump)];
  std::memcpy(before, code, sizeof(jump));
  if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return 2;
  std::memcpy(code, jump, sizeof(jump));
  __builtin___clear_cache(reinterpret_cast<char*>(code), reinterpret_cast<char*>(code) + sizeof(jump));
  std::printf("patched %d\n", release(block));
  std::memcpy(code, before, sizeof(jump));
  __builtin___clear_cache(reinterpret_cast<char*>(code), reinterpret_cast<char*>(code) + sizeof(jump));
  std::printf("seen %d\n", seen);
  std::printf("as before %d\n", release(block));
}
