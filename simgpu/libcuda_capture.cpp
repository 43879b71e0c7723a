// Stream capture entry points (capture.h holds the rules).
#include "simgpu/libcuda_graph.h"

using namespace cuheap::sim;

namespace {

CUresult begin(CUstream handle, CUstreamCaptureMode mode, std::shared_ptr<Graph> graph, std::vector<GraphNode*> dependencies) {
  if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL && mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && mode != CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  Context& context = current_context();
  const auto stream = find_stream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // "Capture must not be initiated on the legacy stream."
  if (stream == context.legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return result_of(begin_capture(stream, static_cast<CaptureMode>(mode), std::move(graph), std::move(dependencies)));
}

struct CaptureInfo {
  CUstreamCaptureStatus* status;
  cuuint64_t* id;
  CUgraph* graph;
  const CUgraphNode** nodes;
  const CUgraphEdgeData** edges;
  size_t* count;
};

CUresult info(CUstream handle, const CaptureInfo& out) {
  if (out.status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context& context = current_context();
  const auto stream = find_stream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // Asked of the legacy stream while a blocking stream records: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT".
  if (stream == context.legacy && any_capture())
    for (const auto& other : context.streams())
      if (!other->non_blocking && other->capturing.load()) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  std::lock_guard guard(capture_lock());
  const auto& capture = stream->capture;
  *out.status = capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
                : capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (out.edges != nullptr) *out.edges = nullptr;
  if (capture == nullptr || capture->invalidated) return CUDA_SUCCESS;
  if (out.id != nullptr) *out.id = capture->id;
  if (out.graph != nullptr) *out.graph = graph_handle(capture->graph);
  if (out.nodes != nullptr) *out.nodes = reinterpret_cast<const CUgraphNode*>(stream->tail.data());
  if (out.count != nullptr) *out.count = stream->tail.size();
  return CUDA_SUCCESS;
}

CUresult update(CUstream handle, CUgraphNode* nodes, size_t count, unsigned flags) {
  if ((nodes == nullptr && count > 0) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  const auto stream = find_stream(handle, current_context());
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard guard(capture_lock());
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<GraphNode*> added;
  for (size_t i = 0; i < count; ++i) {
    auto* node = reinterpret_cast<GraphNode*>(nodes[i]);
    if (!stream->capture->graph->contains(node)) return CUDA_ERROR_INVALID_VALUE;
    added.push_back(node);
  }
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->tail.clear();
  for (GraphNode* node : added)
    if (std::find(stream->tail.begin(), stream->tail.end(), node) == stream->tail.end()) stream->tail.push_back(node);
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_API CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  SIMGPU_ENTER(Needs::Context);
  return begin(stream, mode, nullptr, {});
}

SIMGPU_API CUresult cuStreamBeginCapture(CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  return begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, nullptr, {});
}

SIMGPU_API CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph handle, const CUgraphNode* dependencies, const CUgraphEdgeData*,
                                                size_t count, CUstreamCaptureMode mode) {
  SIMGPU_ENTER(Needs::Context);
  const auto graph = find_graph(handle);
  if (graph == nullptr || (dependencies == nullptr && count > 0)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> nodes;
  if (!nodes_of(*graph, dependencies, count, nodes)) return CUDA_ERROR_INVALID_VALUE;
  return begin(stream, mode, graph, std::move(nodes));
}

SIMGPU_API CUresult cuStreamEndCapture(CUstream handle, CUgraph* out) {
  SIMGPU_ENTER(Needs::Context);
  const auto stream = find_stream(handle, current_context());
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Graph> graph;
  const CaptureResult result = end_capture(stream, graph);
  *out = result == CaptureResult::Ok ? graph_handle(graph) : nullptr;
  return result_of(result);
}

SIMGPU_API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  SIMGPU_ENTER(Needs::Context);
  return info(stream, {.status = status});
}

SIMGPU_API CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  SIMGPU_ENTER(Needs::Context);
  return info(stream, {.status = status, .id = id});
}

SIMGPU_API CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                              const CUgraphNode** nodes, size_t* count) {
  SIMGPU_ENTER(Needs::Context);
  return info(stream, {.status = status, .id = id, .graph = graph, .nodes = nodes, .count = count});
}

SIMGPU_API CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                              const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
  SIMGPU_ENTER(Needs::Context);
  return info(stream, {.status = status, .id = id, .graph = graph, .nodes = nodes, .edges = edges, .count = count});
}

SIMGPU_API CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, size_t count, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  return update(stream, nodes, count, flags);
}

SIMGPU_API CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes, const CUgraphEdgeData*, size_t count,
                                                         unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  return update(stream, nodes, count, flags);
}

SIMGPU_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  SIMGPU_ENTER(Needs::Init);
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  *mode = static_cast<CUstreamCaptureMode>(exchange_thread_mode(static_cast<CaptureMode>(*mode)));
  return CUDA_SUCCESS;
}
