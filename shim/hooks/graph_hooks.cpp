// Captures and graphs: memory nodes, and who keeps alive the addresses that a capture has seen.
#include "shim/driver/driver.h"
#include "shim/hooks/accounting.h"
#include "shim/hooks/contexts.h"
#include "tracer/base/keep_errno.h"

namespace cuheap {
namespace {

void after_begin(CUresult result, CUstream stream, CUstreamCaptureMode mode) {
  if (result != CUDA_SUCCESS || !is_armed()) return;
  const KeepErrno keep;
  {
    const HookScope scope;
    if (!scope) return;
    note_capture_begun(scope, stream, mode);
  }
  allocator().capture_begun(current_context().context, stream);
  note(EventKind::CaptureBegin, Floor::Allocation, 0, 0, 0, 0, stream);
}

void after_end(CUresult result, CUstream stream, const CUgraph* graph) {
  if (!ends_capture(result) || !is_armed()) return;
  const KeepErrno keep;
  {
    const HookScope scope;
    if (!scope || !note_capture_ended(scope, stream)) return;
  }
  allocator().capture_ended(stream, result == CUDA_SUCCESS && graph != nullptr ? *graph : nullptr);
  note(EventKind::CaptureEnd, Floor::Allocation, 0, 0, 0, 0, stream);
}

void after_instantiate(CUresult result, const CUgraphExec* exec, CUgraph graph) {
  if (result == CUDA_SUCCESS) tell_allocator([&](DeviceAllocator& a) { a.graph_instantiated(*exec, graph); });
}

std::size_t alloc_node_bytes(const CUgraphNodeParams* params) {
  return params != nullptr && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? params->alloc.bytesize : 0;
}

CUdeviceptr freed_by_node(const CUgraphNodeParams* params) {
  return params != nullptr && params->type == CU_GRAPH_NODE_TYPE_MEM_FREE ? params->free.dptr : 0;
}

/// The second door to memory nodes; nodes of other types pass.
template <typename Call>
CUresult add_node(CUgraphNodeParams* params, Call&& call) {
  const std::size_t bytes = alloc_node_bytes(params);
  const PendingAllocation allocation = bytes != 0 ? before_allocation(Family::Graph, bytes) : PendingAllocation{};
  const PendingFree free = before_free(freed_by_node(params));
  const CUresult result = call();
  if (bytes != 0) after_allocation(allocation, result, &params->alloc.dptr);
  after_free(free, result);
  return result;
}

}  // namespace
}  // namespace cuheap

using namespace cuheap;

CUHEAP_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  const CUstreamCaptureMode wanted = mode != nullptr ? *mode : CU_STREAM_CAPTURE_MODE_GLOBAL;
  const CUresult result = driver().cuThreadExchangeStreamCaptureMode(mode);
  if (result == CUDA_SUCCESS) note_capture_mode(wanted);
  return result;
}

CUHEAP_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  const CUresult result = driver().cuStreamBeginCapture_v2(stream, mode);
  after_begin(result, stream, mode);
  return result;
}

CUHEAP_EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  const CUresult result = driver().cuStreamBeginCapture_v2_ptsz(stream, mode);
  after_begin(result, stream_of(stream, true), mode);
  return result;
}

// The first form had no mode and captured globally.
CUHEAP_EXPORT CUresult cuStreamBeginCapture(CUstream stream) {
  const CUresult result = driver().cuStreamBeginCapture(stream);
  after_begin(result, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  return result;
}

CUHEAP_EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  const CUresult result = driver().cuStreamBeginCapture_ptsz(stream);
  after_begin(result, stream_of(stream, true), CU_STREAM_CAPTURE_MODE_GLOBAL);
  return result;
}

CUHEAP_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                                   const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode) {
  const CUresult result = driver().cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count, mode);
  after_begin(result, stream, mode);
  return result;
}

CUHEAP_EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                                        const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode) {
  const CUresult result = driver().cuStreamBeginCaptureToGraph_ptsz(stream, graph, dependencies, edges, count, mode);
  after_begin(result, stream_of(stream, true), mode);
  return result;
}

CUHEAP_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const CUresult result = driver().cuStreamEndCapture(stream, graph);
  after_end(result, stream, graph);
  return result;
}

CUHEAP_EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  const CUresult result = driver().cuStreamEndCapture_ptsz(stream, graph);
  after_end(result, stream_of(stream, true), graph);
  return result;
}

CUHEAP_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                              CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  const PendingAllocation pending = before_allocation(Family::Graph, params != nullptr ? params->bytesize : 0);
  const CUresult result = driver().cuGraphAddMemAllocNode(node, graph, dependencies, count, params);
  after_allocation(pending, result, params != nullptr ? &params->dptr : nullptr);
  return result;
}

CUHEAP_EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                             CUdeviceptr address) {
  const PendingFree pending = before_free(address);
  const CUresult result = driver().cuGraphAddMemFreeNode(node, graph, dependencies, count, address);
  after_free(pending, result);
  return result;
}

CUHEAP_EXPORT CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                      CUgraphNodeParams* params) {
  return add_node(params, [&] { return driver().cuGraphAddNode(node, graph, dependencies, count, params); });
}

CUHEAP_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                         const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* params) {
  return add_node(params, [&] { return driver().cuGraphAddNode_v2(node, graph, dependencies, edges, count, params); });
}

CUHEAP_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                                CUgraph child) {
  const CUresult result = driver().cuGraphAddChildGraphNode(node, graph, dependencies, count, child);
  if (result == CUDA_SUCCESS) tell_allocator([&](DeviceAllocator& a) { a.graph_child_added(graph, child); });
  return result;
}

CUHEAP_EXPORT CUresult cuGraphClone(CUgraph* clone, CUgraph original) {
  const CUresult result = driver().cuGraphClone(clone, original);
  if (result == CUDA_SUCCESS) tell_allocator([&](DeviceAllocator& a) { a.graph_cloned(*clone, original); });
  return result;
}

CUHEAP_EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  const CUresult result = driver().cuGraphDestroy(graph);
  if (result == CUDA_SUCCESS) tell_allocator([&](DeviceAllocator& a) { a.graph_destroyed(graph); });
  return result;
}

CUHEAP_EXPORT CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log, size_t size) {
  const CUresult result = driver().cuGraphInstantiate(exec, graph, error_node, log, size);
  after_instantiate(result, exec, graph);
  return result;
}

CUHEAP_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log, size_t size) {
  const CUresult result = driver().cuGraphInstantiate_v2(exec, graph, error_node, log, size);
  after_instantiate(result, exec, graph);
  return result;
}

CUHEAP_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  const CUresult result = driver().cuGraphInstantiateWithFlags(exec, graph, flags);
  after_instantiate(result, exec, graph);
  return result;
}

CUHEAP_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  const CUresult result = driver().cuGraphInstantiateWithParams(exec, graph, params);
  after_instantiate(result, exec, graph);
  return result;
}

CUHEAP_EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  const CUresult result = driver().cuGraphInstantiateWithParams_ptsz(exec, graph, params);
  after_instantiate(result, exec, graph);
  return result;
}

CUHEAP_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node, CUgraphExecUpdateResult* update) {
  const CUresult result = driver().cuGraphExecUpdate(exec, graph, error_node, update);
  if (result == CUDA_SUCCESS) tell_allocator([&](DeviceAllocator& a) { a.graph_exec_updated(exec, graph); });
  return result;
}

CUHEAP_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  const CUresult result = driver().cuGraphExecUpdate_v2(exec, graph, info);
  if (result == CUDA_SUCCESS) tell_allocator([&](DeviceAllocator& a) { a.graph_exec_updated(exec, graph); });
  return result;
}

CUHEAP_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const CUresult result = driver().cuGraphExecDestroy(exec);
  if (result == CUDA_SUCCESS) tell_allocator([&](DeviceAllocator& a) { a.graph_exec_destroyed(exec); });
  return result;
}
