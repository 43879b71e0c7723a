// The DeviceAllocator that only forwards: tracing without pooling.
#pragma once
#include "shim/pool/allocator.h"

namespace cuheap {

DeviceAllocator& direct_allocator();

}  // namespace cuheap
