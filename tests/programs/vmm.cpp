// Virtual memory management: a handle released while still mapped lives until it is unmapped.
#include "program.h"

int main() {
  start_cuda();
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  size_t granule = 0;
  SAY(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle first = 0, second = 0;
  SAY(cuMemAddressReserve(&range, 4 * granule, 0, 0, 0));
  SAY(cuMemCreate(&first, granule, &prop, 0));
  SAY(cuMemCreate(&second, 2 * granule, &prop, 0));
  SAY(cuMemMap(range, granule, 0, first, 0));
  SAY(cuMemMap(range + granule, 2 * granule, 0, second, 0));
  SAY(cuMemRelease(first));  // still mapped
  SAY(cuMemUnmap(range, 3 * granule));
  SAY(cuMemRelease(second));
  SAY(cuMemAddressFree(range, 4 * granule));
}
