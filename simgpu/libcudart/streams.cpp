// Streams, events and capture.
#include "runtime.h"

namespace cuheap::sim::runtime {

CUDART_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return with_context([&] { return driver().cuStreamCreate_(stream, CU_STREAM_DEFAULT); });
}

CUDART_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return with_context([&] { return driver().cuStreamCreate_(stream, flags); });
}

CUDART_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return with_context([&] { return driver().cuStreamCreateWithPriority_(stream, flags, priority); });
}

CUDART_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return with_context([&] { return driver().cuStreamDestroy_(stream); });
}

CUDART_WITH_TWIN(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int* priority), (stream, priority)) {
  return with_context([&] { return driver.cuStreamGetPriority_(stream, priority); });
}

CUDART_WITH_TWIN(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned int* flags), (stream, flags)) {
  return with_context([&] { return driver.cuStreamGetFlags_(stream, flags); });
}

CUDART_WITH_TWIN(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long* id), (stream, id)) {
  return with_context([&] { return driver.cuStreamGetId_(stream, id); });
}

CUDART_WITH_TWIN(cudaStreamGetDevice, _ptsz, (cudaStream_t stream, int* device), (stream, device)) {
  return with_context([&] {
    CUcontext of_stream = nullptr;
    CUcontext current = nullptr;
    if (const CUresult result = driver.cuStreamGetCtx_(stream, &of_stream); result != CUDA_SUCCESS) return result;
    driver.cuCtxGetCurrent_(&current);
    driver.cuCtxSetCurrent_(of_stream);
    const CUresult result = driver.cuCtxGetDevice_(device);
    driver.cuCtxSetCurrent_(current);
    return result;
  });
}

CUDART_WITH_TWIN(cudaStreamCopyAttributes, _ptsz, (cudaStream_t to, cudaStream_t from), (to, from)) {
  return with_context([&] { return driver.cuStreamCopyAttributes_(to, from); });
}

CUDART_WITH_TWIN(cudaStreamGetAttribute, _ptsz,
                 (cudaStream_t stream, cudaLaunchAttributeID attr, cudaLaunchAttributeValue* value),
                 (stream, attr, value)) {
  return with_context([&] {
    return driver.cuStreamGetAttribute_(stream, static_cast<CUstreamAttrID>(attr),
                                        reinterpret_cast<CUstreamAttrValue*>(value));
  });
}

CUDART_WITH_TWIN(cudaStreamSetAttribute, _ptsz,
                 (cudaStream_t stream, cudaLaunchAttributeID attr, const cudaLaunchAttributeValue* value),
                 (stream, attr, value)) {
  return with_context([&] {
    return driver.cuStreamSetAttribute_(stream, static_cast<CUstreamAttrID>(attr),
                                        reinterpret_cast<const CUstreamAttrValue*>(value));
  });
}

CUDART_WITH_TWIN(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
                 (stream, event, flags)) {
  return with_context([&] { return driver.cuStreamWaitEvent_(stream, event, flags); });
}

CUDART_WITH_TWIN(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), (stream)) {
  return with_context([&] { return driver.cuStreamSynchronize_(stream); });
}

CUDART_WITH_TWIN(cudaStreamQuery, _ptsz, (cudaStream_t stream), (stream)) {
  return with_context([&] { return driver.cuStreamQuery_(stream); });
}

namespace {

// The runtime's callback takes a cudaError_t where the driver's takes a CUresult: the same number.
static_assert(sizeof(cudaError_t) == sizeof(CUresult));

}  // namespace

CUDART_WITH_TWIN(cudaStreamAddCallback, _ptsz,
                 (cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned int flags),
                 (stream, callback, data, flags)) {
  return with_context(
      [&] { return driver.cuStreamAddCallback_(stream, reinterpret_cast<CUstreamCallback>(callback), data, flags); });
}

CUDART_WITH_TWIN(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t function, void* data),
                 (stream, function, data)) {
  return with_context([&] { return driver.cuLaunchHostFunc_(stream, function, data); });
}

CUDART_WITH_TWIN(cudaStreamAttachMemAsync, _ptsz,
                 (cudaStream_t stream, void* pointer, size_t length, unsigned int flags),
                 (stream, pointer, length, flags)) {
  return with_context([&] { return driver.cuStreamAttachMemAsync_(stream, address(pointer), length, flags); });
}

// Events.

CUDART_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return with_context([&] { return driver().cuEventCreate_(event, CU_EVENT_DEFAULT); });
}

CUDART_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return with_context([&] { return driver().cuEventCreate_(event, flags); });
}

CUDART_WITH_TWIN(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), (event, stream)) {
  return with_context([&] { return driver.cuEventRecord_(event, stream); });
}

CUDART_WITH_TWIN(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
                 (event, stream, flags)) {
  return with_context([&] { return driver.cuEventRecordWithFlags_(event, stream, flags); });
}

CUDART_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_context([&] { return driver().cuEventQuery_(event); });
}

CUDART_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_context([&] { return driver().cuEventSynchronize_(event); });
}

CUDART_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return with_context([&] { return driver().cuEventDestroy_(event); });
}

CUDART_EXPORT cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (ms == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] { return driver().cuEventElapsedTime_(ms, start, end); });
}

#if CUDART_VERSION < 13000
CUDART_EXPORT cudaError_t cudaEventElapsedTime_v2(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return cudaEventElapsedTime(ms, start, end);
}
#endif

// Capture.

CUDART_WITH_TWIN(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, cudaStreamCaptureMode mode), (stream, mode)) {
  return with_context([&] { return driver.cuStreamBeginCapture_(stream, static_cast<CUstreamCaptureMode>(mode)); });
}

CUDART_WITH_TWIN(cudaStreamBeginCaptureToGraph, _ptsz,
                 (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                  const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode),
                 (stream, graph, dependencies, edges, count, mode)) {
  return with_context([&] {
    return driver.cuStreamBeginCaptureToGraph_(stream, graph, dependencies,
                                               reinterpret_cast<const CUgraphEdgeData*>(edges), count,
                                               static_cast<CUstreamCaptureMode>(mode));
  });
}

CUDART_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr) return remember(cudaErrorInvalidValue);
  return with_driver(
      [&] { return driver().cuThreadExchangeStreamCaptureMode_(reinterpret_cast<CUstreamCaptureMode*>(mode)); });
}

CUDART_WITH_TWIN(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t* graph), (stream, graph)) {
  return with_context([&] { return driver.cuStreamEndCapture_(stream, graph); });
}

CUDART_WITH_TWIN(cudaStreamIsCapturing, _ptsz, (cudaStream_t stream, cudaStreamCaptureStatus* status),
                 (stream, status)) {
  return with_context(
      [&] { return driver.cuStreamIsCapturing_(stream, reinterpret_cast<CUstreamCaptureStatus*>(status)); });
}

namespace {

cudaError_t capture_info(const Driver& driver, cudaStream_t stream, cudaStreamCaptureStatus* status,
                         unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                         const cudaGraphEdgeData** edges, size_t* count) {
  return with_context([&] {
    cuuint64_t driver_id = 0;
    const CUresult result =
        driver.cuStreamGetCaptureInfo_(stream, reinterpret_cast<CUstreamCaptureStatus*>(status), &driver_id, graph,
                                       dependencies, reinterpret_cast<const CUgraphEdgeData**>(edges), count);
    if (id != nullptr) *id = driver_id;
    return result;
  });
}

cudaError_t update_dependencies(const Driver& driver, cudaStream_t stream, cudaGraphNode_t* nodes,
                                const cudaGraphEdgeData* edges, size_t count, unsigned int flags) {
  return with_context([&] {
    return driver.cuStreamUpdateCaptureDependencies_(stream, nodes, reinterpret_cast<const CUgraphEdgeData*>(edges),
                                                     count, flags);
  });
}

}  // namespace

#define CAPTURE_INFO_WITH_EDGES(name, twin)                                                                          \
  CUDART_EXPORT cudaError_t name(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,       \
                                 cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges, \
                                 size_t* count) {                                                                    \
    return capture_info(runtime::driver(), stream, status, id, graph, nodes, edges, count);                          \
  }                                                                                                                  \
  CUDART_EXPORT cudaError_t twin(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,       \
                                 cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges, \
                                 size_t* count) {                                                                    \
    return capture_info(runtime::per_thread_driver(), stream, status, id, graph, nodes, edges, count);               \
  }

#define UPDATE_DEPENDENCIES_WITH_EDGES(name, twin)                                                            \
  CUDART_EXPORT cudaError_t name(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges, \
                                 size_t count, unsigned int flags) {                                          \
    return update_dependencies(runtime::driver(), stream, nodes, edges, count, flags);                        \
  }                                                                                                           \
  CUDART_EXPORT cudaError_t twin(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges, \
                                 size_t count, unsigned int flags) {                                          \
    return update_dependencies(runtime::per_thread_driver(), stream, nodes, edges, count, flags);             \
  }

#if CUDART_VERSION >= 13000
CAPTURE_INFO_WITH_EDGES(cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz)
UPDATE_DEPENDENCIES_WITH_EDGES(cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_ptsz)
#else
#undef cudaStreamGetCaptureInfo
CAPTURE_INFO_WITH_EDGES(cudaStreamGetCaptureInfo_v3, cudaStreamGetCaptureInfo_v3_ptsz)
UPDATE_DEPENDENCIES_WITH_EDGES(cudaStreamUpdateCaptureDependencies_v2, cudaStreamUpdateCaptureDependencies_v2_ptsz)

CUDART_WITH_TWIN(cudaStreamGetCaptureInfo_v2, _ptsz,
                 (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                  const cudaGraphNode_t** nodes, size_t* count),
                 (stream, status, id, graph, nodes, count)) {
  return capture_info(driver, stream, status, id, graph, nodes, nullptr, count);
}

// The first form of the call, gone from the header but not from the library: status and id only.
CUDART_WITH_TWIN(cudaStreamGetCaptureInfo, _ptsz,
                 (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id), (stream, status, id)) {
  return capture_info(driver, stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

CUDART_WITH_TWIN(cudaStreamUpdateCaptureDependencies, _ptsz,
                 (cudaStream_t stream, cudaGraphNode_t* nodes, size_t count, unsigned int flags),
                 (stream, nodes, count, flags)) {
  return update_dependencies(driver, stream, nodes, nullptr, count, flags);
}
#endif

}  // namespace cuheap::sim::runtime
