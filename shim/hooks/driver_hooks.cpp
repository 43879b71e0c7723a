// Device memory, host memory, stream-ordered memory: the hooks of the cuMem* families but VMM.
#include "shim/driver/driver.h"
#include "shim/hooks/accounting.h"

using namespace cuheap;

CUHEAP_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  const PendingAllocation pending = before_allocation(Family::Device, bytes);
  std::uint8_t event_flags = 0;
  const CUresult result = allocator().allocate(pending.request, out, &event_flags);
  after_allocation(pending, result, out, event_flags);
  return result;
}

CUHEAP_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  const PendingFree pending = before_free(address);
  const CUresult result = allocator().release(pending.caller, address);
  after_free(pending, result);
  return result;
}

CUHEAP_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element) {
  PendingAllocation pending = before_allocation(Family::Pitch, width * height);
  const CUresult result = with_relief(pending, [&] { return driver().cuMemAllocPitch_v2(out, pitch, width, height, element); });
  if (result == CUDA_SUCCESS) pending.request.bytes = *pitch * height;
  after_allocation(pending, result, out);
  return result;
}

CUHEAP_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned flags) {
  const PendingAllocation pending = before_allocation(Family::Managed, bytes);
  const CUresult result = with_relief(pending, [&] { return driver().cuMemAllocManaged(out, bytes, flags); });
  after_allocation(pending, result, out);
  return result;
}

// The ABI of 32-bit times: device addresses are 32 bits wide.
CUHEAP_EXPORT CUresult cuMemAlloc(CUdeviceptr_v1* out, unsigned bytes) {
  const PendingAllocation pending = before_allocation(Family::Device, bytes);
  const CUresult result = driver().cuMemAlloc(out, bytes);
  after_allocation(pending, result, result == CUDA_SUCCESS ? std::uint64_t{*out} : 0);
  return result;
}

CUHEAP_EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1* out, unsigned* pitch, unsigned width, unsigned height, unsigned element) {
  PendingAllocation pending = before_allocation(Family::Pitch, std::size_t{width} * height);
  const CUresult result = driver().cuMemAllocPitch(out, pitch, width, height, element);
  if (result == CUDA_SUCCESS) pending.request.bytes = std::size_t{*pitch} * height;
  after_allocation(pending, result, result == CUDA_SUCCESS ? std::uint64_t{*out} : 0);
  return result;
}

CUHEAP_EXPORT CUresult cuMemFree(CUdeviceptr_v1 address) {
  const PendingFree pending = before_free(CUdeviceptr{address});
  const CUresult result = driver().cuMemFree(address);
  after_free(pending, result);
  return result;
}

// Stream-ordered. The _ptsz twins differ in what stream 0 means, and in nothing else.
namespace {

/// While a capture is open, an allocation on a captured stream makes a node of the graph, and no memory yet.
Family async_family(CUstream stream, bool per_thread) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!capture_view().open) return Family::AsyncPool;
  const CUresult result = per_thread ? driver().cuStreamIsCapturing_ptsz(stream, &status) : driver().cuStreamIsCapturing(stream, &status);
  return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? Family::Graph : Family::AsyncPool;
}

}  // namespace

CUHEAP_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  const PendingAllocation pending = before_allocation(async_family(stream, false), bytes, stream);
  const CUresult result = with_relief(pending, [&] { return driver().cuMemAllocAsync(out, bytes, stream); });
  after_allocation(pending, result, out);
  return result;
}

CUHEAP_EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr* out, size_t bytes, CUstream stream) {
  const PendingAllocation pending = before_allocation(async_family(stream, true), bytes, stream_of(stream, true));
  const CUresult result = with_relief(pending, [&] { return driver().cuMemAllocAsync_ptsz(out, bytes, stream); });
  after_allocation(pending, result, out);
  return result;
}

CUHEAP_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  const PendingAllocation pending = before_allocation(async_family(stream, false), bytes, stream);
  const CUresult result = with_relief(
      kAnyDevice, bytes, [&] { return driver().cuMemAllocFromPoolAsync(out, bytes, pool, stream); });
  after_allocation(pending, result, out);
  return result;
}

CUHEAP_EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  const PendingAllocation pending = before_allocation(async_family(stream, true), bytes, stream_of(stream, true));
  const CUresult result = with_relief(
      kAnyDevice, bytes, [&] { return driver().cuMemAllocFromPoolAsync_ptsz(out, bytes, pool, stream); });
  after_allocation(pending, result, out);
  return result;
}

CUHEAP_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  const PendingFree pending = before_free(address, stream);
  const CUresult result = allocator().release_async(pending.caller, address, stream);
  after_free(pending, result);
  return result;
}

CUHEAP_EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  const CUstream meant = stream_of(stream, true);
  const PendingFree pending = before_free(address, meant);
  const CUresult result = allocator().release_async(pending.caller, address, meant);
  after_free(pending, result);
  return result;
}

CUHEAP_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
  PendingAllocation pending = before_allocation(Family::Imported, 0);
  const CUresult result = driver().cuMemPoolImportPointer(out, pool, data);
  if (result == CUDA_SUCCESS && pending.counted) driver().cuMemGetAddressRange_v2(nullptr, &pending.request.bytes, *out);
  after_allocation(pending, result, out);
  return result;
}

// Host memory.
CUHEAP_EXPORT CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
  const PendingAllocation pending = before_allocation(Family::Pinned, bytes);
  const CUresult result = driver().cuMemAllocHost_v2(out, bytes);
  after_allocation(pending, result, out);
  return result;
}

CUHEAP_EXPORT CUresult cuMemAllocHost(void** out, unsigned bytes) {
  const PendingAllocation pending = before_allocation(Family::Pinned, bytes);
  const CUresult result = driver().cuMemAllocHost(out, bytes);
  after_allocation(pending, result, out);
  return result;
}

CUHEAP_EXPORT CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  const PendingAllocation pending = before_allocation(Family::Pinned, bytes);
  const CUresult result = driver().cuMemHostAlloc(out, bytes, flags);
  after_allocation(pending, result, out);
  return result;
}

CUHEAP_EXPORT CUresult cuMemFreeHost(void* address) {
  const PendingFree pending = before_free(address);
  const CUresult result = driver().cuMemFreeHost(address);
  after_free(pending, result);
  return result;
}

CUHEAP_EXPORT CUresult cuMemHostRegister_v2(void* address, size_t bytes, unsigned flags) {
  const PendingAllocation pending = before_allocation(Family::Registered, bytes);
  const CUresult result = driver().cuMemHostRegister_v2(address, bytes, flags);
  after_allocation(pending, result, &address);
  return result;
}

CUHEAP_EXPORT CUresult cuMemHostRegister(void* address, size_t bytes, unsigned flags) {
  const PendingAllocation pending = before_allocation(Family::Registered, bytes);
  const CUresult result = driver().cuMemHostRegister(address, bytes, flags);
  after_allocation(pending, result, &address);
  return result;
}

CUHEAP_EXPORT CUresult cuMemHostUnregister(void* address) {
  const PendingFree pending = before_free(address);
  const CUresult result = driver().cuMemHostUnregister(address);
  after_free(pending, result);
  return result;
}
