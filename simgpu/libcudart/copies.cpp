// Copies and fills: every shape over the driver's linear, 2D and 3D copies.
#include "copies.h"

#include <cstring>

#include "registry.h"

namespace cuheap::sim::runtime {
namespace {

bool is_valid(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

CUmemorytype source_type(cudaMemcpyKind kind) {
  if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice) return CU_MEMORYTYPE_HOST;
  return kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
}

CUmemorytype destination_type(cudaMemcpyKind kind) {
  if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost) return CU_MEMORYTYPE_HOST;
  return kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
}

template <typename Copy>
void set_source(Copy& copy, CUmemorytype type, const void* pointer, size_t pitch) {
  copy.srcMemoryType = type;
  copy.srcPitch = pitch;
  if (type == CU_MEMORYTYPE_HOST) {
    copy.srcHost = pointer;
  } else {
    copy.srcDevice = address(pointer);
  }
}

template <typename Copy>
void set_destination(Copy& copy, CUmemorytype type, void* pointer, size_t pitch) {
  copy.dstMemoryType = type;
  copy.dstPitch = pitch;
  if (type == CU_MEMORYTYPE_HOST) {
    copy.dstHost = pointer;
  } else {
    copy.dstDevice = address(pointer);
  }
}

CUresult copy_linear(const Driver& driver, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (!is_valid(kind)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
  if (bytes == 0) return CUDA_SUCCESS;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return driver.cuMemcpyHtoD_(address(to), from, bytes);
    case cudaMemcpyDeviceToHost:
      return driver.cuMemcpyDtoH_(to, address(from), bytes);
    case cudaMemcpyDeviceToDevice:
      return driver.cuMemcpyDtoD_(address(to), address(from), bytes);
    default:
      return driver.cuMemcpy_(address(to), address(from), bytes);
  }
}

CUresult copy_linear_async(const Driver& driver, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                           cudaStream_t stream) {
  if (!is_valid(kind)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
  if (bytes == 0) return CUDA_SUCCESS;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return driver.cuMemcpyHtoDAsync_(address(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return driver.cuMemcpyDtoHAsync_(to, address(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return driver.cuMemcpyDtoDAsync_(address(to), address(from), bytes, stream);
    default:
      return driver.cuMemcpyAsync_(address(to), address(from), bytes, stream);
  }
}

CUDA_MEMCPY2D plane(size_t width, size_t height) {
  CUDA_MEMCPY2D copy{};
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

CUDA_MEMCPY2D memory_to_memory(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                               size_t height, cudaMemcpyKind kind) {
  CUDA_MEMCPY2D copy = plane(width, height);
  set_source(copy, source_type(kind), from, from_pitch);
  set_destination(copy, destination_type(kind), to, to_pitch);
  return copy;
}

CUDA_MEMCPY2D memory_to_array(cudaArray_t to, size_t x, size_t y, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind) {
  CUDA_MEMCPY2D copy = plane(width, height);
  set_source(copy, source_type(kind), from, from_pitch);
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = to_driver(to);
  copy.dstXInBytes = x;
  copy.dstY = y;
  return copy;
}

CUDA_MEMCPY2D array_to_memory(void* to, size_t to_pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
                              size_t height, cudaMemcpyKind kind) {
  CUDA_MEMCPY2D copy = plane(width, height);
  set_destination(copy, destination_type(kind), to, to_pitch);
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = to_driver(from);
  copy.srcXInBytes = x;
  copy.srcY = y;
  return copy;
}

CUDA_MEMCPY2D array_to_array(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t x, size_t y,
                             size_t width, size_t height) {
  CUDA_MEMCPY2D copy = plane(width, height);
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = to_driver(from);
  copy.srcXInBytes = x;
  copy.srcY = y;
  copy.dstArray = to_driver(to);
  copy.dstXInBytes = to_x;
  copy.dstY = to_y;
  return copy;
}

CUresult run(const Driver& driver, const CUDA_MEMCPY2D& copy, cudaMemcpyKind kind) {
  if (!is_valid(kind)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
  if (copy.WidthInBytes == 0 || copy.Height == 0) return CUDA_SUCCESS;
  return driver.cuMemcpy2DUnaligned_(&copy);
}

CUresult run_async(const Driver& driver, const CUDA_MEMCPY2D& copy, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!is_valid(kind)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
  if (copy.WidthInBytes == 0 || copy.Height == 0) return CUDA_SUCCESS;
  return driver.cuMemcpy2DAsync_(&copy, stream);
}

CUresult primary_context(int ordinal, CUcontext& context) {
  CUdevice device = 0;
  if (const CUresult result = driver().cuDeviceGet_(&device, ordinal); result != CUDA_SUCCESS) return result;
  return driver().cuDevicePrimaryCtxRetain_(&context, device);
}

CUresult peer_copy_of(const cudaMemcpy3DPeerParms& params, CUDA_MEMCPY3D_PEER& copy) {
  cudaMemcpy3DParms plain{};
  plain.srcArray = params.srcArray;
  plain.srcPos = params.srcPos;
  plain.srcPtr = params.srcPtr;
  plain.dstArray = params.dstArray;
  plain.dstPos = params.dstPos;
  plain.dstPtr = params.dstPtr;
  plain.extent = params.extent;
  plain.kind = cudaMemcpyDeviceToDevice;
  CUDA_MEMCPY3D linear{};
  if (const CUresult result = to_driver(plain, linear); result != CUDA_SUCCESS) return result;
  static_assert(sizeof copy == sizeof linear);  // the contexts stand where the plain form has reserved fields
  std::memcpy(&copy, &linear, sizeof copy);
  if (const CUresult result = primary_context(params.srcDevice, copy.srcContext); result != CUDA_SUCCESS) return result;
  return primary_context(params.dstDevice, copy.dstContext);
}

// The words a fill repeats: the runtime fills bytes.
unsigned char fill_byte(int value) {
  return static_cast<unsigned char>(value);
}

CUresult fill_volume(const Driver& driver, const cudaPitchedPtr& target, int value, const cudaExtent& extent,
                     const cudaStream_t* stream) {
  const size_t slice = target.pitch * target.ysize;
  for (size_t z = 0; z < extent.depth; ++z) {
    const CUdeviceptr start = address(target.ptr) + z * slice;
    const CUresult result =
        stream == nullptr
            ? driver.cuMemsetD2D8_(start, target.pitch, fill_byte(value), extent.width, extent.height)
            : driver.cuMemsetD2D8Async_(start, target.pitch, fill_byte(value), extent.width, extent.height, *stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

size_t element_bytes(CUarray array) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  if (driver().cuArray3DGetDescriptor_(&descriptor, array) != CUDA_SUCCESS) return 0;
  size_t bytes = 4;
  switch (descriptor.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      bytes = 1;
      break;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      bytes = 2;
      break;
    default:
      break;
  }
  return bytes * descriptor.NumChannels;
}

CUresult to_driver(const cudaMemcpy3DParms& params, CUDA_MEMCPY3D& copy) {
  if (!is_valid(params.kind)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
  copy = {};
  const size_t source_element = params.srcArray == nullptr ? 1 : element_bytes(to_driver(params.srcArray));
  const size_t destination_element = params.dstArray == nullptr ? 1 : element_bytes(to_driver(params.dstArray));
  if (source_element == 0 || destination_element == 0) return CUDA_ERROR_INVALID_HANDLE;
  copy.srcXInBytes = params.srcPos.x * source_element;
  copy.srcY = params.srcPos.y;
  copy.srcZ = params.srcPos.z;
  if (params.srcArray != nullptr) {
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = to_driver(params.srcArray);
  } else {
    set_source(copy, source_type(params.kind), params.srcPtr.ptr, params.srcPtr.pitch);
    copy.srcHeight = params.srcPtr.ysize;
  }
  copy.dstXInBytes = params.dstPos.x * destination_element;
  copy.dstY = params.dstPos.y;
  copy.dstZ = params.dstPos.z;
  if (params.dstArray != nullptr) {
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = to_driver(params.dstArray);
  } else {
    set_destination(copy, destination_type(params.kind), params.dstPtr.ptr, params.dstPtr.pitch);
    copy.dstHeight = params.dstPtr.ysize;
  }
  copy.WidthInBytes = params.extent.width * (params.srcArray != nullptr ? source_element : destination_element);
  copy.Height = params.extent.height;
  copy.Depth = params.extent.depth;
  return CUDA_SUCCESS;
}

CUresult to_driver(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, CUDA_MEMCPY3D& copy) {
  if (!is_valid(kind)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
  copy = {};
  set_source(copy, source_type(kind), from, bytes);
  set_destination(copy, destination_type(kind), to, bytes);
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return CUDA_SUCCESS;
}

cudaMemcpy3DParms to_runtime(const CUDA_MEMCPY3D& copy) {
  cudaMemcpy3DParms params{};
  const bool from_array = copy.srcMemoryType == CU_MEMORYTYPE_ARRAY;
  const bool to_array = copy.dstMemoryType == CU_MEMORYTYPE_ARRAY;
  const size_t source_element = from_array ? element_bytes(copy.srcArray) : 1;
  const size_t destination_element = to_array ? element_bytes(copy.dstArray) : 1;
  if (source_element == 0 || destination_element == 0) return params;
  params.srcPos = {copy.srcXInBytes / source_element, copy.srcY, copy.srcZ};
  params.dstPos = {copy.dstXInBytes / destination_element, copy.dstY, copy.dstZ};
  if (from_array) {
    params.srcArray = reinterpret_cast<cudaArray_t>(copy.srcArray);
  } else {
    void* pointer = copy.srcMemoryType == CU_MEMORYTYPE_HOST ? const_cast<void*>(copy.srcHost)
                                                             : reinterpret_cast<void*>(copy.srcDevice);
    params.srcPtr = {pointer, copy.srcPitch, copy.WidthInBytes, copy.srcHeight};
  }
  if (to_array) {
    params.dstArray = reinterpret_cast<cudaArray_t>(copy.dstArray);
  } else {
    void* pointer = copy.dstMemoryType == CU_MEMORYTYPE_HOST ? copy.dstHost : reinterpret_cast<void*>(copy.dstDevice);
    params.dstPtr = {pointer, copy.dstPitch, copy.WidthInBytes, copy.dstHeight};
  }
  params.extent = {copy.WidthInBytes / (from_array ? source_element : destination_element), copy.Height, copy.Depth};
  const bool from_host = copy.srcMemoryType == CU_MEMORYTYPE_HOST;
  const bool to_host = copy.dstMemoryType == CU_MEMORYTYPE_HOST;
  params.kind = from_host ? (to_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice)
                          : (to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice);
  if (copy.srcMemoryType == CU_MEMORYTYPE_UNIFIED || copy.dstMemoryType == CU_MEMORYTYPE_UNIFIED) {
    params.kind = cudaMemcpyDefault;
  }
  return params;
}

// Linear.

CUDART_WITH_TWIN(cudaMemcpy, _ptds, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
                 (to, from, bytes, kind)) {
  return with_context([&] { return copy_linear(driver, to, from, bytes, kind); });
}

CUDART_WITH_TWIN(cudaMemcpyAsync, _ptsz,
                 (void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
                 (to, from, bytes, kind, stream)) {
  return with_context([&] { return copy_linear_async(driver, to, from, bytes, kind, stream); });
}

CUDART_EXPORT cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  return with_context([&] {
    CUcontext to_context = nullptr;
    CUcontext from_context = nullptr;
    if (const CUresult result = primary_context(to_device, to_context); result != CUDA_SUCCESS) return result;
    if (const CUresult result = primary_context(from_device, from_context); result != CUDA_SUCCESS) return result;
    return driver().cuMemcpyPeer_(address(to), to_context, address(from), from_context, bytes);
  });
}

CUDART_EXPORT cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                              cudaStream_t stream) {
  return with_context([&] {
    CUcontext to_context = nullptr;
    CUcontext from_context = nullptr;
    if (const CUresult result = primary_context(to_device, to_context); result != CUDA_SUCCESS) return result;
    if (const CUresult result = primary_context(from_device, from_context); result != CUDA_SUCCESS) return result;
    return driver().cuMemcpyPeerAsync_(address(to), to_context, address(from), from_context, bytes, stream);
  });
}

// Batches: the documented order within a batch is none, so one after the other is one of the allowed ones.

#if CUDART_VERSION >= 13000
CUDART_WITH_TWIN(cudaMemcpyBatchAsync, _ptsz,
                 (void* const* to, const void* const* from, const size_t* sizes, size_t count,
                  cudaMemcpyAttributes* attrs, size_t* attr_indices, size_t attr_count, cudaStream_t stream),
                 (to, from, sizes, count, attrs, attr_indices, attr_count, stream)) {
  if (to == nullptr || from == nullptr || sizes == nullptr || attrs == nullptr || attr_indices == nullptr ||
      attr_count == 0 || count == 0) {
    return remember(cudaErrorInvalidValue);
  }
  return with_context([&] {
    for (size_t i = 0; i < count; ++i) {
      const CUresult result = copy_linear_async(driver, to[i], from[i], sizes[i], cudaMemcpyDefault, stream);
      if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  });
}
#endif

// Planes.

CUDART_WITH_TWIN(cudaMemcpy2D, _ptds,
                 (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                  cudaMemcpyKind kind),
                 (to, to_pitch, from, from_pitch, width, height, kind)) {
  return with_context(
      [&] { return run(driver, memory_to_memory(to, to_pitch, from, from_pitch, width, height, kind), kind); });
}

CUDART_WITH_TWIN(cudaMemcpy2DAsync, _ptsz,
                 (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                  cudaMemcpyKind kind, cudaStream_t stream),
                 (to, to_pitch, from, from_pitch, width, height, kind, stream)) {
  return with_context([&] {
    return run_async(driver, memory_to_memory(to, to_pitch, from, from_pitch, width, height, kind), kind, stream);
  });
}

CUDART_WITH_TWIN(cudaMemcpy2DToArray, _ptds,
                 (cudaArray_t to, size_t x, size_t y, const void* from, size_t from_pitch, size_t width, size_t height,
                  cudaMemcpyKind kind),
                 (to, x, y, from, from_pitch, width, height, kind)) {
  return with_context(
      [&] { return run(driver, memory_to_array(to, x, y, from, from_pitch, width, height, kind), kind); });
}

CUDART_WITH_TWIN(cudaMemcpy2DToArrayAsync, _ptsz,
                 (cudaArray_t to, size_t x, size_t y, const void* from, size_t from_pitch, size_t width, size_t height,
                  cudaMemcpyKind kind, cudaStream_t stream),
                 (to, x, y, from, from_pitch, width, height, kind, stream)) {
  return with_context([&] {
    return run_async(driver, memory_to_array(to, x, y, from, from_pitch, width, height, kind), kind, stream);
  });
}

CUDART_WITH_TWIN(cudaMemcpy2DFromArray, _ptds,
                 (void* to, size_t to_pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t height,
                  cudaMemcpyKind kind),
                 (to, to_pitch, from, x, y, width, height, kind)) {
  return with_context(
      [&] { return run(driver, array_to_memory(to, to_pitch, from, x, y, width, height, kind), kind); });
}

CUDART_WITH_TWIN(cudaMemcpy2DFromArrayAsync, _ptsz,
                 (void* to, size_t to_pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t height,
                  cudaMemcpyKind kind, cudaStream_t stream),
                 (to, to_pitch, from, x, y, width, height, kind, stream)) {
  return with_context(
      [&] { return run_async(driver, array_to_memory(to, to_pitch, from, x, y, width, height, kind), kind, stream); });
}

CUDART_WITH_TWIN(cudaMemcpy2DArrayToArray, _ptds,
                 (cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t x, size_t y, size_t width,
                  size_t height, cudaMemcpyKind kind),
                 (to, to_x, to_y, from, x, y, width, height, kind)) {
  return with_context([&] { return run(driver, array_to_array(to, to_x, to_y, from, x, y, width, height), kind); });
}

// Volumes.

CUDART_WITH_TWIN(cudaMemcpy3D, _ptds, (const cudaMemcpy3DParms* params), (params)) {
  if (params == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_MEMCPY3D copy;
    if (const CUresult result = to_driver(*params, copy); result != CUDA_SUCCESS) return result;
    return driver.cuMemcpy3D_(&copy);
  });
}

CUDART_WITH_TWIN(cudaMemcpy3DAsync, _ptsz, (const cudaMemcpy3DParms* params, cudaStream_t stream), (params, stream)) {
  if (params == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_MEMCPY3D copy;
    if (const CUresult result = to_driver(*params, copy); result != CUDA_SUCCESS) return result;
    return driver.cuMemcpy3DAsync_(&copy, stream);
  });
}

CUDART_WITH_TWIN(cudaMemcpy3DPeer, _ptds, (const cudaMemcpy3DPeerParms* params), (params)) {
  if (params == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_MEMCPY3D_PEER copy;
    if (const CUresult result = peer_copy_of(*params, copy); result != CUDA_SUCCESS) return result;
    return driver.cuMemcpy3DPeer_(&copy);
  });
}

CUDART_WITH_TWIN(cudaMemcpy3DPeerAsync, _ptsz, (const cudaMemcpy3DPeerParms* params, cudaStream_t stream),
                 (params, stream)) {
  if (params == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_MEMCPY3D_PEER copy;
    if (const CUresult result = peer_copy_of(*params, copy); result != CUDA_SUCCESS) return result;
    return driver.cuMemcpy3DPeerAsync_(&copy, stream);
  });
}

// Fills.

CUDART_WITH_TWIN(cudaMemset, _ptds, (void* to, int value, size_t bytes), (to, value, bytes)) {
  return with_context(
      [&] { return bytes == 0 ? CUDA_SUCCESS : driver.cuMemsetD8_(address(to), fill_byte(value), bytes); });
}

CUDART_WITH_TWIN(cudaMemsetAsync, _ptsz, (void* to, int value, size_t bytes, cudaStream_t stream),
                 (to, value, bytes, stream)) {
  return with_context([&] {
    return bytes == 0 ? CUDA_SUCCESS : driver.cuMemsetD8Async_(address(to), fill_byte(value), bytes, stream);
  });
}

CUDART_WITH_TWIN(cudaMemset2D, _ptds, (void* to, size_t pitch, int value, size_t width, size_t height),
                 (to, pitch, value, width, height)) {
  return with_context([&] { return driver.cuMemsetD2D8_(address(to), pitch, fill_byte(value), width, height); });
}

CUDART_WITH_TWIN(cudaMemset2DAsync, _ptsz,
                 (void* to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
                 (to, pitch, value, width, height, stream)) {
  return with_context(
      [&] { return driver.cuMemsetD2D8Async_(address(to), pitch, fill_byte(value), width, height, stream); });
}

CUDART_WITH_TWIN(cudaMemset3D, _ptds, (cudaPitchedPtr to, int value, cudaExtent extent), (to, value, extent)) {
  return with_context([&] { return fill_volume(driver, to, value, extent, nullptr); });
}

CUDART_WITH_TWIN(cudaMemset3DAsync, _ptsz, (cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream),
                 (to, value, extent, stream)) {
  return with_context([&] { return fill_volume(driver, to, value, extent, &stream); });
}

// Symbols: a copy to or from where the registered variable lives.

CUDART_WITH_TWIN(cudaMemcpyToSymbol, _ptds,
                 (const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind),
                 (symbol, from, bytes, offset, kind)) {
  return with_context([&] {
    Variable variable;
    if (const CUresult result = find_variable(symbol, variable); result != CUDA_SUCCESS) return result;
    if (offset + bytes > variable.bytes) return CUDA_ERROR_INVALID_VALUE;
    return copy_linear(driver, reinterpret_cast<void*>(variable.address + offset), from, bytes, kind);
  });
}

CUDART_WITH_TWIN(cudaMemcpyToSymbolAsync, _ptsz,
                 (const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
                  cudaStream_t stream),
                 (symbol, from, bytes, offset, kind, stream)) {
  return with_context([&] {
    Variable variable;
    if (const CUresult result = find_variable(symbol, variable); result != CUDA_SUCCESS) return result;
    if (offset + bytes > variable.bytes) return CUDA_ERROR_INVALID_VALUE;
    return copy_linear_async(driver, reinterpret_cast<void*>(variable.address + offset), from, bytes, kind, stream);
  });
}

CUDART_WITH_TWIN(cudaMemcpyFromSymbol, _ptds,
                 (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
                 (to, symbol, bytes, offset, kind)) {
  return with_context([&] {
    Variable variable;
    if (const CUresult result = find_variable(symbol, variable); result != CUDA_SUCCESS) return result;
    if (offset + bytes > variable.bytes) return CUDA_ERROR_INVALID_VALUE;
    return copy_linear(driver, to, reinterpret_cast<const void*>(variable.address + offset), bytes, kind);
  });
}

CUDART_WITH_TWIN(cudaMemcpyFromSymbolAsync, _ptsz,
                 (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream),
                 (to, symbol, bytes, offset, kind, stream)) {
  return with_context([&] {
    Variable variable;
    if (const CUresult result = find_variable(symbol, variable); result != CUDA_SUCCESS) return result;
    if (offset + bytes > variable.bytes) return CUDA_ERROR_INVALID_VALUE;
    return copy_linear_async(driver, to, reinterpret_cast<const void*>(variable.address + offset), bytes, kind, stream);
  });
}

CUDART_EXPORT cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  if (pointer == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    Variable variable;
    const CUresult result = find_variable(symbol, variable);
    if (result == CUDA_SUCCESS) *pointer = reinterpret_cast<void*>(variable.address);
    return result;
  });
}

CUDART_EXPORT cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  if (bytes == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    Variable variable;
    const CUresult result = find_variable(symbol, variable);
    if (result == CUDA_SUCCESS) *bytes = variable.bytes;
    return result;
  });
}

}  // namespace cuheap::sim::runtime
