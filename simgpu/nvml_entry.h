// What the generated weak functions of libnvidia-ml.so.1 call.
#pragma once

namespace cuheap::sim {

int nvml_not_supported(const char* name);

}  // namespace cuheap::sim
