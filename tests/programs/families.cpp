// One allocation of every family, each ended by its own call; linked against libcuda directly.
#include <vector>

#include "program.h"

static void device_and_host() {
  CUdeviceptr plain = allocate(20001), pitched = 0, managed = 0;
  size_t pitch = 0, size = 0;
  CUdeviceptr base = 0;
  SAY(cuMemAllocPitch(&pitched, &pitch, 1000, 20, 4));
  SAY(cuMemAllocManaged(&managed, 20003, CU_MEM_ATTACH_GLOBAL));
  SAY(cuMemGetAddressRange(&base, &size, plain + 17));
  std::printf("range starts at the block %d, size %zu\n", base == plain, size);
  void *pinned = nullptr, *old_pinned = nullptr;
  SAY(cuMemHostAlloc(&pinned, 20004, CU_MEMHOSTALLOC_PORTABLE));
  SAY(cuMemAllocHost(&old_pinned, 20005));
  static std::vector<char> mine(1 << 16);
  SAY(cuMemHostRegister(mine.data(), 20006, 0));
  SAY(cuMemHostUnregister(mine.data()));
  SAY(cuMemFreeHost(old_pinned));
  SAY(cuMemFreeHost(pinned));
  SAY(cuMemFree(managed));
  SAY(cuMemFree(pitched));
  SAY(cuMemFree(plain));
  SAY(cuMemFree(0));
}

static void stream_ordered() {
  CUstream stream = nullptr;
  CUdeviceptr address = 0, pooled = 0;
  CUmemoryPool pool = nullptr;
  SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  SAY(cuDeviceGetDefaultMemPool(&pool, 0));
  SAY(cuMemAllocAsync(&address, 20007, stream));
  SAY(cuMemAllocFromPoolAsync(&pooled, 20008, pool, stream));
  SAY(cuMemFreeAsync(address, stream));
  SAY(cuMemFree(pooled));
  SAY(cuStreamSynchronize(stream));
  SAY(cuStreamDestroy(stream));
}

static void arrays() {
  CUarray array = nullptr, volume = nullptr;
  const CUDA_ARRAY_DESCRIPTOR flat = {.Width = 100, .Height = 50, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
  const CUDA_ARRAY3D_DESCRIPTOR deep = {
      .Width = 10, .Height = 20, .Depth = 30, .Format = CU_AD_FORMAT_HALF, .NumChannels = 2, .Flags = 0};
  SAY(cuArrayCreate(&array, &flat));
  SAY(cuArray3DCreate(&volume, &deep));
  SAY(cuArrayDestroy(volume));
  SAY(cuArrayDestroy(array));
}

int main() {
  start_cuda();
  device_and_host();
  stream_ordered();
  arrays();
}
