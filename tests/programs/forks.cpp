// forks before|after: a child of a process without CUDA may use it and is recorded; a child of one with CUDA is silent.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "program.h"

int main(int argc, char** argv) {
  const bool before = argc > 1 && std::strcmp(argv[1], "before") == 0;
  if (!before) {
    start_cuda();
    allocate(20030);
  }
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    if (before) {
      start_cuda();
      cuMemFree(allocate(20031));
      std::fflush(stdout);
      std::exit(0);
    }
    // CUDA is dead here; whatever the driver says, nothing may be recorded and nothing may hang.
    CUdeviceptr address = 0;
    cuMemAlloc(&address, 20032);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child %d\n", status);
  if (before) start_cuda();
  cuMemFree(allocate(20033));
}
