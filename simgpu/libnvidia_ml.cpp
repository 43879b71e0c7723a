#include "simgpu/nvml_entry.h"
namespace cuheap::sim { int nvml_not_supported(const char*) { return 3; } }
