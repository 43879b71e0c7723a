// One small graph lives on, as every model has one. Others are captured with memory of their own and destroyed, or an
// executable is updated from them again and again; what they used is freed. There is room for a few rounds, not for all.
#include "program.h"

namespace {

constexpr size_t kBytes = size_t{1} << 30;

CUgraph capture(CUstream stream, size_t bytes, CUdeviceptr* block) {
  CUgraph graph = nullptr;
  cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  const CUresult allocated = cuMemAlloc(block, bytes);
  if (allocated != CUDA_SUCCESS) say("out of room", allocated);
  cuMemsetD8Async(*block, 1, 4096, stream);
  cuStreamEndCapture(stream, &graph);
  return graph;
}

}  // namespace

int main() {
  start_cuda();
  SAY(cuMemFree(allocate(20220)));
  CUstream stream = nullptr;
  SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr of_first = 0, block = 0;
  CUgraphExec first = nullptr, updated = nullptr;
  CUgraph graph = capture(stream, 20221, &of_first);
  SAY(cuGraphInstantiate(&first, graph, 0));
  SAY(cuGraphDestroy(graph));
  for (int round = 0; round < 12; ++round) {
    graph = capture(stream, kBytes, &block);
    SAY(cuGraphDestroy(graph));
    SAY(cuMemFree(block));
  }
  for (int round = 0; round < 12; ++round) {
    graph = capture(stream, kBytes, &block);
    CUgraphExecUpdateResultInfo info{};
    if (updated == nullptr) SAY(cuGraphInstantiate(&updated, graph, 0));
    else SAY(cuGraphExecUpdate(updated, graph, &info));
    SAY(cuGraphLaunch(updated, stream));
    SAY(cuStreamSynchronize(stream));
    SAY(cuGraphDestroy(graph));
    SAY(cuMemFree(block));
  }
  SAY(cuGraphLaunch(first, stream));
  SAY(cuStreamSynchronize(stream));
  SAY(cuMemFree(of_first));
  SAY(cuGraphExecDestroy(updated));
  SAY(cuGraphExecDestroy(first));
  SAY(cuStreamDestroy(stream));
}
