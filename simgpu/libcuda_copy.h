// Moving and setting bytes: one description of any copy, the check of its ends, and the way onto a stream with the rules for
// pageable, pinned and device memory.
#pragma once

#include "simgpu/libcuda_entry.h"

namespace cuheap::sim {

/// Who touches the two ends of a copy (-1: anybody): the current device, or for peers each end's own.
struct Devices {
  int destination;
  int source;
};
inline Devices both(int device) { return {device, device}; }
/// Bytes from one address to another; either side may be host or device memory.
Io move_bytes(Devices by, uint64_t destination, uint64_t source, uint64_t bytes);
/// Rows of rows. Pitch in bytes, height in rows of a slice.
struct Box {
  uint64_t source = 0, destination = 0;
  size_t source_pitch = 0, destination_pitch = 0;
  size_t source_height = 0, destination_height = 0;
  size_t width = 0, height = 1, depth = 1;
  bool source_is_host = false, destination_is_host = false;
};
Io move_box(Devices by, const Box& box);
/// False: the description makes no sense.
CUresult box_of(const CUDA_MEMCPY3D& copy, Box& box);

/// `wait`: the call returns when the bytes have moved.
enum class Wait { No, Yes };
CUresult copy_linear(CUstream stream, uint64_t destination, uint64_t source, size_t bytes, Wait wait, Devices by);
CUresult copy_box(CUstream stream, const CUDA_MEMCPY3D& copy, Wait wait);
CUresult copy_box(CUstream stream, const CUDA_MEMCPY3D& copy, Wait wait, Devices by);
CUresult fill(CUstream stream, uint64_t address, size_t pitch, unsigned value, unsigned element, size_t width, size_t height);

/// Work of a node of that kind, for graphs that are built by hand.
Work copy_work(const Box& box, Devices by);
Work fill_work(uint64_t address, size_t pitch, unsigned value, unsigned element, size_t width, size_t height, int device);

}  // namespace cuheap::sim
