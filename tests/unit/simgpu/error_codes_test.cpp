// What a driver answers to a call in a documented bad state, as tables of (code, call). The text is that of cuda.h 13.0; where
// the text leaves the code open, no row says one. Every function that is hooked elsewhere (shim/hooks/entry_points.inc) has a
// row, or a reason for having none.
#include <dlfcn.h>

#include <functional>
#include <set>
#include <thread>

#include "fixture.h"

// Attaching and detaching contexts is deprecated, and may still be called.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace cuheap::sim::test {
namespace {

struct Case {
  const char* call;
  CUresult code;
  std::function<CUresult()> run;
};
using Cases = std::vector<Case>;

#define ROW(code, expression) \
  Case { #expression, code, [&] { return expression; } }

/// Everything that a call may be given, good and bad.
struct World {
  CUdeviceptr block = 0, pooled = 0, managed = 0, reserved = 0, mapped = 0, freed = 0, freed_async = 0;
  void *pinned = nullptr, *freed_host = nullptr;
  alignas(4096) char registered[4096] = {};
  alignas(4096) char plain[4096] = {};
  CUstream stream = nullptr, dead_stream = nullptr;
  CUcontext context = nullptr, peer = nullptr, dead_context = nullptr;
  CUmemoryPool pool = nullptr, dead_pool = nullptr;
  CUmemGenericAllocationHandle handle = 0, dead_handle = 0;
  CUgraph graph = nullptr, dead_graph = nullptr;
  CUgraphExec exec = nullptr, dead_exec = nullptr;
  CUarray dead_array = nullptr;
  CUmipmappedArray dead_mipmap = nullptr;
  CUmemAllocationProp here{};
  CUDA_ARRAY_DESCRIPTOR flat{};
  CUDA_ARRAY3D_DESCRIPTOR deep{};

  // Where answers go that nobody reads.
  CUdeviceptr out = 0;
  size_t size = 0;
  int number = 0;
  unsigned long long wide = 0;
  void* host = nullptr;
  CUstream new_stream = nullptr;
  CUcontext new_context = nullptr;
  CUmemoryPool new_pool = nullptr;
  CUmemGenericAllocationHandle new_handle = 0;
  CUgraph new_graph = nullptr;
  CUgraphExec new_exec = nullptr;
  CUgraphNode node = nullptr;
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUipcMemHandle ipc{};
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUDA_MEM_ALLOC_NODE_PARAMS node_memory{};
  CUDA_GRAPH_INSTANTIATE_PARAMS instantiate{};
  CUgraphExecUpdateResultInfo update{};
  CUgraphNodeParams node_parameters{};
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
};

constexpr CUresult kValue = CUDA_ERROR_INVALID_VALUE;
constexpr CUresult kHandle = CUDA_ERROR_INVALID_HANDLE;
constexpr CUresult kContext = CUDA_ERROR_INVALID_CONTEXT;

Cases without_an_out_pointer(World& w) {
  return {
      ROW(kValue, cuMemAlloc(nullptr, 4096)),
      ROW(kValue, cuMemAllocPitch(nullptr, &w.size, 100, 10, 4)),
      ROW(kValue, cuMemAllocPitch(&w.out, nullptr, 100, 10, 4)),
      ROW(kValue, cuMemAllocManaged(nullptr, 4096, CU_MEM_ATTACH_GLOBAL)),
      ROW(kValue, cuMemAllocHost(nullptr, 4096)),
      ROW(kValue, cuMemHostAlloc(nullptr, 4096, 0)),
      ROW(kValue, cuMemHostRegister(nullptr, 4096, 0)),
      ROW(kValue, cuMemAllocAsync(nullptr, 4096, w.stream)),
      ROW(kValue, cuMemAllocFromPoolAsync(nullptr, 4096, w.pool, w.stream)),
      ROW(kValue, cuMemAddressReserve(nullptr, kGranuleBytes, 0, 0, 0)),
      ROW(kValue, cuMemCreate(nullptr, kGranuleBytes, &w.here, 0)),
      ROW(kValue, cuMemRetainAllocationHandle(nullptr, reinterpret_cast<void*>(w.mapped))),
      ROW(kValue, cuMemImportFromShareableHandle(nullptr, nullptr, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)),
      ROW(kValue, cuMemPoolCreate(nullptr, nullptr)),
      ROW(kValue, cuMemGetAccess(nullptr, &w.here.location, w.mapped)),
      ROW(kValue, cuMemGetAccess(&w.wide, nullptr, w.mapped)),
      ROW(kValue, cuGraphNodeSetParams(w.node, nullptr)),
      ROW(kValue, cuPointerGetAttribute(nullptr, w.attribute, w.block)),
      ROW(kValue, cuPointerGetAttributes(1, nullptr, &w.host, w.block)),
      ROW(kValue, cuPointerGetAttributes(1, &w.attribute, nullptr, w.block)),
      ROW(kValue, cuPointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, w.block)),
      ROW(kValue, cuIpcGetMemHandle(nullptr, w.block)),
      ROW(kValue, cuIpcOpenMemHandle(nullptr, w.ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)),
      ROW(kValue, cuArrayCreate(nullptr, &w.flat)),
      ROW(kValue, cuArrayCreate(&w.array, nullptr)),
      ROW(kValue, cuArray3DCreate(nullptr, &w.deep)),
      ROW(kValue, cuMipmappedArrayCreate(nullptr, &w.deep, 1)),
      ROW(kValue, cuCtxCreate(nullptr, nullptr, 0, 0)),
      ROW(kValue, cuDevicePrimaryCtxRetain(nullptr, 0)),
      ROW(kValue, cuStreamCreate(nullptr, CU_STREAM_DEFAULT)),
      ROW(kValue, cuStreamCreateWithPriority(nullptr, CU_STREAM_DEFAULT, 0)),
      ROW(kValue, cuThreadExchangeStreamCaptureMode(nullptr)),
      ROW(kValue, cuStreamEndCapture(w.stream, nullptr)),
      ROW(kValue, cuGraphClone(nullptr, w.graph)),
      ROW(kValue, cuGraphInstantiate(nullptr, w.graph, 0)),
      ROW(kValue, cuGraphInstantiateWithParams(nullptr, w.graph, &w.instantiate)),
      ROW(kValue, cuGraphInstantiateWithParams(&w.new_exec, w.graph, nullptr)),
      ROW(kValue, cuGraphAddMemAllocNode(&w.node, w.graph, nullptr, 0, nullptr)),
      ROW(kValue, cuGraphAddMemFreeNode(nullptr, w.graph, nullptr, 0, w.block)),
      ROW(kValue, cuGraphAddChildGraphNode(nullptr, w.graph, nullptr, 0, w.graph)),
      ROW(kValue, cuGraphAddNode(&w.node, w.graph, nullptr, nullptr, 0, nullptr)),
      ROW(kValue, cuGraphExecUpdate(w.exec, w.graph, nullptr)),
      ROW(kValue, cuModuleLoad(nullptr, "/proc/self/exe")),
      ROW(kValue, cuModuleLoadData(nullptr, "image")),
      ROW(kValue, cuModuleLoadData(&w.module, nullptr)),
      ROW(kValue, cuModuleLoadDataEx(nullptr, "image", 0, nullptr, nullptr)),
      ROW(kValue, cuModuleLoadFatBinary(nullptr, "image")),
      ROW(kValue, cuLibraryLoadData(nullptr, "image", nullptr, nullptr, 0, nullptr, nullptr, 0)),
      ROW(kValue, cuLibraryLoadFromFile(nullptr, "/proc/self/exe", nullptr, nullptr, 0, nullptr, nullptr, 0)),
      ROW(kValue, cuGetProcAddress("cuInit", nullptr, 12000, 0, nullptr)),
      ROW(kValue, cuGetProcAddress(nullptr, &w.host, 12000, 0, nullptr)),
  };
}

Cases of_no_or_impossible_size(World& w) {
  constexpr size_t kHuge = ~size_t{0};
  return {
      ROW(kValue, cuMemAlloc(&w.out, 0)),
      ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&w.out, kHuge)),
      ROW(kValue, cuMemAllocPitch(&w.out, &w.size, 0, 10, 4)),
      ROW(kValue, cuMemAllocPitch(&w.out, &w.size, 100, 0, 4)),
      ROW(kValue, cuMemAllocPitch(&w.out, &w.size, 100, 10, 3)),
      ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocPitch(&w.out, &w.size, size_t{1} << 40, size_t{1} << 30, 4)),
      ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocPitch(&w.out, &w.size, kHuge, 1, 4)),
      ROW(kValue, cuMemAllocManaged(&w.out, 0, CU_MEM_ATTACH_GLOBAL)),
      ROW(kValue, cuMemAllocManaged(&w.out, 4096, CU_MEM_ATTACH_SINGLE)),
      ROW(kValue, cuMemAllocHost(&w.host, 0)),
      ROW(kValue, cuMemHostAlloc(&w.host, 0, 0)),
      ROW(kValue, cuMemHostAlloc(&w.host, 4096, 0x100)),
      ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemHostAlloc(&w.host, kHuge, 0)),
      ROW(kValue, cuMemHostRegister(w.plain, 0, 0)),
      ROW(kValue, cuMemHostRegister(w.plain, 4096, 0x100)),
      ROW(kValue, cuMemAllocAsync(&w.out, 0, w.stream)),
      ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&w.out, kHuge, w.stream)),
      ROW(kValue, cuMemAllocFromPoolAsync(&w.out, 0, w.pool, w.stream)),
      ROW(kValue, cuMemAddressReserve(&w.out, 0, 0, 0, 0)),
      ROW(kValue, cuMemAddressReserve(&w.out, 1000, 0, 0, 0)),
      ROW(kValue, cuMemAddressReserve(&w.out, kGranuleBytes, 3 * kGranuleBytes, 0, 0)),
      ROW(kValue, cuMemAddressReserve(&w.out, kGranuleBytes, 0, 100, 0)),
      ROW(kValue, cuMemAddressReserve(&w.out, kGranuleBytes, 0, 0, 1)),
      ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemAddressReserve(&w.out, size_t{1} << 60, 0, 0, 0)),
      ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemAddressReserve(&w.out, kHuge & ~size_t{4095}, 0, 0, 0)),
      ROW(kValue, cuMemCreate(&w.new_handle, 0, &w.here, 0)),
      ROW(kValue, cuMemCreate(&w.new_handle, kGranuleBytes, &w.here, 1)),
      ROW(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&w.new_handle, size_t{1} << 50, &w.here, 0)),
      ROW(kValue, cuMemMap(w.reserved, 0, 0, w.handle, 0)),
      ROW(kValue, cuMemMap(w.reserved, kGranuleBytes, 0, w.handle, 1)),
      ROW(kValue, cuMemMap(~(kGranuleBytes - 1), kGranuleBytes, 0, w.handle, 0)),
      ROW(kValue, cuMemUnmap(w.mapped, 0)),
      ROW(kValue, cuMemUnmap(~(kGranuleBytes - 1), kGranuleBytes)),
      ROW(kValue, cuMemSetAccess(w.mapped, 0, &w.access, 1)),
      ROW(kValue, cuMemSetAccess(~(kGranuleBytes - 1), kGranuleBytes, &w.access, 1)),
      ROW(kValue, cuMemSetAccess(w.mapped, 4 * kMiB, &w.access, 0)),
      ROW(kValue, cuPointerGetAttributes(0, &w.attribute, &w.host, w.block)),
      ROW(kValue, cuMipmappedArrayCreate(&w.mipmap, &w.deep, 0)),
      ROW(kValue, cuStreamCreate(&w.new_stream, 0x80)),
      ROW(kValue, cuStreamCreateWithPriority(&w.new_stream, 0x80, 0)),
      ROW(kValue, cuCtxCreate(&w.new_context, nullptr, 0x80000000u, 0)),
      ROW(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate(&w.new_context, nullptr, 0, 9)),
      ROW(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain(&w.new_context, 9)),
      ROW(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRelease(9)),
      ROW(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxReset(9)),
      ROW(kValue, cuInit(1)),
      ROW(kValue, cuGraphInstantiate(&w.new_exec, w.graph, 0x100)),
      ROW(kValue, cuGraphInstantiate(&w.new_exec, w.graph,
                                     CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)),
      ROW(kValue, cuStreamBeginCapture(w.stream, static_cast<CUstreamCaptureMode>(3))),
      ROW(kValue, cuIpcOpenMemHandle(&w.out, w.ipc, 0)),
      ROW(kValue, cuCtxEnablePeerAccess(w.peer, 1)),
  };
}

Cases with_stale_handles(World& w) {
  return {
      ROW(kHandle, cuMemAllocAsync(&w.out, 4096, w.dead_stream)),
      ROW(kHandle, cuMemFreeAsync(w.pooled, w.dead_stream)),
      ROW(kValue, cuMemAllocFromPoolAsync(&w.out, 4096, w.dead_pool, w.stream)),
      ROW(kValue, cuMemPoolDestroy(w.dead_pool)),
      ROW(kValue, cuMemPoolTrimTo(w.dead_pool, 0)),
      ROW(kValue, cuMemMap(w.reserved, kGranuleBytes, 0, w.dead_handle, 0)),
      ROW(kValue, cuMemRelease(w.dead_handle)),
      ROW(kHandle, cuStreamDestroy(w.dead_stream)),
      ROW(kHandle, cuStreamSynchronize(w.dead_stream)),
      ROW(kHandle, cuStreamBeginCapture(w.dead_stream, CU_STREAM_CAPTURE_MODE_GLOBAL)),
      ROW(kHandle, cuStreamEndCapture(w.dead_stream, &w.new_graph)),
      ROW(kValue, cuStreamBeginCaptureToGraph(w.stream, w.dead_graph, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL)),
      ROW(kContext, cuCtxDestroy(w.dead_context)),
      ROW(kContext, cuCtxDestroy(w.context)),  // the primary one is released, not destroyed
      ROW(kContext, cuCtxDetach(w.dead_context)),
      ROW(kContext, cuCtxSetCurrent(w.dead_context)),
      ROW(kContext, cuCtxPushCurrent(w.dead_context)),
      ROW(kContext, cuCtxEnablePeerAccess(w.dead_context, 0)),
      ROW(kContext, cuCtxEnablePeerAccess(w.context, 0)),
      ROW(kContext, cuCtxDisablePeerAccess(w.dead_context)),
      ROW(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(w.peer)),
      ROW(kValue, cuGraphClone(&w.new_graph, w.dead_graph)),
      ROW(kValue, cuGraphDestroy(w.dead_graph)),
      ROW(kValue, cuGraphInstantiate(&w.new_exec, w.dead_graph, 0)),
      ROW(kValue, cuGraphInstantiateWithParams(&w.new_exec, w.dead_graph, &w.instantiate)),
      ROW(kValue, cuGraphAddMemAllocNode(&w.node, w.dead_graph, nullptr, 0, &w.node_memory)),
      ROW(kValue, cuGraphAddMemFreeNode(&w.node, w.graph, nullptr, 0, w.block)),
      ROW(kValue, cuGraphAddChildGraphNode(&w.node, w.graph, nullptr, 0, w.dead_graph)),
      ROW(kValue, cuGraphAddNode(&w.node, w.dead_graph, nullptr, nullptr, 0, &w.node_parameters)),
      ROW(kValue, cuGraphExecDestroy(w.dead_exec)),
      ROW(kValue, cuGraphLaunch(w.dead_exec, w.stream)),
      ROW(kValue, cuGraphUpload(w.dead_exec, w.stream)),
      ROW(kValue, cuGraphExecChildGraphNodeSetParams(w.dead_exec, w.node, w.graph)),
      ROW(kValue, cuGraphExecNodeSetParams(w.dead_exec, w.node, &w.node_parameters)),
      ROW(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&w.module, "/no/such/image")),
      ROW(kHandle, cuArrayDestroy(w.dead_array)),
      ROW(kHandle, cuMipmappedArrayDestroy(w.dead_mipmap)),
  };
}

/// Each way to give memory back, with memory of every other kind, and a second time.
Cases giving_back_what_is_not_theirs(World& w) {
  return {
      ROW(kValue, cuMemFree(w.block + 512)),
      ROW(kValue, cuMemFree(w.freed)),
      ROW(kValue, cuMemFree(w.freed_async)),
      ROW(kValue, cuMemFree(w.mapped)),
      ROW(kValue, cuMemFree(w.reserved)),
      ROW(kValue, cuMemFree(reinterpret_cast<CUdeviceptr>(w.pinned))),
      ROW(kValue, cuMemFree(reinterpret_cast<CUdeviceptr>(w.registered))),
      ROW(kValue, cuMemFree(reinterpret_cast<CUdeviceptr>(w.plain))),
      ROW(kValue, cuMemFreeAsync(0, w.stream)),
      ROW(kValue, cuMemFreeAsync(w.freed_async, w.stream)),
      ROW(kValue, cuMemFreeAsync(w.freed, w.stream)),
      ROW(kValue, cuMemFreeAsync(w.mapped, w.stream)),
      ROW(kValue, cuMemFreeAsync(w.pooled + 512, w.stream)),
      ROW(kValue, cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(w.pinned), w.stream)),
      ROW(kValue, cuMemFreeHost(w.freed_host)),
      ROW(kValue, cuMemFreeHost(w.registered)),
      ROW(kValue, cuMemFreeHost(w.plain)),
      ROW(kValue, cuMemFreeHost(reinterpret_cast<void*>(w.block))),
      ROW(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(w.registered, 4096, 0)),
      ROW(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(w.plain)),
      ROW(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(w.pinned)),
      ROW(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(w.registered + 1024)),
      ROW(kValue, cuMemAddressFree(w.reserved, kGranuleBytes)),  // not the whole reservation
      ROW(kValue, cuMemAddressFree(w.mapped, 4 * kMiB)),         // something is mapped there
      ROW(kValue, cuMemAddressFree(w.block, kGranuleBytes)),
      ROW(kValue, cuMemUnmap(w.reserved, kGranuleBytes)),
      ROW(kValue, cuMemUnmap(w.block, kGranuleBytes)),
      ROW(kValue, cuMemRetainAllocationHandle(&w.new_handle, reinterpret_cast<void*>(w.block))),
      ROW(kValue, cuMemRetainAllocationHandle(&w.new_handle, reinterpret_cast<void*>(w.reserved))),
      ROW(kValue, cuMemGetAccess(&w.wide, &w.here.location, w.reserved)),
      ROW(kValue, cuMemGetAccess(&w.wide, &w.here.location, w.freed)),
      ROW(kValue, cuIpcCloseMemHandle(w.block)),
      ROW(kValue, cuIpcGetMemHandle(&w.ipc, w.mapped)),
      ROW(kValue, cuIpcGetMemHandle(&w.ipc, w.pooled)),
      ROW(kValue, cuIpcGetMemHandle(&w.ipc, w.managed)),
      ROW(kValue, cuIpcGetMemHandle(&w.ipc, w.freed)),
      ROW(kValue, cuPointerGetAttribute(&w.number, w.attribute, w.freed)),
      ROW(kValue, cuPointerGetAttribute(&w.wide, CU_POINTER_ATTRIBUTE_HOST_POINTER, w.block)),
      ROW(kValue, cuPointerSetAttribute(&w.number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, w.block)),
      ROW(kValue, cuPointerSetAttribute(&w.number, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, w.freed)),
      ROW(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&w.out, &w.size, w.freed)),
      ROW(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&w.out, &w.size, reinterpret_cast<CUdeviceptr>(w.plain))),
  };
}

Cases without_a_context(World& w) {
  return {
      ROW(kContext, cuMemAlloc(&w.out, 4096)),
      ROW(kContext, cuMemAllocPitch(&w.out, &w.size, 100, 10, 4)),
      ROW(kContext, cuMemAllocManaged(&w.out, 4096, CU_MEM_ATTACH_GLOBAL)),
      ROW(kContext, cuMemAllocHost(&w.host, 4096)),
      ROW(kContext, cuMemHostAlloc(&w.host, 4096, 0)),
      ROW(kContext, cuMemHostRegister(w.plain, 4096, 0)),
      ROW(kContext, cuMemGetInfo(&w.size, &w.size)),
      ROW(kContext, cuMemGetAddressRange(&w.out, &w.size, w.block)),
      ROW(kContext, cuMemAllocAsync(&w.out, 4096, nullptr)),
      ROW(kContext, cuMemAllocAsync(&w.out, 4096, CU_STREAM_PER_THREAD)),
      ROW(kContext, cuMemAllocFromPoolAsync(&w.out, 4096, w.pool, nullptr)),
      ROW(kContext, cuMemFreeAsync(w.pooled, nullptr)),
      ROW(kContext, cuPointerGetAttribute(&w.out, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, w.block)),
      ROW(kContext, cuMemcpyDtoD(w.block, w.block + 1024, 16)),
      ROW(kContext, cuArrayCreate(&w.array, &w.flat)),
      ROW(kContext, cuArray3DCreate(&w.array, &w.deep)),
      ROW(kContext, cuMipmappedArrayCreate(&w.mipmap, &w.deep, 1)),
      ROW(kContext, cuIpcGetMemHandle(&w.ipc, w.block)),
      ROW(kContext, cuIpcOpenMemHandle(&w.out, w.ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)),
      ROW(kContext, cuIpcCloseMemHandle(w.block)),
      ROW(kContext, cuStreamCreate(&w.new_stream, CU_STREAM_DEFAULT)),
      ROW(kContext, cuStreamCreateWithPriority(&w.new_stream, CU_STREAM_DEFAULT, 0)),
      ROW(kContext, cuCtxEnablePeerAccess(w.peer, 0)),
      ROW(kContext, cuCtxDisablePeerAccess(w.peer)),
      ROW(kContext, cuCtxDetach(w.context)),
      ROW(kContext, cuCtxPopCurrent(&w.new_context)),
      ROW(kContext, cuCtxSynchronize()),
      ROW(kContext, cuModuleLoad(&w.module, "image")),
      ROW(kContext, cuModuleLoadData(&w.module, "image")),
      ROW(kContext, cuModuleLoadDataEx(&w.module, "image", 0, nullptr, nullptr)),
      ROW(kContext, cuModuleLoadFatBinary(&w.module, "image")),
  };
}

/// What needs none, though a context is usually there.
Cases that_need_no_context(World& w) {
  return {
      ROW(CUDA_SUCCESS, cuMemAllocAsync(&w.out, 4096, w.stream)),
      ROW(CUDA_SUCCESS, cuMemFreeAsync(w.out, w.stream)),
      ROW(CUDA_SUCCESS, cuMemAllocFromPoolAsync(&w.out, 4096, w.pool, w.stream)),
      ROW(CUDA_SUCCESS, cuMemFreeAsync(w.out, w.stream)),
      ROW(CUDA_SUCCESS, cuPointerGetAttribute(&w.number, w.attribute, w.block)),
      ROW(CUDA_SUCCESS, cuMemCreate(&w.new_handle, kGranuleBytes, &w.here, 0)),
      ROW(CUDA_SUCCESS, cuMemRelease(w.new_handle)),
      ROW(CUDA_SUCCESS, cuMemFree(w.block)),  // the pointer tells whose it is
      ROW(CUDA_SUCCESS, cuMemFree(0)),
  };
}

/// Calls that a capture forbids unless it, or the thread, is relaxed.
Cases that_are_unsafe(World& w) {
  return {
      ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&w.out, 4096)),
      ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAllocPitch(&w.out, &w.size, 100, 10, 4)),
      ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAllocManaged(&w.out, 4096, CU_MEM_ATTACH_GLOBAL)),
      ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAllocHost(&w.host, 4096)),
      ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemHostAlloc(&w.host, 4096, 0)),
      ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemFree(w.block)),
      ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemFreeHost(w.pinned)),
      ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemHostUnregister(w.registered)),
      ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuArrayCreate(&w.array, &w.flat)),
  };
}

/// Not a row anywhere, and why.
const std::set<std::string>& without_a_row() {
  static const std::set<std::string> names = {
      "cuExternalMemoryGetMappedBuffer",  // not implemented: NOT_SUPPORTED
      "cuMemPoolImportPointer",           // not implemented
      "cuMemGetHandleForAddressRange",    // not implemented: the attribute says so
      "cuGreenCtxStreamCreate",           // not implemented
      "cuCheckpointProcessLock",          // not implemented
      "cuCheckpointProcessUnlock",        // not implemented
  };
  return names;
}

std::string base_of(std::string name) {
  for (const char* suffix : {"_ptsz", "_ptds"})
    if (name.ends_with(suffix)) name.resize(name.size() - 5);
  const size_t n = name.size();
  if (n > 3 && name[n - 3] == '_' && name[n - 2] == 'v') name.resize(n - 3);
  // Its other spellings of the first ABI.
  if (name == "cuGraphInstantiateWithFlags") name = "cuGraphInstantiate";
  return name;
}

void add_names(const Cases& cases, std::set<std::string>& names) {
  for (const Case& c : cases) names.insert(std::string(c.call).substr(0, std::string(c.call).find('(')));
}

void check(const Cases& cases) {
  for (const Case& c : cases) EXPECT_EQ(name_of(c.run()), name_of(c.code)) << c.call;
}

}  // namespace

class ErrorCodes : public Device {
 protected:
  void SetUp() override {
    Device::SetUp();
    w.context = context_;
    ASSERT_CU(cuDevicePrimaryCtxRetain(&w.peer, 1));
    w.here.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    w.here.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    w.flat.Width = 64, w.flat.Height = 64, w.flat.Format = CU_AD_FORMAT_FLOAT, w.flat.NumChannels = 1;
    w.deep.Width = w.deep.Height = w.deep.Depth = 8, w.deep.Format = CU_AD_FORMAT_FLOAT, w.deep.NumChannels = 1;
    make_memory();
    make_objects();
  }

  void TearDown() override {
    if (w.stream != nullptr) cuStreamSynchronize(w.stream);
    cuMemUnmap(w.mapped, 4 * kMiB);
    cuMemAddressFree(w.mapped, 4 * kMiB);
    cuMemAddressFree(w.reserved, 4 * kMiB);
    cuMemRelease(w.handle);
    cuMemFreeAsync(w.pooled, w.stream);
    cuMemPoolDestroy(w.pool);
    cuGraphExecDestroy(w.exec);
    cuGraphDestroy(w.graph);
    cuDevicePrimaryCtxRelease(1);
    Device::TearDown();
  }

  void make_memory() {
    w.block = allocate(4096), w.freed = allocate(4096);
    ASSERT_CU(cuMemAllocManaged(&w.managed, 4096, CU_MEM_ATTACH_GLOBAL));
    ASSERT_CU(cuMemAllocHost(&w.pinned, 4096));
    ASSERT_CU(cuMemAllocHost(&w.freed_host, 4096));
    ASSERT_CU(cuMemHostRegister(w.registered, sizeof w.registered, 0));
    ASSERT_CU(cuMemCreate(&w.handle, 4 * kMiB, &w.here, 0));
    ASSERT_CU(cuMemCreate(&w.dead_handle, kGranuleBytes, &w.here, 0));
    ASSERT_CU(cuMemAddressReserve(&w.reserved, 4 * kMiB, 0, 0, 0));
    ASSERT_CU(cuMemAddressReserve(&w.mapped, 4 * kMiB, 0, 0, 0));
    ASSERT_CU(cuMemMap(w.mapped, 4 * kMiB, 0, w.handle, 0));
    ASSERT_CU(cuMemSetAccess(w.mapped, 4 * kMiB, &w.access, 1));
    ASSERT_CU(cuMemFree(w.freed));
    ASSERT_CU(cuMemFreeHost(w.freed_host));
    ASSERT_CU(cuMemRelease(w.dead_handle));
  }

  void make_objects() {
    w.stream = stream(), w.dead_stream = stream();
    ASSERT_CU(cuStreamDestroy(w.dead_stream));
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    ASSERT_CU(cuMemPoolCreate(&w.pool, &properties));
    ASSERT_CU(cuMemPoolCreate(&w.dead_pool, &properties));
    ASSERT_CU(cuMemPoolDestroy(w.dead_pool));
    ASSERT_CU(cuMemAllocAsync(&w.pooled, 4096, w.stream));
    ASSERT_CU(cuMemAllocAsync(&w.freed_async, 4096, w.stream));
    ASSERT_CU(cuMemFreeAsync(w.freed_async, w.stream));
    ASSERT_CU(cuGraphCreate(&w.graph, 0));
    ASSERT_CU(cuGraphInstantiate(&w.exec, w.graph, 0));
    ASSERT_CU(cuGraphCreate(&w.dead_graph, 0));
    ASSERT_CU(cuGraphInstantiate(&w.dead_exec, w.dead_graph, 0));
    ASSERT_CU(cuGraphExecDestroy(w.dead_exec));
    ASSERT_CU(cuGraphDestroy(w.dead_graph));
    ASSERT_CU(cuArrayCreate(&w.dead_array, &w.flat));
    ASSERT_CU(cuMipmappedArrayCreate(&w.dead_mipmap, &w.deep, 2));
    ASSERT_CU(cuArrayDestroy(w.dead_array));
    ASSERT_CU(cuMipmappedArrayDestroy(w.dead_mipmap));
    ASSERT_CU(cuCtxCreate(&w.dead_context, nullptr, 0, 0));
    ASSERT_CU(cuCtxDestroy(w.dead_context));
  }

  World w;
};

TEST_F(ErrorCodes, WithoutAnOutPointer) { check(without_an_out_pointer(w)); }
TEST_F(ErrorCodes, OfNoOrImpossibleSizeOrFlag) { check(of_no_or_impossible_size(w)); }
TEST_F(ErrorCodes, WithStaleHandles) { check(with_stale_handles(w)); }
TEST_F(ErrorCodes, GivingBackWhatIsNotTheirs) { check(giving_back_what_is_not_theirs(w)); }

TEST_F(ErrorCodes, WithoutAContext) {
  ASSERT_CU(cuCtxSetCurrent(nullptr));
  check(without_a_context(w));
  check(that_need_no_context(w));
  ASSERT_CU(cuCtxSetCurrent(w.context));
}

TEST_F(ErrorCodes, InAContextThatIsDestroyed) {
  CUcontext own = nullptr;
  ASSERT_CU(cuCtxCreate(&own, nullptr, 0, 0));
  const CUdeviceptr block = allocate(4096);
  const CUstream inside = stream();
  std::atomic<bool> is_current{false}, is_gone{false};
  Cases elsewhere = without_a_context(w);
  std::erase_if(elsewhere, [](const Case& c) {
    // These ask by address or take the context from elsewhere, or make something current.
    const std::string call = c.call;
    return call.starts_with("cuCtxPop") || call.starts_with("cuCtxDetach") || call.starts_with("cuPointer");
  });
  std::thread other([&] {
    cuCtxSetCurrent(own);
    is_current = true;
    while (!is_gone) std::this_thread::yield();
    // "ctx will remain current to those threads, and attempting to access ctx … will result in CUDA_ERROR_CONTEXT_IS_DESTROYED".
    for (const Case& c : elsewhere) EXPECT_EQ(name_of(c.run()), "CUDA_ERROR_CONTEXT_IS_DESTROYED") << c.call;
    cuCtxSetCurrent(nullptr);
  });
  while (!is_current) std::this_thread::yield();
  ASSERT_CU(cuCtxDestroy(own));
  is_gone = true;
  other.join();

  CUcontext now = nullptr;
  ASSERT_CU(cuCtxGetCurrent(&now));
  EXPECT_EQ(now, w.context) << "popped from the stack of the thread that destroyed it";
  check({ROW(kValue, cuMemFree(block)), ROW(kHandle, cuStreamDestroy(inside)), ROW(kHandle, cuStreamSynchronize(inside)),
         ROW(kHandle, cuMemAllocAsync(&w.out, 4096, inside))});
}

TEST_F(ErrorCodes, AnAttachedContextEndsWithItsLastDetach) {
  CUcontext own = nullptr, again = nullptr;
  ASSERT_CU(cuCtxCreate(&own, nullptr, 0, 0));
  const CUdeviceptr block = allocate(4096);
  ASSERT_CU(cuCtxAttach(&again, 0));
  EXPECT_EQ(again, own);
  check({ROW(kValue, cuCtxAttach(&again, 1)), ROW(kContext, cuCtxDetach(w.context)),  // not current
         ROW(CUDA_SUCCESS, cuCtxDetach(own)), ROW(CUDA_SUCCESS, cuPointerGetAttribute(&w.number, w.attribute, block)),
         ROW(CUDA_SUCCESS, cuCtxDetach(own)), ROW(kContext, cuCtxDetach(own)),
         ROW(kValue, cuPointerGetAttribute(&w.number, w.attribute, block))});
}

TEST_F(ErrorCodes, AResetPrimaryContextIsStillRetained) {
  CUcontext second = nullptr;
  ASSERT_CU(cuDevicePrimaryCtxRetain(&second, 1));
  ASSERT_CU(cuDevicePrimaryCtxReset(1));
  unsigned flags = 0;
  int active = 1;
  ASSERT_CU(cuDevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT_EQ(active, 0);

  check({ROW(CUDA_SUCCESS, cuDevicePrimaryCtxRelease(1)), ROW(CUDA_SUCCESS, cuDevicePrimaryCtxRelease(1)),
         ROW(kContext, cuDevicePrimaryCtxRelease(1))});
}

TEST_F(ErrorCodes, AfterAFaultEveryCallOfTheContextSaysSo) {
  ASSERT_EQ(simgpu_set_sticky_error(CUDA_ERROR_ILLEGAL_ADDRESS), 0);
  constexpr CUresult kFault = CUDA_ERROR_ILLEGAL_ADDRESS;
  check({ROW(kFault, cuMemAlloc(&w.out, 4096)), ROW(kFault, cuMemFree(w.block)), ROW(kFault, cuMemAllocHost(&w.host, 1)),
         ROW(kFault, cuMemAllocAsync(&w.out, 4096, w.stream)), ROW(kFault, cuMemFreeAsync(w.pooled, w.stream)),
         ROW(kFault, cuMemGetInfo(&w.size, &w.size)), ROW(kFault, cuCtxSynchronize()), ROW(kFault, cuStreamSynchronize(w.stream)),
         ROW(kFault, cuStreamCreate(&w.new_stream, 0)), ROW(kFault, cuGraphLaunch(w.exec, w.stream))});
  ASSERT_EQ(simgpu_set_sticky_error(0), 0);
}

// cuThreadExchangeStreamCaptureMode: who may call what is unsafe, by the mode of the capture, the mode of the thread, and
// whose capture it is.
TEST_F(ErrorCodes, WhileACaptureForbidsThem) {
  constexpr auto kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL, kLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                 kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  const struct {
    CUstreamCaptureMode capture, thread;
    bool own_forbidden, others_forbidden;
  } rules[] = {
      {kGlobal, kGlobal, true, true},    {kGlobal, kLocal, true, false},    {kGlobal, kRelaxed, false, false},
      {kLocal, kGlobal, true, false},    {kLocal, kLocal, true, false},     {kLocal, kRelaxed, false, false},
      {kRelaxed, kGlobal, false, false}, {kRelaxed, kLocal, false, false},  {kRelaxed, kRelaxed, false, false},
  };
  for (const auto& rule : rules)
    for (const bool own : {true, false}) {
      const auto call = [&] {
        CUstreamCaptureMode mode = rule.thread;
        cuThreadExchangeStreamCaptureMode(&mode);
        CUdeviceptr block = 0;
        const CUresult result = cuMemAlloc(&block, 4096);
        if (result == CUDA_SUCCESS) {
          EXPECT_CU(cuMemFree(block));
        }
        cuThreadExchangeStreamCaptureMode(&mode);
        return result;
      };
      CUresult result = CUDA_SUCCESS;
      ASSERT_CU(cuStreamBeginCapture(w.stream, rule.capture));
      if (own) result = call();
      else std::thread([&] { cuCtxSetCurrent(w.context), result = call(); }).join();
      const bool forbidden = own ? rule.own_forbidden : rule.others_forbidden;
      const CUresult ended = cuStreamEndCapture(w.stream, &w.new_graph);
      const std::string where =
          "capture " + std::to_string(rule.capture) + " thread " + std::to_string(rule.thread) + (own ? " own" : " other");
      EXPECT_EQ(name_of(result), forbidden ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" : "CUDA_SUCCESS") << where;
      EXPECT_EQ(name_of(ended), forbidden ? "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" : "CUDA_SUCCESS") << where;
    }
}

TEST_F(ErrorCodes, EveryUnsafeCallIsForbiddenInACapture) {
  for (const Case& c : that_are_unsafe(w)) {
    ASSERT_CU(cuStreamBeginCapture(w.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_EQ(name_of(c.run()), name_of(c.code)) << c.call;
    EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(w.stream, &w.new_graph)) << c.call;
    EXPECT_EQ(w.new_graph, nullptr);
  }
}

TEST_F(ErrorCodes, ACaptureEndsWhereItBegan) {
  CUresult elsewhere{};
  ASSERT_CU(cuStreamBeginCapture(w.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  std::thread([&] { cuCtxSetCurrent(w.context), elsewhere = cuStreamEndCapture(w.stream, &w.new_graph); }).join();
  EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, elsewhere);
  EXPECT_CU(cuStreamEndCapture(w.stream, &w.new_graph));
}

TEST_F(ErrorCodes, OfMemoryThatGraphsAllocate) {
  CUgraph memory = nullptr, other = nullptr, copy = nullptr;
  CUgraphNode made = nullptr, freed = nullptr, empty = nullptr;
  ASSERT_CU(cuGraphCreate(&memory, 0));
  ASSERT_CU(cuGraphCreate(&other, 0));
  w.node_memory.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  w.node_memory.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  w.node_memory.bytesize = 0;
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemAllocNode(&made, memory, nullptr, 0, &w.node_memory));
  w.node_memory.bytesize = kMiB;
  ASSERT_CU(cuGraphAddMemAllocNode(&made, memory, nullptr, 0, &w.node_memory));
  ASSERT_CU(cuGraphAddEmptyNode(&empty, memory, &made, 1));
  const CUdeviceptr block = w.node_memory.dptr;
  CUgraphExec exec = nullptr, second = nullptr;
  check({
      ROW(kValue, cuMemFreeAsync(block, w.stream)),  // never launched
      ROW(kValue, cuMemFree(block)),
      ROW(kValue, cuGraphClone(&copy, memory)),
      ROW(kValue, cuGraphAddChildGraphNode(&w.node, other, nullptr, 0, memory)),
      ROW(kValue, cuGraphDestroyNode(empty)),
      ROW(kValue, cuGraphRemoveDependencies(memory, &made, &empty, nullptr, 1)),
      ROW(CUDA_SUCCESS, cuGraphInstantiate(&exec, memory, 0)),
      ROW(kValue, cuGraphInstantiate(&second, memory, 0)),  // "at most one executable graph in existence"
      ROW(CUDA_SUCCESS, cuGraphLaunch(exec, w.stream)),
      ROW(kValue, cuGraphLaunch(exec, w.stream)),  // its allocation "remains unfreed"
      ROW(CUDA_SUCCESS, cuMemFreeAsync(block, w.stream)),
      ROW(kValue, cuMemFreeAsync(block, w.stream)),
      ROW(CUDA_SUCCESS, cuGraphLaunch(exec, w.stream)),
      ROW(CUDA_SUCCESS, cuMemFree(block)),
      ROW(kValue, cuMemFree(block)),
      ROW(CUDA_SUCCESS, cuGraphExecDestroy(exec)),
      ROW(CUDA_SUCCESS, cuGraphInstantiate(&exec, memory, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)),
      ROW(CUDA_SUCCESS, cuGraphLaunch(exec, w.stream)),
      ROW(CUDA_SUCCESS, cuGraphLaunch(exec, w.stream)),
      ROW(CUDA_SUCCESS, cuMemFreeAsync(block, w.stream)),
      ROW(CUDA_SUCCESS, cuStreamSynchronize(w.stream)),
      ROW(CUDA_SUCCESS, cuGraphExecDestroy(exec)),
      ROW(CUDA_SUCCESS, cuGraphAddMemFreeNode(&freed, memory, &made, 1, block)),
      ROW(kValue, cuGraphAddMemFreeNode(&freed, memory, &made, 1, block)),  // "an allocation twice in the same graph"
      ROW(CUDA_SUCCESS, cuGraphInstantiate(&exec, memory, 0)),
      ROW(CUDA_SUCCESS, cuGraphLaunch(exec, w.stream)),
      ROW(CUDA_SUCCESS, cuGraphLaunch(exec, w.stream)),
      ROW(kValue, cuMemFreeAsync(block, w.stream)),  // its own graph frees it
      ROW(CUDA_SUCCESS, cuStreamSynchronize(w.stream)),
      ROW(CUDA_SUCCESS, cuGraphExecDestroy(exec)),
      ROW(CUDA_SUCCESS, cuGraphDestroy(memory)),
      ROW(CUDA_SUCCESS, cuGraphDestroy(other)),
  });
}

TEST_F(ErrorCodes, AParentMayTakeAGraphWithMemory) {
  CUgraph memory = nullptr, parent = nullptr;
  CUgraphNode made = nullptr, child = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_CU(cuGraphCreate(&memory, 0));
  ASSERT_CU(cuGraphCreate(&parent, 0));
  w.node_memory.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  w.node_memory.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  w.node_memory.bytesize = kMiB;
  ASSERT_CU(cuGraphAddMemAllocNode(&made, memory, nullptr, 0, &w.node_memory));
  w.node_parameters.type = CU_GRAPH_NODE_TYPE_GRAPH;
  w.node_parameters.graph.graph = memory;
  w.node_parameters.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;

  ASSERT_CU(cuGraphAddNode(&child, parent, nullptr, nullptr, 0, &w.node_parameters));
  ASSERT_CU(cuGraphInstantiate(&exec, parent, 0));
  ASSERT_CU(cuGraphLaunch(exec, w.stream));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, w.stream));
  ASSERT_CU(cuStreamSynchronize(w.stream));
  EXPECT_CU(cuMemFree(w.node_memory.dptr));
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuGraphDestroy(parent));
}

TEST_F(ErrorCodes, OfPropertiesThatNoAllocationHas) {
  const auto create = [&](CUmemLocationType type, int id, unsigned handles) {
    CUmemAllocationProp wanted = w.here;
    wanted.location.type = type, wanted.location.id = id;
    wanted.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(handles);
    return cuMemCreate(&w.new_handle, kGranuleBytes, &wanted, 0);
  };
  const auto pool = [&](CUmemLocationType type, unsigned handles) {
    CUmemPoolProps wanted{};
    wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location = {type, {0}};
    wanted.handleTypes = static_cast<CUmemAllocationHandleType>(handles);
    return cuMemPoolCreate(&w.new_pool, &wanted);
  };
  check({
      ROW(kValue, create(CU_MEM_LOCATION_TYPE_INVALID, 0, 0)),
      ROW(kValue, create(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0, 0)),
      ROW(kValue, create(CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)),
      ROW(kValue, create(CU_MEM_LOCATION_TYPE_DEVICE, 0, 0x40)),
      ROW(CUDA_ERROR_INVALID_DEVICE, create(CU_MEM_LOCATION_TYPE_DEVICE, 9, 0)),
      ROW(CUDA_ERROR_NOT_SUPPORTED, create(CU_MEM_LOCATION_TYPE_DEVICE, 0, CU_MEM_HANDLE_TYPE_FABRIC)),
      ROW(kValue, pool(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0)),
      ROW(kValue, pool(CU_MEM_LOCATION_TYPE_HOST, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)),
  });
}

TEST_F(ErrorCodes, RightsAreGivenToWholeMappings) {
  check({ROW(kValue, cuMemSetAccess(w.mapped, kGranuleBytes, &w.access, 1)),
         ROW(kValue, cuMemSetAccess(w.mapped + kGranuleBytes, kGranuleBytes, &w.access, 1)),
         ROW(kValue, cuMemSetAccess(w.reserved, 4 * kMiB, &w.access, 1)),
         ROW(kValue, cuMemSetAccess(w.mapped, 4 * kMiB, nullptr, 1)), ROW(CUDA_SUCCESS, cuMemSetAccess(w.mapped, 4 * kMiB, &w.access, 1))});
}

TEST_F(ErrorCodes, AHandleOfThisProcessIsNotOpenedByIt) {
  CUipcMemHandle handle{};
  ASSERT_CU(cuIpcGetMemHandle(&handle, w.block));
  CUipcMemHandle nonsense{};
  check({ROW(kContext, cuIpcOpenMemHandle(&w.out, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)),
         ROW(kHandle, cuIpcOpenMemHandle(&w.out, nonsense, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))});
}

TEST(ErrorCodeTables, HaveARowForEveryHookedFunction) {
  World nothing;
  std::set<std::string> named = {"cuGetProcAddress", "cuInit"};
  for (auto* table : {without_an_out_pointer, of_no_or_impossible_size, with_stale_handles, giving_back_what_is_not_theirs,
                      without_a_context, that_need_no_context, that_are_unsafe})
    add_names(table(nothing), named);
#define CUHEAP_HOOK(name, need, action)                                                            \
  EXPECT_TRUE(named.contains(base_of(#name)) || without_a_row().contains(base_of(#name))) << #name \
      << " has no row in any table";
#define CUHEAP_PASS(name, why)
#include "shim/hooks/entry_points.inc"
#undef CUHEAP_HOOK
#undef CUHEAP_PASS
  for (const std::string& name : without_a_row()) EXPECT_FALSE(named.contains(name)) << name << " has a row now";
}

}  // namespace cuheap::sim::test
