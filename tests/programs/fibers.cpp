// Calls from fibers: stacks that no thread knows of, and a call stack that changes between two calls of one thread.
#include <sys/mman.h>
#include <ucontext.h>

#include "program.h"

static ucontext_t scheduler, fibers[8];
static int failures = 0, rounds = 0;

static void run(int number) {
  for (int i = 0; i < 200; ++i) {
    CUdeviceptr address = 0;
    failures += cuMemAlloc(&address, static_cast<size_t>(20250 + number)) != CUDA_SUCCESS;
    swapcontext(&fibers[number], &scheduler);
    failures += cuMemFree(address) != CUDA_SUCCESS;
    ++rounds;
  }
}

int main() {
  start_cuda();
  constexpr size_t kStack = 128 << 10, kPage = 4096;
  for (int number = 0; number < 8; ++number) {
    char* const stack =
        static_cast<char*>(mmap(nullptr, kStack + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(stack, kPage, PROT_NONE);
    getcontext(&fibers[number]);
    fibers[number].uc_stack.ss_sp = stack + kPage;
    fibers[number].uc_stack.ss_size = kStack;
    fibers[number].uc_link = &scheduler;
    makecontext(&fibers[number], reinterpret_cast<void (*)()>(run), 1, number);
  }
  for (int i = 0; i <= 200; ++i) {
    for (ucontext_t& fiber : fibers) swapcontext(&scheduler, &fiber);
  }
  std::printf("rounds %d failures %d\n", rounds, failures);
}
