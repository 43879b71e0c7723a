// start_child PROGRAM: vfork and exec from a process that uses CUDA; the child is a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

int main(int, char** argv) {
  start_cuda();
  CUdeviceptr block = allocate(20120);
  std::fflush(stdout);
  const pid_t child = vfork();
  if (child == 0) {
    execl(argv[1], argv[1], static_cast<char*>(nullptr));
    _exit(9);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child %d\n", status);
  SAY(cuMemFree(block));
}
