// CUDA arrays: a byte count on the device with a shape. Their bytes can be copied in and out row by row.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuheap::sim {

struct Array {
  uint64_t address = 0;        // of its bytes in device address space (kept to itself)
  int device = 0;
  uint64_t context_id = 0;
  size_t width = 0, height = 0, depth = 0;   // as given; 0 height or depth: fewer dimensions
  int format = 0;
  unsigned channels = 0;
  unsigned flags = 0;
  unsigned levels = 1;         // of a mipmapped array
  size_t element_bytes = 0;
  size_t row_bytes = 0;
  uint64_t bytes = 0;
};

}  // namespace cuheap::sim
