// Which of the machine codes in a fat binary a device would run. CUB picks its tuning by the architecture that
// cudaFuncGetAttributes reports and stops with "invalid device function" for one that the program was not built for, so
// the answer must come from the image.
#pragma once

namespace cuheap::sim::runtime {

// Capability as major * 10 + minor. 0: the image is not a fat binary, or holds nothing for this device.
int best_architecture(const void* image, int device_capability);

}  // namespace cuheap::sim::runtime
