// Free memory goes down by an allocation and comes back after its free; both out-parameters may be null.
#include "program.h"

int main() {
  start_cuda();
  size_t free_before = 0, free_between = 0, free_after = 0, total = 0;
  SAY(cuMemGetInfo(&free_before, &total));
  CUdeviceptr block = allocate(size_t{64} << 20);
  SAY(cuMemGetInfo(&free_between, &total));
  SAY(cuMemFree(block));
  SAY(cuMemGetInfo(&free_after, &total));
  std::printf("down by %zu, back to the start %d, within the total %d\n", free_before - free_between, free_after == free_before,
              free_before <= total);
  SAY(cuMemGetInfo(nullptr, &total));
  SAY(cuMemGetInfo(&free_after, nullptr));
}
