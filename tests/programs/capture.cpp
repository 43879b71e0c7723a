// Stream capture: memory nodes by stream-ordered calls, and an allocation that a strict capture prohibits.
#include "program.h"

int main() {
  start_cuda();
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUdeviceptr address = 0;
  SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

  SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  SAY(cuMemAllocAsync(&address, 20090, stream));
  SAY(cuMemFreeAsync(address, stream));
  SAY(cuMemFree(allocate(20091)));
  SAY(cuStreamEndCapture(stream, &graph));
  CUgraphExec exec = nullptr;
  SAY(cuGraphInstantiate(&exec, graph, 0));
  SAY(cuGraphLaunch(exec, stream));
  SAY(cuStreamSynchronize(stream));
  SAY(cuGraphExecDestroy(exec));
  SAY(cuGraphDestroy(graph));

  SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  say("prohibited", cuMemAlloc(&address, 20092));
  say("ends broken", cuStreamEndCapture(stream, &graph));
  SAY(cuMemFree(allocate(20093)));
}
