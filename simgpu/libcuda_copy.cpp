// The copy and memset entry points: thin, libcuda_copy_work.cpp does the work.
#include "simgpu/libcuda_copy.h"

using namespace cuheap::sim;

namespace {

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

CUDA_MEMCPY3D box_of_2d(const CUDA_MEMCPY2D& flat) {
  CUDA_MEMCPY3D copy{};
  copy.srcXInBytes = flat.srcXInBytes, copy.srcY = flat.srcY, copy.srcMemoryType = flat.srcMemoryType;
  copy.srcHost = flat.srcHost, copy.srcDevice = flat.srcDevice, copy.srcArray = flat.srcArray, copy.srcPitch = flat.srcPitch;
  copy.dstXInBytes = flat.dstXInBytes, copy.dstY = flat.dstY, copy.dstMemoryType = flat.dstMemoryType;
  copy.dstHost = flat.dstHost, copy.dstDevice = flat.dstDevice, copy.dstArray = flat.dstArray, copy.dstPitch = flat.dstPitch;
  copy.WidthInBytes = flat.WidthInBytes, copy.Height = flat.Height, copy.Depth = 1;
  return copy;
}

CUDA_MEMCPY3D box_of_array(CUarray array, size_t offset, bool to_array, uint64_t other, bool other_is_host, size_t bytes) {
  CUDA_MEMCPY3D copy{};
  const CUmemorytype kind = other_is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.srcMemoryType = to_array ? kind : CU_MEMORYTYPE_ARRAY;
  copy.dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : kind;
  if (to_array) {
    copy.dstArray = array, copy.dstXInBytes = offset, copy.srcHost = reinterpret_cast<const void*>(other), copy.srcDevice = other;
  } else {
    copy.srcArray = array, copy.srcXInBytes = offset, copy.dstHost = reinterpret_cast<void*>(other), copy.dstDevice = other;
  }
  copy.WidthInBytes = bytes, copy.Height = copy.Depth = 1;
  return copy;
}

CUresult peer_copy(CUstream stream, CUdeviceptr destination, CUcontext to, CUdeviceptr source, CUcontext from, size_t bytes, Wait wait) {
  const ContextRef receiver = find_context(to), sender = find_context(from);
  if (receiver == nullptr || sender == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return copy_linear(stream, destination, source, bytes, wait, {receiver->device, sender->device});
}

Devices device() { return both(current_context().device); }

/// The side of a copy that its name calls a device: device memory, or host memory the device can reach.
bool is_known(CUdeviceptr at) { return machine().memory.is_device_address(at) || machine().allocations.find(at).has_value(); }

}  // namespace

// Linear --------------------------------------------------------------------------------------------------------------

SIMGPU_API CUresult cuMemcpy(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  SIMGPU_ENTER(Needs::Context);
  return copy_linear(nullptr, destination, source, bytes, Wait::Yes, device());
}

SIMGPU_API CUresult cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  return copy_linear(stream, destination, source, bytes, Wait::No, device());
}

SIMGPU_API CUresult cuMemcpyHtoD_v2(CUdeviceptr destination, const void* source, size_t bytes) {
  SIMGPU_ENTER(Needs::Context);
  if (bytes > 0 && !is_known(destination)) return CUDA_ERROR_INVALID_VALUE;
  return copy_linear(nullptr, destination, address(source), bytes, Wait::Yes, device());
}

SIMGPU_API CUresult cuMemcpyDtoH_v2(void* destination, CUdeviceptr source, size_t bytes) {
  SIMGPU_ENTER(Needs::Context);
  if (bytes > 0 && !is_known(source)) return CUDA_ERROR_INVALID_VALUE;
  return copy_linear(nullptr, address(destination), source, bytes, Wait::Yes, device());
}

SIMGPU_API CUresult cuMemcpyDtoD_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  SIMGPU_ENTER(Needs::Context);
  if (bytes > 0 && (!is_known(destination) || !is_known(source))) return CUDA_ERROR_INVALID_VALUE;
  // "No host-side synchronization is performed" between device memory and device memory.
  return copy_linear(nullptr, destination, source, bytes, Wait::No, device());
}

SIMGPU_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr destination, const void* source, size_t bytes, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  if (bytes > 0 && !is_known(destination)) return CUDA_ERROR_INVALID_VALUE;
  return copy_linear(stream, destination, address(source), bytes, Wait::No, device());
}

SIMGPU_API CUresult cuMemcpyDtoHAsync_v2(void* destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  if (bytes > 0 && !is_known(source)) return CUDA_ERROR_INVALID_VALUE;
  return copy_linear(stream, address(destination), source, bytes, Wait::No, device());
}

SIMGPU_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  if (bytes > 0 && (!is_known(destination) || !is_known(source))) return CUDA_ERROR_INVALID_VALUE;
  return copy_linear(stream, destination, source, bytes, Wait::No, device());
}

SIMGPU_API CUresult cuMemcpyPeer(CUdeviceptr destination, CUcontext to, CUdeviceptr source, CUcontext from, size_t bytes) {
  SIMGPU_ENTER(Needs::Context);
  return peer_copy(nullptr, destination, to, source, from, bytes, Wait::No);
}

SIMGPU_API CUresult cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext to, CUdeviceptr source, CUcontext from, size_t bytes,
                                      CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  return peer_copy(stream, destination, to, source, from, bytes, Wait::No);
}

namespace {

CUresult batch(CUdeviceptr* destinations, CUdeviceptr* sources, size_t* sizes, size_t count, CUstream stream) {
  if (destinations == nullptr || sources == nullptr || sizes == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i)
    if (const CUresult wrong = copy_linear(stream, destinations[i], sources[i], sizes[i], Wait::No, device()); wrong != CUDA_SUCCESS)
      return wrong;
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_API CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* destinations, CUdeviceptr* sources, size_t* sizes, size_t count,
                                          CUmemcpyAttributes*, size_t*, size_t, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  return batch(destinations, sources, sizes, count, stream);
}

SIMGPU_API CUresult cuMemcpyBatchAsync(CUdeviceptr* destinations, CUdeviceptr* sources, size_t* sizes, size_t count,
                                       CUmemcpyAttributes*, size_t*, size_t, size_t*, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  return batch(destinations, sources, sizes, count, stream);
}

// Arrays --------------------------------------------------------------------------------------------------------------

SIMGPU_API CUresult cuMemcpyHtoA_v2(CUarray array, size_t offset, const void* source, size_t bytes) {
  SIMGPU_ENTER(Needs::Context);
  return copy_box(nullptr, box_of_array(array, offset, true, address(source), true, bytes), Wait::Yes);
}

SIMGPU_API CUresult cuMemcpyAtoH_v2(void* destination, CUarray array, size_t offset, size_t bytes) {
  SIMGPU_ENTER(Needs::Context);
  return copy_box(nullptr, box_of_array(array, offset, false, address(destination), true, bytes), Wait::Yes);
}

SIMGPU_API CUresult cuMemcpyDtoA_v2(CUarray array, size_t offset, CUdeviceptr source, size_t bytes) {
  SIMGPU_ENTER(Needs::Context);
  return copy_box(nullptr, box_of_array(array, offset, true, source, false, bytes), Wait::No);
}

SIMGPU_API CUresult cuMemcpyAtoD_v2(CUdeviceptr destination, CUarray array, size_t offset, size_t bytes) {
  SIMGPU_ENTER(Needs::Context);
  return copy_box(nullptr, box_of_array(array, offset, false, destination, false, bytes), Wait::No);
}

SIMGPU_API CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes) {
  SIMGPU_ENTER(Needs::Context);
  CUDA_MEMCPY3D copy = box_of_array(to, to_offset, true, 0, false, bytes);
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY, copy.srcArray = from, copy.srcXInBytes = from_offset;
  return copy_box(nullptr, copy, Wait::No);
}

SIMGPU_API CUresult cuMemcpyHtoAAsync_v2(CUarray array, size_t offset, const void* source, size_t bytes, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  return copy_box(stream, box_of_array(array, offset, true, address(source), true, bytes), Wait::No);
}

SIMGPU_API CUresult cuMemcpyAtoHAsync_v2(void* destination, CUarray array, size_t offset, size_t bytes, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  return copy_box(stream, box_of_array(array, offset, false, address(destination), true, bytes), Wait::No);
}

// Two and three dimensions --------------------------------------------------------------------------------------------

SIMGPU_API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) {
  SIMGPU_ENTER(Needs::Context);
  return copy != nullptr ? copy_box(nullptr, box_of_2d(*copy), Wait::Yes) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) {
  SIMGPU_ENTER(Needs::Context);
  return copy != nullptr ? copy_box(nullptr, box_of_2d(*copy), Wait::Yes) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  return copy != nullptr ? copy_box(stream, box_of_2d(*copy), Wait::No) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) {
  SIMGPU_ENTER(Needs::Context);
  return copy != nullptr ? copy_box(nullptr, *copy, Wait::Yes) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  return copy != nullptr ? copy_box(stream, *copy, Wait::No) : CUDA_ERROR_INVALID_VALUE;
}

namespace {

CUDA_MEMCPY3D box_of_peer(const CUDA_MEMCPY3D_PEER& peer) {
  CUDA_MEMCPY3D copy{};
  copy.srcXInBytes = peer.srcXInBytes, copy.srcY = peer.srcY, copy.srcZ = peer.srcZ, copy.srcLOD = peer.srcLOD;
  copy.srcMemoryType = peer.srcMemoryType, copy.srcHost = peer.srcHost, copy.srcDevice = peer.srcDevice, copy.srcArray = peer.srcArray;
  copy.srcPitch = peer.srcPitch, copy.srcHeight = peer.srcHeight;
  copy.dstXInBytes = peer.dstXInBytes, copy.dstY = peer.dstY, copy.dstZ = peer.dstZ, copy.dstLOD = peer.dstLOD;
  copy.dstMemoryType = peer.dstMemoryType, copy.dstHost = peer.dstHost, copy.dstDevice = peer.dstDevice, copy.dstArray = peer.dstArray;
  copy.dstPitch = peer.dstPitch, copy.dstHeight = peer.dstHeight;
  copy.WidthInBytes = peer.WidthInBytes, copy.Height = peer.Height, copy.Depth = peer.Depth;
  return copy;
}

/// A side in host memory needs no context.
int device_of(CUcontext handle) {
  const ContextRef context = find_context(handle);
  return context != nullptr ? context->device : current_context().device;
}

CUresult peer_box(CUstream stream, const CUDA_MEMCPY3D_PEER* copy, Wait wait) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_box(stream, box_of_peer(*copy), wait, {device_of(copy->dstContext), device_of(copy->srcContext)});
}

}  // namespace

SIMGPU_API CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) {
  SIMGPU_ENTER(Needs::Context);
  return peer_box(nullptr, copy, Wait::Yes);
}

SIMGPU_API CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  return peer_box(stream, copy, Wait::No);
}

// Memset --------------------------------------------------------------------------------------------------------------

#define SIMGPU_MEMSET(bits, type)                                                                                       \
  SIMGPU_API CUresult cuMemsetD##bits##_v2(CUdeviceptr at, type value, size_t count) {                                  \
    SIMGPU_ENTER(Needs::Context);                                                                                       \
    return fill(nullptr, at, 0, value, bits / 8, count, 1);                                                             \
  }                                                                                                                     \
  SIMGPU_API CUresult cuMemsetD##bits##Async(CUdeviceptr at, type value, size_t count, CUstream stream) {               \
    SIMGPU_ENTER(Needs::Context);                                                                                       \
    return fill(stream, at, 0, value, bits / 8, count, 1);                                                              \
  }                                                                                                                     \
  SIMGPU_API CUresult cuMemsetD2D##bits##_v2(CUdeviceptr at, size_t pitch, type value, size_t width, size_t height) {   \
    SIMGPU_ENTER(Needs::Context);                                                                                       \
    return fill(nullptr, at, pitch, value, bits / 8, width, height);                                                    \
  }                                                                                                                     \
  SIMGPU_API CUresult cuMemsetD2D##bits##Async(CUdeviceptr at, size_t pitch, type value, size_t width, size_t height,   \
                                               CUstream stream) {                                                       \
    SIMGPU_ENTER(Needs::Context);                                                                                       \
    return fill(stream, at, pitch, value, bits / 8, width, height);                                                     \
  }

SIMGPU_MEMSET(8, unsigned char)
SIMGPU_MEMSET(16, unsigned short)
SIMGPU_MEMSET(32, unsigned int)
