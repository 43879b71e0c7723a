// Work that other contexts have queued on a block when it is freed: the next owner of the address sees none of it, and it
// sees nothing of the next owner.
//   context  a copy out of the block, on a stream of a second context of the device
//   async    the same, freed in the order of that stream
//   peer     a copy into the block, on a stream of another device that has no peer access
#include <dlfcn.h>

#include <cstring>

#include "program.h"

namespace {

constexpr size_t kBytes = 4096;
constexpr int kRounds = 40;

struct Story {
  CUcontext own = nullptr;
  CUcontext other = nullptr;
  CUstream stream = nullptr;
  unsigned char* host = nullptr;
  CUdeviceptr source = 0;  // of "peer"
  bool is_async = false;
  bool is_peer = false;
};

CUdeviceptr filled(unsigned char value) {
  CUdeviceptr block = 0;
  if (cuMemAlloc(&block, kBytes) != CUDA_SUCCESS || cuMemsetD8(block, value, kBytes) != CUDA_SUCCESS) std::abort();
  return block;
}

void prepare(Story* story, const char* how) {
  story->is_peer = std::strcmp(how, "peer") == 0;
  story->is_async = std::strcmp(how, "async") == 0;
  cuCtxGetCurrent(&story->own);
  if (story->is_peer) {
    say("retain", cuDevicePrimaryCtxRetain(&story->other, 1));
  } else {
    CUctxCreateParams parameters = {};
    say("create", cuCtxCreate(&story->other, &parameters, 0, 0));
  }
  cuCtxSetCurrent(story->other);
  say("stream", cuStreamCreate(&story->stream, CU_STREAM_NON_BLOCKING));
  void* host = nullptr;
  say("host", cuMemHostAlloc(&host, kBytes, CU_MEMHOSTALLOC_PORTABLE));
  story->host = static_cast<unsigned char*>(host);
  if (story->is_peer) story->source = filled(7);
  using Delay = int (*)(void*, unsigned long);
  const auto delay = reinterpret_cast<Delay>(dlsym(RTLD_DEFAULT, "simgpu_delay_stream"));
  if (delay != nullptr) delay(story->stream, 3'000'000);
}

/// True if old and new owner of the memory met.
bool do_meet(const Story& story) {
  story.host[0] = 0;
  cuCtxSetCurrent(story.own);
  const CUdeviceptr old = filled(7);
  cuCtxSetCurrent(story.other);
  const CUresult queued = story.is_peer
                              ? cuMemcpyPeerAsync(old, story.own, story.source, story.other, kBytes, story.stream)
                              : cuMemcpyDtoHAsync(story.host, old, kBytes, story.stream);
  cuCtxSetCurrent(story.own);
  const CUresult freed = story.is_async ? cuMemFreeAsync(old, story.stream) : cuMemFree(old);
  size_t free = 0, total = 0;
  if (story.is_async) cuMemGetInfo(&free, &total);
  const CUdeviceptr next = filled(9);
  cuCtxSetCurrent(story.other);
  cuStreamSynchronize(story.stream);
  cuCtxSetCurrent(story.own);
  unsigned char now = 0;
  cuMemcpyDtoH(&now, next, 1);
  cuMemFree(next);
  return queued != CUDA_SUCCESS || freed != CUDA_SUCCESS || now != 9 || (!story.is_peer && story.host[0] != 7);
}

}  // namespace

int main(int count, char** arguments) {
  start_cuda();
  Story story;
  prepare(&story, count > 1 ? arguments[1] : "");
  int wrong = 0;
  for (int i = 0; i < kRounds; ++i) wrong += do_meet(story);
  std::printf("wrong %d\n", wrong);
}
