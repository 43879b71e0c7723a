// Memory shared with another process by its handle: opened twice there, read, closed, while the owner keeps it.
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static int child(int from) {
  CUipcMemHandle handle = {};
  if (read(from, &handle, sizeof(handle)) != static_cast<ssize_t>(sizeof(handle))) return 3;
  start_cuda();
  CUdeviceptr first = 0, second = 0;
  say("open", cuIpcOpenMemHandle(&first, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  say("open again", cuIpcOpenMemHandle(&second, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  unsigned char bytes[2] = {};
  say("read", cuMemcpyDtoH(bytes, first + 20299, 2));
  std::printf("same %d, bytes %u %u\n", first == second, bytes[0], bytes[1]);
  say("free of an import", cuMemFree(first));
  say("close", cuIpcCloseMemHandle(first));
  say("close again", cuIpcCloseMemHandle(first));
  say("close once too often", cuIpcCloseMemHandle(first));
  std::fflush(stdout);
  return 0;
}

int main() {
  int pipes[2];
  if (pipe(pipes) != 0) return 2;
  std::fflush(stdout);
  const pid_t process = fork();
  if (process == 0) std::exit(child(pipes[0]));
  // Nothing is printed here while the child prints.
  CUcontext context = nullptr;
  cuInit(0);
  cuDevicePrimaryCtxRetain(&context, 0);
  cuCtxSetCurrent(context);
  CUdeviceptr before = 0, block = 0;
  const CUresult made = cuMemAlloc(&before, 20300) != CUDA_SUCCESS ? CUDA_ERROR_UNKNOWN : cuMemAlloc(&block, 20301);
  const CUresult filled = cuMemsetD8(block, 7, 20301);
  CUipcMemHandle handle = {};
  const CUresult given = cuIpcGetMemHandle(&handle, block);
  if (write(pipes[1], &handle, sizeof(handle)) != static_cast<ssize_t>(sizeof(handle))) return 2;
  int status = 0;
  waitpid(process, &status, 0);
  std::printf("made %d filled %d given %d child %d\n", made, filled, given, status);
  SAY(cuMemFree(block));
  SAY(cuMemFree(before));
}
