// One thread captures over and over, two others allocate and free: a thread-local capture is broken by nobody.
#include <cuda.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "program.h"

int main() {
  constexpr int kCaptures = 200'000;
  start_cuda();
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  SAY(cuCtxGetCurrent(&context));
  SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::atomic<bool> stop{false};
  const auto churn = [&] {
    CUdeviceptr address = 0;
    cuCtxSetCurrent(context);
    while (!stop && cuMemAlloc(&address, 65536) == CUDA_SUCCESS) cuMemFree(address);
  };
  std::thread first(churn), second(churn);
  int broken = 0;
  for (int i = 0; i < kCaptures; ++i) {
    CUgraph graph = nullptr;
    if (cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) != CUDA_SUCCESS) ++broken;
    if (cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS || cuGraphDestroy(graph) != CUDA_SUCCESS) ++broken;
  }
  stop = true;
  first.join();
  second.join();
  std::printf("broken captures %d\n", broken);
}
