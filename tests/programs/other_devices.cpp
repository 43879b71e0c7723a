// other_devices late|early: two devices and no peer access. Copies and fills reach the other device's memory all the same,
// whether its context was there before the memory or came after it, and after peer access was given and taken away.
#include <cstring>
#include <vector>

#include "program.h"

namespace {

constexpr size_t kSizes[] = {20230, (3 << 20) + 1, 40 << 20};

void reach(const char* what, CUcontext from, CUdeviceptr memory, size_t bytes, unsigned char value) {
  std::printf("%s %zu\n", what, bytes);
  SAY(cuCtxSetCurrent(from));
  const CUdeviceptr own = allocate(bytes);
  SAY(cuMemsetD8(own, value, bytes));
  SAY(cuMemcpyDtoD(memory, own, bytes));
  SAY(cuMemsetD8(memory + bytes / 2, static_cast<unsigned char>(value + 1), bytes - bytes / 2));
  SAY(cuMemcpy(own, memory, bytes));
  SAY(cuCtxSynchronize());
  std::vector<unsigned char> read(bytes);
  SAY(cuMemcpyDtoH(read.data(), own, bytes));
  std::printf("bytes %u %u\n", read.front(), read.back());
  SAY(cuMemFree(own));
}

}  // namespace

int main(int argc, char** argv) {
  const bool early = argc > 1 && std::strcmp(argv[1], "early") == 0;
  CUcontext contexts[2] = {};
  SAY(cuInit(0));
  SAY(cuDevicePrimaryCtxRetain(&contexts[0], 0));
  if (early) SAY(cuDevicePrimaryCtxRetain(&contexts[1], 1));
  SAY(cuCtxSetCurrent(contexts[0]));
  std::vector<CUdeviceptr> blocks;
  for (const size_t bytes : kSizes) blocks.push_back(allocate(bytes));
  if (!early) SAY(cuDevicePrimaryCtxRetain(&contexts[1], 1));
  for (const size_t bytes : kSizes) {
    SAY(cuCtxSetCurrent(contexts[0]));
    blocks.push_back(allocate(bytes));
  }
  for (size_t i = 0; i < blocks.size(); ++i) reach("from the other", contexts[1], blocks[i], kSizes[i % 3], static_cast<unsigned char>(i));
  SAY(cuCtxSetCurrent(contexts[1]));
  const CUdeviceptr there = allocate(20231);
  reach("from the first", contexts[0], there, 20231, 50);
  SAY(cuCtxSetCurrent(contexts[1]));
  SAY(cuCtxEnablePeerAccess(contexts[0], 0));
  reach("with peer access", contexts[1], blocks[0], kSizes[0], 60);
  SAY(cuCtxDisablePeerAccess(contexts[0]));
  reach("without it again", contexts[1], blocks[1], kSizes[1], 70);
  for (const CUdeviceptr block : blocks) SAY(cuMemFree(block));
  SAY(cuMemFree(there));
}
