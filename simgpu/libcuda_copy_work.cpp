// How copies and fills are checked, staged and queued (libcuda_copy.h).
#include <cstring>

#include "simgpu/array.h"
#include "simgpu/libcuda_copy.h"

namespace cuheap::sim {
namespace {

// Up to here work on an idle stream is done by the caller: cheaper than waking a thread.
constexpr size_t kInlineBytes = size_t{256} << 10;
// Pageable source bytes up to here are taken over at once; above, the call waits ("API synchronization behavior" of the guide).
constexpr size_t kStagedBytes = size_t{64} << 10;
// A plausible device memory bandwidth for the virtual clock: 1 TB/s; over PCIe 25 GB/s.
constexpr uint64_t kDeviceBytesPerNs = 1000;
constexpr uint64_t kHostBytesPerNs = 25;

bool is_device(uint64_t address) { return machine().memory.is_device_address(address); }

bool is_pageable(uint64_t address) { return !is_device(address) && !machine().allocations.find(address); }

/// The ends of a device range must show memory when the call is made; memory of a graph shows up when the graph runs.
bool is_good(uint64_t address, size_t bytes) {
  if (!is_device(address)) return address != 0;
  if (machine().memory.is_mapped(address) && machine().memory.is_mapped(address + bytes - 1)) return true;
  const auto block = machine().allocations.find(address);
  return block && block->kind == Kind::Graph && address + bytes <= block->base + block->size;
}

uint64_t cost_of(size_t bytes, bool through_host) {
  return 1000 + bytes / (through_host ? kHostBytesPerNs : kDeviceBytesPerNs);
}

CUDA_MEMCPY3D describe(uint64_t destination, uint64_t source, size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = is_device(source) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  copy.dstMemoryType = is_device(destination) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  if (is_device(source)) copy.srcDevice = source;
  else copy.srcHost = reinterpret_cast<const void*>(source);
  if (is_device(destination)) copy.dstDevice = destination;
  else copy.dstHost = reinterpret_cast<void*>(destination);
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUresult wait_for(const Mark& mark, const Context& context) {
  if (mark.stream != nullptr) mark.stream->wait(mark.sequence);
  return sticky(context);
}

}  // namespace

Io move_bytes(Devices by, uint64_t destination, uint64_t source, uint64_t bytes) {
  const bool to_device = is_device(destination);
  const bool from_device = is_device(source);
  if (to_device && from_device) return machine().memory.copy(by.destination, destination, by.source, source, bytes);
  if (to_device) return machine().memory.write(by.destination, destination, reinterpret_cast<const void*>(source), bytes);
  if (from_device) return machine().memory.read(by.source, source, reinterpret_cast<void*>(destination), bytes);
  std::memmove(reinterpret_cast<void*>(destination), reinterpret_cast<const void*>(source), bytes);
  return Io::Ok;
}

Io move_box(Devices by, const Box& box) {
  const bool flat = box.depth == 1 && (box.height == 1 || (box.source_pitch == box.width && box.destination_pitch == box.width));
  if (flat) return move_bytes(by, box.destination, box.source, box.width * box.height);
  for (size_t z = 0; z < box.depth; ++z)
    for (size_t y = 0; y < box.height; ++y) {
      const uint64_t from = box.source + (z * box.source_height + y) * box.source_pitch;
      const uint64_t to = box.destination + (z * box.destination_height + y) * box.destination_pitch;
      if (const Io result = move_bytes(by, to, from, box.width); result != Io::Ok) return result;
    }
  return Io::Ok;
}

namespace {

struct Side {
  uint64_t base;
  size_t pitch;
  size_t height;
  bool host;
};

CUresult side_of(CUmemorytype type, const void* host, CUdeviceptr pointer, CUarray handle, size_t x, size_t y, size_t z, size_t pitch,
                 size_t height, const CUDA_MEMCPY3D& copy, Side& side) {
  side = {0, pitch != 0 ? pitch : copy.WidthInBytes, height != 0 ? height : copy.Height, type == CU_MEMORYTYPE_HOST};
  if (type == CU_MEMORYTYPE_ARRAY) {
    const auto array = machine().arrays.find(handle);
    if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    side = {array->address, array->row_bytes, array->height != 0 ? array->height : 1, false};
  } else if (type == CU_MEMORYTYPE_HOST) {
    side.base = reinterpret_cast<uint64_t>(host);
  } else if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED) {
    side.base = pointer;
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (copy.Height > 1 && side.pitch < copy.WidthInBytes) return CUDA_ERROR_INVALID_VALUE;
  side.base += x + (z * side.height + y) * side.pitch;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult box_of(const CUDA_MEMCPY3D& copy, Box& box) {
  Side from{}, to{};
  CUresult result = side_of(copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcArray, copy.srcXInBytes, copy.srcY, copy.srcZ,
                            copy.srcPitch, copy.srcHeight, copy, from);
  if (result == CUDA_SUCCESS)
    result = side_of(copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstArray, copy.dstXInBytes, copy.dstY, copy.dstZ,
                     copy.dstPitch, copy.dstHeight, copy, to);
  if (result != CUDA_SUCCESS) return result;
  box = {from.base, to.base, from.pitch, to.pitch, from.height, to.height, copy.WidthInBytes, copy.Height, copy.Depth,
         !is_device(from.base), !is_device(to.base)};
  return CUDA_SUCCESS;
}

Work copy_work(const Box& box, Devices by) {
  const size_t bytes = box.width * box.height * box.depth;
  Work work;
  work.run = [box, by](Stream&) { return move_box(by, box); };
  work.may_run_inline = bytes <= kInlineBytes;
  work.cost_ns = cost_of(bytes, box.source_is_host || box.destination_is_host);
  return work;
}

CUresult copy_linear(CUstream handle, uint64_t destination, uint64_t source, size_t bytes, Wait wait, Devices by) {
  Context& context = current_context();
  const auto stream = find_stream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes == 0) return CUDA_SUCCESS;
  if (!is_good(destination, bytes) || !is_good(source, bytes)) return CUDA_ERROR_INVALID_VALUE;
  Box box{.source = source, .destination = destination, .width = bytes};
  box.source_is_host = !is_device(source);
  box.destination_is_host = !is_device(destination);
  Work work = copy_work(box, by);
  const bool capturing = stream->capturing.load();
  // A copy that waits anyway is quickest on this thread. From pageable memory small bytes are taken over now, so that the
  // caller may change them; everything else pageable waits.
  bool waits = wait == Wait::Yes;
  if (!capturing && box.source_is_host && is_pageable(source)) {
    if (bytes <= kStagedBytes && !waits) {
      auto bytes_now = std::make_shared<std::vector<char>>(reinterpret_cast<const char*>(source),
                                                           reinterpret_cast<const char*>(source) + bytes);
      work.run = [bytes_now, destination, by](Stream&) {
        return move_bytes(by, destination, reinterpret_cast<uint64_t>(bytes_now->data()), bytes_now->size());
      };
    } else {
      waits = true;
    }
  }
  if (!capturing && box.destination_is_host && is_pageable(destination)) waits = true;
  if (waits) work.may_run_inline = true;
  if (capturing && wait == Wait::Yes) return invalidate(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Mark mark;
  const CUresult result = submit(context, stream, NodeType::Memcpy, std::move(work), describe(destination, source, bytes), &mark);
  if (result != CUDA_SUCCESS || !waits) return result;
  return wait_for(mark, context);
}

CUresult copy_box(CUstream handle, const CUDA_MEMCPY3D& copy, Wait wait) {
  return copy_box(handle, copy, wait, both(current_context().device));
}

CUresult copy_box(CUstream handle, const CUDA_MEMCPY3D& copy, Wait wait, Devices by) {
  Context& context = current_context();
  const auto stream = find_stream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0) return CUDA_SUCCESS;
  Box box;
  if (const CUresult wrong = box_of(copy, box); wrong != CUDA_SUCCESS) return wrong;
  if (!is_good(box.source, 1) || !is_good(box.destination, 1)) return CUDA_ERROR_INVALID_VALUE;
  bool waits = wait == Wait::Yes;
  const bool capturing = stream->capturing.load();
  if (!capturing &&
      ((box.source_is_host && is_pageable(box.source)) || (box.destination_is_host && is_pageable(box.destination))))
    waits = true;
  Work work = copy_work(box, by);
  if (waits) work.may_run_inline = true;
  if (capturing && wait == Wait::Yes) return invalidate(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Mark mark;
  const CUresult result = submit(context, stream, NodeType::Memcpy, std::move(work), copy, &mark);
  if (result != CUDA_SUCCESS || !waits) return result;
  return wait_for(mark, context);
}

Work fill_work(uint64_t address, size_t pitch, unsigned value, unsigned element, size_t width, size_t height, int device) {
  Work work;
  const size_t row = width * element;
  work.may_run_inline = value == 0 || row * height <= kInlineBytes;
  work.cost_ns = cost_of(row * height, false);
  work.run = [=](Stream&) {
    for (size_t y = 0; y < height; ++y) {
      const uint64_t at = address + y * pitch;
      Io result = Io::Ok;
      if (is_device(at)) {
        result = machine().memory.fill(device, at, &value, element, row);
      } else {
        auto* bytes = reinterpret_cast<unsigned char*>(at);
        for (size_t i = 0; i < row; ++i) bytes[i] = reinterpret_cast<const unsigned char*>(&value)[i % element];
      }
      if (result != Io::Ok) return result;
    }
    return Io::Ok;
  };
  return work;
}

CUresult fill(CUstream handle, uint64_t address, size_t pitch, unsigned value, unsigned element, size_t width, size_t height) {
  Context& context = current_context();
  const auto stream = find_stream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  if (address % element != 0 || (height > 1 && pitch < width * element)) return CUDA_ERROR_INVALID_VALUE;
  const bool device_block = is_device(address);
  if (!device_block && !machine().allocations.find(address)) return CUDA_ERROR_INVALID_VALUE;
  if (!is_good(address, (height - 1) * pitch + width * element)) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMSET_NODE_PARAMS parameters{};
  parameters.dst = address;
  parameters.pitch = pitch;
  parameters.value = value;
  parameters.elementSize = element;
  parameters.width = width;
  parameters.height = height;
  return submit(context, stream, NodeType::Memset, fill_work(address, pitch, value, element, width, height, context.device), parameters);
}

}  // namespace cuheap::sim
