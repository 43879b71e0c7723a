// A sampling profiler interrupts every call at any instruction, looks at the stack, and has its own idea of errno.
#include <cerrno>
#include <csignal>
#include <execinfo.h>
#include <sys/time.h>

#include "program.h"

static volatile int samples = 0;

static void sample(int) {
  void* frames[64];
  samples = samples + (backtrace(frames, 64) > 0);
  errno = 99;
}

int main() {
  start_cuda();
  void* frames[4];
  backtrace(frames, 4);  // loads its library now, not in the handler
  struct sigaction action = {};
  action.sa_handler = sample;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
  const itimerval often = {{0, 500}, {0, 500}};
  setitimer(ITIMER_PROF, &often, nullptr);
  int failures = 0;
  for (int i = 0; i < 300'000 && samples < 200; ++i) {
    CUdeviceptr address = 0;
    failures += cuMemAlloc(&address, 20320) != CUDA_SUCCESS;
    failures += cuMemFree(address) != CUDA_SUCCESS;
  }
  const itimerval never = {};
  setitimer(ITIMER_PROF, &never, nullptr);
  std::printf("sampled %d failures %d\n", samples > 0, failures);
}
