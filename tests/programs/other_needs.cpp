// Nearly the whole device is allocated and freed; then others than cuMemAlloc need it.
//   handle   a physical handle on a device that is not the current one, and without a current context
//   graph    a graph with a memory node
//   context  a second context
#include <cstring>

#include "program.h"

namespace {

/// Takes all but `spare` bytes of the current device, and frees it.
void churn(size_t spare) {
  constexpr size_t kPiece = size_t{64} << 20;
  CUdeviceptr blocks[256];
  size_t free = 0, total = 0;
  int count = 0;
  while (cuMemGetInfo(&free, &total) == CUDA_SUCCESS && free >= spare + kPiece) {
    if (count == 256 || cuMemAlloc(&blocks[count], kPiece) != CUDA_SUCCESS) break;
    ++count;
  }
  std::printf("blocks %d\n", count);
  while (count > 0) cuMemFree(blocks[--count]);
}

void create_on_second_device(const char* who, size_t bytes) {
  CUmemAllocationProp where = {};
  where.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  where.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  where.location.id = 1;
  CUmemGenericAllocationHandle handle = 0;
  if (say(who, cuMemCreate(&handle, bytes, &where, 0)) == CUDA_SUCCESS) SAY(cuMemRelease(handle));
}

void need_handle() {
  CUcontext first = nullptr, second = nullptr, none = nullptr;
  SAY(cuCtxGetCurrent(&first));
  SAY(cuDevicePrimaryCtxRetain(&second, 1));
  SAY(cuCtxSetCurrent(second));
  churn(size_t{2} << 30);
  SAY(cuCtxSetCurrent(first));
  create_on_second_device("other device current", size_t{5} << 30);
  SAY(cuCtxSetCurrent(second));
  churn(size_t{2} << 30);
  SAY(cuCtxSetCurrent(none));
  create_on_second_device("nothing current", size_t{5} << 30);
  SAY(cuCtxSetCurrent(first));
  create_on_second_device("too much", size_t{20140} << 30);
}

void need_graph() {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUdeviceptr address = 0;
  churn(size_t{2} << 30);
  SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  SAY(cuMemAllocAsync(&address, size_t{4} << 30, stream));
  SAY(cuMemFreeAsync(address, stream));
  SAY(cuStreamEndCapture(stream, &graph));
  SAY(cuGraphInstantiate(&exec, graph, 0));
  SAY(cuGraphLaunch(exec, stream));
  SAY(cuStreamSynchronize(stream));
}

void need_context() {
  CUcontext second = nullptr;
  CUctxCreateParams parameters = {};
  churn(size_t{130} << 20);
  SAY(cuCtxCreate(&second, &parameters, 0, 0));
}

}  // namespace

int main(int count, char** arguments) {
  const char* what = count > 1 ? arguments[1] : "";
  start_cuda();
  if (std::strcmp(what, "handle") == 0) need_handle();
  if (std::strcmp(what, "graph") == 0) need_graph();
  if (std::strcmp(what, "context") == 0) need_context();
}
