// Arrays, and memory of others: imports by IPC and external memory.
#include "shim/driver/driver.h"
#include "shim/hooks/accounting.h"
#include "tracer/base/keep_errno.h"

namespace cuheap {
namespace {

/// Bytes of one element's channel; formats of blocks and planes count as one byte. The driver does not tell an array's
/// size, so the event says that it is an estimate.
std::size_t channel_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 1;
  }
}

std::size_t at_least_one(std::size_t extent) { return extent == 0 ? 1 : extent; }

template <typename Descriptor>
std::size_t plane_bytes(const Descriptor* d) {
  return d == nullptr ? 0 : at_least_one(d->Width) * at_least_one(d->Height) * d->NumChannels * channel_bytes(d->Format);
}

template <typename Descriptor>
std::size_t volume_bytes(const Descriptor* d) {
  // Sparse and deferred arrays get their memory by cuMemMapArrayAsync.
  if (d == nullptr || (d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) return 0;
  return plane_bytes(d) * at_least_one(d->Depth);
}

/// Each level has an eighth (a quarter, for planes) of the one above.
std::size_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR* d, unsigned levels) {
  std::size_t total = 0, level = volume_bytes(d);
  for (unsigned i = 0; i < levels && level != 0; ++i, level /= d->Depth > 1 ? 8 : 4) total += level;
  return total;
}

void after_array(PendingAllocation& pending, CUresult result, const void* handle) {
  if (pending.request.bytes == 0) pending.counted = false;
  after_allocation(pending, result, result == CUDA_SUCCESS ? reinterpret_cast<std::uint64_t>(handle) : 0, kEventEstimated);
}

/// Opening is counted by the driver and gives the same address: only the first one is an event.
void after_ipc_open(PendingAllocation& pending, CUresult result, const CUdeviceptr* out) {
  if (result == CUDA_SUCCESS && pending.counted) {
    const HookScope scope;
    const bool again = scope && blocks().change(*out, [](Block& block) { ++block.references; });
    if (again) return;
    driver().cuMemGetAddressRange_v2(nullptr, &pending.request.bytes, *out);
  }
  after_allocation(pending, result, out);
}

/// True if a close only takes one opening back.
bool is_opened_again(CUdeviceptr address) {
  if (!is_recording()) return false;
  const KeepErrno keep;
  const HookScope scope;
  bool again = false;
  if (scope) {
    blocks().change(address, [&again](Block& block) {
      again = block.references > 1;
      if (again) --block.references;
    });
  }
  return again;
}

}  // namespace
}  // namespace cuheap

using namespace cuheap;

CUHEAP_EXPORT CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* descriptor) {
  PendingAllocation pending = before_allocation(Family::Array, plane_bytes(descriptor));
  const CUresult result = with_relief(pending, [&] { return driver().cuArrayCreate_v2(out, descriptor); });
  after_array(pending, result, result == CUDA_SUCCESS ? *out : nullptr);
  return result;
}

CUHEAP_EXPORT CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  PendingAllocation pending = before_allocation(Family::Array, volume_bytes(descriptor));
  const CUresult result = with_relief(pending, [&] { return driver().cuArray3DCreate_v2(out, descriptor); });
  after_array(pending, result, result == CUDA_SUCCESS ? *out : nullptr);
  return result;
}

CUHEAP_EXPORT CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR_v1* descriptor) {
  PendingAllocation pending = before_allocation(Family::Array, plane_bytes(descriptor));
  const CUresult result = driver().cuArrayCreate(out, descriptor);
  after_array(pending, result, result == CUDA_SUCCESS ? *out : nullptr);
  return result;
}

CUHEAP_EXPORT CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR_v1* descriptor) {
  PendingAllocation pending = before_allocation(Family::Array, volume_bytes(descriptor));
  const CUresult result = driver().cuArray3DCreate(out, descriptor);
  after_array(pending, result, result == CUDA_SUCCESS ? *out : nullptr);
  return result;
}

CUHEAP_EXPORT CUresult cuArrayDestroy(CUarray array) {
  const PendingFree pending = before_free(arrays(), reinterpret_cast<std::uint64_t>(array));
  const CUresult result = driver().cuArrayDestroy(array);
  after_free(arrays(), pending, result);
  return result;
}

CUHEAP_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor, unsigned levels) {
  PendingAllocation pending = before_allocation(Family::Array, mipmap_bytes(descriptor, levels));
  const CUresult result = with_relief(pending, [&] { return driver().cuMipmappedArrayCreate(out, descriptor, levels); });
  after_array(pending, result, result == CUDA_SUCCESS ? *out : nullptr);
  return result;
}

CUHEAP_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  const PendingFree pending = before_free(arrays(), reinterpret_cast<std::uint64_t>(array));
  const CUresult result = driver().cuMipmappedArrayDestroy(array);
  after_free(arrays(), pending, result);
  return result;
}

CUHEAP_EXPORT CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr* out, CUexternalMemory memory,
                                                       const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* descriptor) {
  const PendingAllocation pending = before_allocation(Family::Imported, descriptor != nullptr ? descriptor->size : 0);
  const CUresult result = driver().cuExternalMemoryGetMappedBuffer(out, memory, descriptor);
  after_allocation(pending, result, out);
  return result;
}

CUHEAP_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  PendingAllocation pending = before_allocation(Family::Imported, 0);
  const CUresult result = driver().cuIpcOpenMemHandle_v2(out, handle, flags);
  after_ipc_open(pending, result, out);
  return result;
}

CUHEAP_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  PendingAllocation pending = before_allocation(Family::Imported, 0);
  const CUresult result = driver().cuIpcOpenMemHandle(out, handle, flags);
  after_ipc_open(pending, result, out);
  return result;
}

CUHEAP_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  if (is_opened_again(address)) return driver().cuIpcCloseMemHandle(address);
  const PendingFree pending = before_free(address);
  const CUresult result = driver().cuIpcCloseMemHandle(address);
  after_free(pending, result);
  return result;
}
