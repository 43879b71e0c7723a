// Threads with little stack, and a signal handler on a small stack of its own: the hooks live on what the host has left.
#include <csignal>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "program.h"

static CUcontext context = nullptr;
static volatile int failures = 0, handled = 0;

static void use_memory() {
  CUdeviceptr address = 0;
  if (cuMemAlloc(&address, 20240) != CUDA_SUCCESS) failures = failures + 1;
  if (cuMemFree(address) != CUDA_SUCCESS) failures = failures + 1;
}

static void* in_thread(void*) {
  cuCtxSetCurrent(context);
  for (int i = 0; i < 100; ++i) use_memory();
  return nullptr;
}

static void handler(int) {
  use_memory();
  handled = handled + 1;
}

int main() {
  start_cuda();
  cuCtxGetCurrent(&context);
  constexpr size_t kStack = 48 << 10, kPage = 4096;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  for (int i = 0; i < 8; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, in_thread, nullptr) != 0) return 2;
    pthread_join(thread, nullptr);
  }
  std::printf("threads: failures %d\n", failures);

  char* const stack = static_cast<char*>(mmap(nullptr, kStack + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(stack, kPage, PROT_NONE);
  stack_t alternate = {};
  alternate.ss_sp = stack + kPage;
  alternate.ss_size = kStack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  for (int i = 0; i < 100; ++i) raise(SIGUSR1);
  std::printf("handler: %d, failures %d\n", handled, failures);
}
