// errno is the program's: whatever a call of the driver's API does, refused or not, errno is what a bare run leaves there.
#include <cerrno>

#include "program.h"

static void line(const char* what, CUresult result, int error) { std::printf("%s %d errno %d\n", what, static_cast<int>(result), error); }
#define KEEPS(call)                    \
  do {                                 \
    errno = 77;                        \
    const CUresult result = call;      \
    line(#call, result, errno);        \
  } while (false)

int main() {
  CUdevice device = 0;
  CUcontext primary = nullptr, made = nullptr;
  KEEPS(cuInit(0));
  KEEPS(cuDeviceGet(&device, 0));
  KEEPS(cuDevicePrimaryCtxRetain(&primary, device));
  KEEPS(cuCtxSetCurrent(primary));
  CUdeviceptr block = 0, managed = 0, ordered = 0, none = 0;
  CUstream stream = nullptr;
  void* pinned = nullptr;
  size_t free_bytes = 0, total = 0;
  KEEPS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  KEEPS(cuMemAlloc(&block, 20200));
  KEEPS(cuMemAlloc(&none, 0));
  KEEPS(cuMemAlloc(&none, size_t{1} << 46));
  KEEPS(cuMemAllocManaged(&managed, 20201, CU_MEM_ATTACH_GLOBAL));
  KEEPS(cuMemHostAlloc(&pinned, 20202, 0));
  KEEPS(cuMemAllocAsync(&ordered, 20203, stream));
  KEEPS(cuMemGetInfo(&free_bytes, &total));
  KEEPS(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
  KEEPS(cuMemFreeAsync(ordered, stream));
  KEEPS(cuMemFreeHost(pinned));
  KEEPS(cuMemFree(managed));
  KEEPS(cuMemFree(block));
  KEEPS(cuMemFree(block));
  KEEPS(cuCtxCreate(&made, nullptr, 0, 0));
  KEEPS(cuMemAlloc(&block, 20204));
  KEEPS(cuCtxDestroy(made));
  KEEPS(cuDevicePrimaryCtxReset(0));
}
