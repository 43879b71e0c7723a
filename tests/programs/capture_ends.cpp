// Captures that nobody ends by cuStreamEndCapture: they go with their stream, or with their context. Afterwards more memory
// comes and goes than the device has. "refused": a beginning that the driver refuses is no capture.
#include <cstring>

#include "program.h"

namespace {

void begin(CUstream* stream) {
  say("cuStreamCreate", cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
  say("cuStreamBeginCapture", cuStreamBeginCapture(*stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

}  // namespace

int main(int count, char** arguments) {
  const char* how = count > 1 ? arguments[1] : "";
  const CUdevice device = start_cuda();
  SAY(cuMemFree(allocate(20130)));
  CUstream stream = nullptr;
  begin(&stream);
  if (std::strcmp(how, "destroyed") == 0) SAY(cuStreamDestroy(stream));
  if (std::strcmp(how, "reset") == 0) {
    CUcontext context = nullptr;
    SAY(cuDevicePrimaryCtxReset(device));
    SAY(cuDevicePrimaryCtxRetain(&context, device));
    SAY(cuCtxSetCurrent(context));
  }
  if (std::strcmp(how, "refused") == 0) {
    CUgraph graph = nullptr;
    say("again", cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY(cuStreamEndCapture(stream, &graph));
    SAY(cuGraphDestroy(graph));
  }
  for (int i = 0; i < 12; ++i) SAY(cuMemFree(allocate(size_t{1} << 30)));
}
