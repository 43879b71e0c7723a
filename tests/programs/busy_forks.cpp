// fork() while other threads are in the middle of calls; the children end by exit(), with every handler. Locks that a thread
// held at that moment are held in the child for ever.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "program.h"

static std::atomic<bool> done{false};
static std::atomic<int> failures{0};

int main() {
  start_cuda();
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([context] {
      cuCtxSetCurrent(context);
      while (!done) {
        CUdeviceptr address = 0;
        failures += cuMemAlloc(&address, 20230) != CUDA_SUCCESS;
        failures += cuMemFree(address) != CUDA_SUCCESS;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      CUdeviceptr address = 0;
      if (i % 2 == 0) cuMemAlloc(&address, 20231);  // refused: the driver is dead here
      std::exit(i);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("child %d: %d\n", i, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("failures %d\n", failures.load());
}
