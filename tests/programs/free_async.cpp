// cuMemFreeAsync of memory of cuMemAlloc, on streams in every state: what it answers, and what it does to captures.
#include <initializer_list>

#include "program.h"

namespace {

CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  SAY(cuStreamCreate(&stream, flags));
  return stream;
}

/// Whatever the answer was: is the block still the program's?
void settle(const char* what, CUdeviceptr block, CUstream stream) {
  say(what, cuMemFreeAsync(block, stream));
  say("  freed then", cuMemFree(block));
}

void end(CUstream stream) {
  CUgraph graph = nullptr;
  if (SAY(cuStreamEndCapture(stream, &graph)) == CUDA_SUCCESS) SAY(cuGraphDestroy(graph));
}

void plain_streams() {
  CUstream stream = make_stream();
  settle("on a stream", allocate(20200), stream);
  settle("on the legacy stream", allocate(20201), nullptr);
  settle("on the thread's stream", allocate(20202), CU_STREAM_PER_THREAD);
  const CUdeviceptr inner = allocate(20203);
  say("inside", cuMemFreeAsync(inner + 512, stream));
  SAY(cuMemFree(inner));
  say("null", cuMemFreeAsync(0, stream));
  SAY(cuStreamDestroy(stream));
  settle("on a destroyed stream", allocate(20204), stream);
}

void captures() {
  CUstream captured = make_stream(), other = make_stream(), blocking = make_stream(CU_STREAM_DEFAULT);
  const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                       CU_STREAM_CAPTURE_MODE_RELAXED};
  for (const CUstreamCaptureMode mode : modes) {
    std::printf("mode %d\n", static_cast<int>(mode));
    CUdeviceptr blocks[2] = {allocate(20205), allocate(3 << 20)};
    SAY(cuStreamBeginCapture(captured, mode));
    say("beside the capture", cuMemFreeAsync(blocks[0], other));
    end(captured);
    SAY(cuStreamBeginCapture(captured, mode));
    say("on the captured stream", cuMemFreeAsync(blocks[1], captured));
    say("twice", cuMemFreeAsync(blocks[1], captured));
    end(captured);
    say("freed then", cuMemFree(blocks[1]));
    blocks[0] = allocate(20206);
    SAY(cuStreamBeginCapture(blocking, mode));
    say("on the legacy stream beside a blocking one", cuMemFreeAsync(blocks[0], nullptr));
    end(blocking);
    say("freed then", cuMemFree(blocks[0]));
  }
  SAY(cuMemFree(allocate(20207)));
  for (const CUstream stream : {captured, other, blocking}) SAY(cuStreamDestroy(stream));
}

void contexts(CUcontext first) {
  CUcontext second = nullptr;
  SAY(cuCtxCreate(&second, nullptr, 0, 0));
  CUstream stream = make_stream();
  const CUdeviceptr block = allocate(20208);
  SAY(cuCtxSetCurrent(first));
  settle("of another context on its stream", block, stream);
  settle("on the stream of another context", allocate(20209), stream);
  const CUdeviceptr left = allocate(20210);
  SAY(cuCtxDestroy(second));
  settle("on a stream that went with its context", left, stream);
  const CUdeviceptr last = allocate(20211);
  SAY(cuCtxSetCurrent(nullptr));
  settle("without a context", last, CU_STREAM_PER_THREAD);
  SAY(cuCtxSetCurrent(first));
  stream = make_stream();
  const CUdeviceptr orphans[] = {allocate(20212), allocate(20213)};
  while (cuCtxPopCurrent(&second) == CUDA_SUCCESS) continue;
  settle("without any context on a stream", orphans[0], stream);
  settle("without any context on the thread's", orphans[1], CU_STREAM_PER_THREAD);
}

}  // namespace

int main() {
  start_cuda();
  CUcontext context = nullptr;
  SAY(cuCtxGetCurrent(&context));
  plain_streams();
  captures();
  contexts(context);
}
