// CUDA arrays: made, described and freed. Texture and surface objects are not simulated.
#include "copies.h"

namespace cuheap::sim::runtime {
namespace {

CUresult format_of(const cudaChannelFormatDesc& desc, CUarray_format& format, unsigned int& channels) {
  const int bits[] = {desc.x, desc.y, desc.z, desc.w};
  channels = 0;
  while (channels < 4 && bits[channels] != 0) {
    if (bits[channels] != desc.x) return static_cast<CUresult>(cudaErrorInvalidChannelDescriptor);
    ++channels;
  }
  const bool is_signed = desc.f == cudaChannelFormatKindSigned;
  const bool is_float = desc.f == cudaChannelFormatKindFloat;
  switch (desc.x) {
    case 8:
      format = is_signed ? CU_AD_FORMAT_SIGNED_INT8 : CU_AD_FORMAT_UNSIGNED_INT8;
      break;
    case 16:
      format = is_float ? CU_AD_FORMAT_HALF : is_signed ? CU_AD_FORMAT_SIGNED_INT16 : CU_AD_FORMAT_UNSIGNED_INT16;
      break;
    case 32:
      format = is_float ? CU_AD_FORMAT_FLOAT : is_signed ? CU_AD_FORMAT_SIGNED_INT32 : CU_AD_FORMAT_UNSIGNED_INT32;
      break;
    default:
      return static_cast<CUresult>(cudaErrorInvalidChannelDescriptor);
  }
  const bool is_supported = channels == 1 || channels == 2 || channels == 4;
  return is_supported && !(is_float && desc.x == 8) ? CUDA_SUCCESS
                                                    : static_cast<CUresult>(cudaErrorInvalidChannelDescriptor);
}

cudaChannelFormatDesc desc_of(CUarray_format format, unsigned int channels) {
  int bits = 32;
  cudaChannelFormatKind kind = cudaChannelFormatKindUnsigned;
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      bits = 8;
      break;
    case CU_AD_FORMAT_UNSIGNED_INT16:
      bits = 16;
      break;
    case CU_AD_FORMAT_SIGNED_INT8:
      bits = 8;
      kind = cudaChannelFormatKindSigned;
      break;
    case CU_AD_FORMAT_SIGNED_INT16:
      bits = 16;
      kind = cudaChannelFormatKindSigned;
      break;
    case CU_AD_FORMAT_SIGNED_INT32:
      kind = cudaChannelFormatKindSigned;
      break;
    case CU_AD_FORMAT_HALF:
      bits = 16;
      kind = cudaChannelFormatKindFloat;
      break;
    case CU_AD_FORMAT_FLOAT:
      kind = cudaChannelFormatKindFloat;
      break;
    default:
      break;
  }
  return {bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 3 ? bits : 0, kind};
}

CUresult descriptor_of(const cudaChannelFormatDesc* desc, const cudaExtent& extent, unsigned int flags,
                       CUDA_ARRAY3D_DESCRIPTOR& out) {
  if (desc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  out = {};
  out.Width = extent.width;
  out.Height = extent.height;
  out.Depth = extent.depth;
  out.Flags = flags;
  return format_of(*desc, out.Format, out.NumChannels);
}

cudaError_t create(cudaArray_t* array, const cudaChannelFormatDesc* desc, const cudaExtent& extent,
                   unsigned int flags) {
  if (array == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    if (const CUresult result = descriptor_of(desc, extent, flags, descriptor); result != CUDA_SUCCESS) return result;
    return driver().cuArray3DCreate_(reinterpret_cast<CUarray*>(array), &descriptor);
  });
}

}  // namespace

CUDART_EXPORT cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

CUDART_EXPORT cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, size_t width,
                                          size_t height, unsigned int flags) {
  return create(array, desc, cudaExtent{width, height, 0}, flags);
}

CUDART_EXPORT cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, cudaExtent extent,
                                            unsigned int flags) {
  return create(array, desc, extent, flags);
}

CUDART_EXPORT cudaError_t cudaFreeArray(cudaArray_t array) {
  return with_context([&] { return array == nullptr ? CUDA_SUCCESS : driver().cuArrayDestroy_(to_driver(array)); });
}

CUDART_EXPORT cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* array, const cudaChannelFormatDesc* desc,
                                                   cudaExtent extent, unsigned int levels, unsigned int flags) {
  if (array == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    if (const CUresult result = descriptor_of(desc, extent, flags, descriptor); result != CUDA_SUCCESS) return result;
    return driver().cuMipmappedArrayCreate_(reinterpret_cast<CUmipmappedArray*>(array), &descriptor, levels);
  });
}

CUDART_EXPORT cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t* level_array, cudaMipmappedArray_const_t array,
                                                     unsigned int level) {
  if (level_array == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    auto* mipmap = reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray*>(array));
    return driver().cuMipmappedArrayGetLevel_(reinterpret_cast<CUarray*>(level_array), mipmap, level);
  });
}

CUDART_EXPORT cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  return with_context([&] {
    return array == nullptr ? CUDA_SUCCESS
                            : driver().cuMipmappedArrayDestroy_(reinterpret_cast<CUmipmappedArray>(array));
  });
}

CUDART_EXPORT cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent, unsigned int* flags,
                                           cudaArray_t array) {
  return with_context([&] {
    CUDA_ARRAY3D_DESCRIPTOR descriptor{};
    const CUresult result = driver().cuArray3DGetDescriptor_(&descriptor, to_driver(array));
    if (result != CUDA_SUCCESS) return result;
    if (desc != nullptr) *desc = desc_of(descriptor.Format, descriptor.NumChannels);
    if (extent != nullptr) *extent = {descriptor.Width, descriptor.Height, descriptor.Depth};
    if (flags != nullptr) *flags = descriptor.Flags;
    return CUDA_SUCCESS;
  });
}

CUDART_EXPORT cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
  if (desc == nullptr) return remember(cudaErrorInvalidValue);
  return cudaArrayGetInfo(desc, nullptr, nullptr, const_cast<cudaArray_t>(array));
}

CUDART_EXPORT cudaError_t cudaArrayGetPlane(cudaArray_t* plane, cudaArray_t array, unsigned int index) {
  if (plane == nullptr) return remember(cudaErrorInvalidValue);
  return with_context(
      [&] { return driver().cuArrayGetPlane_(reinterpret_cast<CUarray*>(plane), to_driver(array), index); });
}

}  // namespace cuheap::sim::runtime
