// A graph captured with memory of its own becomes a child, through either door. Its memory is freed; what is allocated then
// is not what the parent writes.
#include "program.h"

namespace {

constexpr size_t kBytes = 1 << 20;

CUresult add_child(CUgraph parent, CUgraph child, bool second_door) {
  CUgraphNode node = nullptr;
  if (!second_door) return cuGraphAddChildGraphNode(&node, parent, nullptr, 0, child);
  CUgraphNodeParams parameters = {};
  parameters.type = CU_GRAPH_NODE_TYPE_GRAPH;
  parameters.graph.graph = child;
  return cuGraphAddNode(&node, parent, nullptr, nullptr, 0, &parameters);
}

void run(bool second_door) {
  CUstream stream = nullptr;
  CUgraph child = nullptr, parent = nullptr;
  CUgraphExec exec = nullptr;
  SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  const CUdeviceptr seen = allocate(kBytes);
  SAY(cuMemsetD8Async(seen, 7, kBytes, stream));
  SAY(cuStreamEndCapture(stream, &child));
  SAY(cuGraphCreate(&parent, 0));
  SAY(add_child(parent, child, second_door));
  SAY(cuGraphInstantiate(&exec, parent, 0));
  SAY(cuGraphDestroy(child));
  SAY(cuGraphDestroy(parent));
  SAY(cuMemFree(seen));
  CUdeviceptr next[8] = {};
  bool is_anothers = false;
  for (CUdeviceptr& block : next) {
    block = allocate(kBytes);
    is_anothers = is_anothers || block == seen;
  }
  std::printf("the graph's memory is another's now %d\n", is_anothers);
  for (const CUdeviceptr block : next) SAY(cuMemFree(block));
  SAY(cuGraphExecDestroy(exec));
  SAY(cuStreamDestroy(stream));
}

}  // namespace

int main() {
  start_cuda();
  SAY(cuMemFree(allocate(20150)));  // a device is not pooled from within a capture
  run(false);
  run(true);
}
