// CUDA arrays and mipmapped arrays: the right number of bytes on the device, copied in and out by rows. Textures and surfaces
// over them are for kernels, which compute nothing here: not supported.
#include "simgpu/array.h"

#include <algorithm>

#include "simgpu/libcuda_entry.h"

using namespace cuheap::sim;

namespace cuheap::sim {
namespace {

size_t bytes_of_format(int format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8: case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16: case CU_AD_FORMAT_SIGNED_INT16: case CU_AD_FORMAT_HALF: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32: case CU_AD_FORMAT_SIGNED_INT32: case CU_AD_FORMAT_FLOAT: return 4;
    default: return 0;
  }
}

CUresult create(const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned levels, Array** out) {
  const size_t element = bytes_of_format(d.Format) * d.NumChannels;
  if (element == 0) return d.NumChannels == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
  if (d.Width == 0 || d.Width > SIZE_MAX / element) return CUDA_ERROR_INVALID_VALUE;
  if (d.NumChannels != 1 && d.NumChannels != 2 && d.NumChannels != 4) return CUDA_ERROR_INVALID_VALUE;
  if ((d.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult refused = unsafe_call(); refused != CUDA_SUCCESS) return refused;
  const Context& context = current_context();
  auto array = std::make_shared<Array>();
  array->device = context.device, array->context_id = context.id;
  array->width = d.Width, array->height = d.Height, array->depth = d.Depth;
  array->format = d.Format, array->channels = d.NumChannels, array->flags = d.Flags, array->levels = levels;
  array->element_bytes = element;
  array->row_bytes = d.Width * element;
  size_t width = d.Width, height = std::max<size_t>(d.Height, 1), depth = std::max<size_t>(d.Depth, 1);
  for (unsigned level = 0; level < levels; ++level) {
    size_t bytes = 0;
    if (__builtin_mul_overflow(width * element, height, &bytes) || __builtin_mul_overflow(bytes, depth, &bytes) ||
        __builtin_add_overflow(array->bytes, bytes, &array->bytes))
      return CUDA_ERROR_INVALID_VALUE;
    width = std::max<size_t>(width / 2, 1), height = std::max<size_t>(height / 2, 1), depth = std::max<size_t>(depth / 2, 1);
  }
  array->address = machine().allocations.allocate_device(context.device, context.id, array->bytes);
  if (array->address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = machine().arrays.add(std::move(array));
  return CUDA_SUCCESS;
}

CUresult destroy(const void* handle) {
  const auto array = machine().arrays.take(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (array->bytes > 0) free_allocation(array->address, true);
  return CUDA_SUCCESS;
}

CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, const void* handle) {
  const auto array = machine().arrays.find(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  out->size = array->bytes;
  out->alignment = 512;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace cuheap::sim

SIMGPU_API CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  SIMGPU_ENTER(Needs::Context);
  if (out == nullptr || d == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return create({d->Width, d->Height, 0, d->Format, d->NumChannels, 0}, 1, reinterpret_cast<Array**>(out));
}

SIMGPU_API CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  SIMGPU_ENTER(Needs::Context);
  if (out == nullptr || d == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return create(*d, 1, reinterpret_cast<Array**>(out));
}

SIMGPU_API CUresult cuArrayDestroy(CUarray array) {
  SIMGPU_ENTER(Needs::Init);
  return destroy(array);
}

SIMGPU_API CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  SIMGPU_ENTER(Needs::Context);
  const auto array = machine().arrays.find(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {array->width, array->height, static_cast<CUarray_format>(array->format), array->channels};
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  SIMGPU_ENTER(Needs::Context);
  const auto array = machine().arrays.find(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {array->width, array->height, array->depth, static_cast<CUarray_format>(array->format), array->channels, array->flags};
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray array, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  return valid_device(device) ? requirements(out, array) : CUDA_ERROR_INVALID_DEVICE;
}

SIMGPU_API CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* d, unsigned int levels) {
  SIMGPU_ENTER(Needs::Context);
  if (out == nullptr || d == nullptr || levels == 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t largest = std::max({d->Width, d->Height, d->Depth, size_t{1}});
  unsigned most = 1;
  while ((largest >> most) > 0) ++most;
  return create(*d, std::min(levels, most), reinterpret_cast<Array**>(out));
}

SIMGPU_API CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  SIMGPU_ENTER(Needs::Init);
  return destroy(array);
}

SIMGPU_API CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUmipmappedArray array, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  return valid_device(device) ? requirements(out, array) : CUDA_ERROR_INVALID_DEVICE;
}
