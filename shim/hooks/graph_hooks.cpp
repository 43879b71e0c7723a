// Captures and graphs: memory nodes, and who keeps alive the addresses that a capture has seen.
#include "shim/driver/driver.h"
#include "shim/hooks/accounting.h"
#include "shim/hooks/contexts.h"
#include "tracer/base/keep_errno.h"

namespace cuheap {
namespace {

/// A stream's own context; that of a default stream is the current one.
std::uint64_t context_of(CUstream stream) {
  CUcontext context = nullptr;
  const bool is_default = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  if (is_default || driver().cuStreamGetCtx(stream, &context) != CUDA_SUCCESS) return current_context().context;
  return reinterpret_cast<std::uint64_t>(context);
}

CaptureTicket before_begin(CUstream stream, CUstreamCaptureMode mode) {
  if (!is_armed()) return {};
  const KeepErrno keep;
  const std::uint64_t context = context_of(stream);
  CaptureTicket ticket;
  {
    const HookScope scope;
    if (scope) ticket = note_capture_begun(scope, stream, mode, context);
  }
  if (ticket) allocator().capture_begun(context, stream);
  return ticket;
}

/// The pool hears of a capture before the driver begins it, so that no fence of another thread falls into it.
template <typename Call>
CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode, Call&& call) {
  const CaptureTicket ticket = before_begin(stream, mode);
  const CUresult result = call();
  if (result != CUDA_SUCCESS) {
    close_capture(ticket, stream, nullptr);
  } else if (ticket) {
    note(EventKind::CaptureBegin, Floor::Allocation, 0, 0, 0, 0, stream);
  }
  return result;
}

template <typename Call>
CUresult end_capture(CUstream stream, const CUgraph* graph, Call&& call) {
  const CaptureTicket ticket = open_capture_of(stream);
  const CUresult result = call();
  if (!ends_capture(result)) return result;
  const bool is_whole = result == CUDA_SUCCESS && graph != nullptr;
  if (close_capture(ticket, stream, is_whole ? *graph : nullptr)) note(EventKind::CaptureEnd, Floor::Allocation, 0, 0, 0, 0, stream);
  return result;
}

/// Memory nodes may be of any device.
template <typename Call>
CUresult instantiate(const CUgraphExec* exec, CUgraph graph, Call&& call) {
  const CUresult result = with_relief(kAnyDevice, kAnyBytes, call);
  if (result == CUDA_SUCCESS) tell_allocator([&](DeviceAllocator& a) { a.graph_instantiated(*exec, graph); });
  return result;
}

std::size_t alloc_node_bytes(const CUgraphNodeParams* params) {
  return params != nullptr && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? params->alloc.bytesize : 0;
}

CUdeviceptr freed_by_node(const CUgraphNodeParams* params) {
  return params != nullptr && params->type == CU_GRAPH_NODE_TYPE_MEM_FREE ? params->free.dptr : 0;
}

std::uint64_t graph_ending(const void* graph) {
  std::uint64_t ending = 0;
  tell_allocator([&](DeviceAllocator& a) { ending = a.graph_ending(reinterpret_cast<std::uint64_t>(graph)); });
  return ending;
}

void graph_ended(std::uint64_t ending, const void* graph, bool ended) {
  tell_allocator([&](DeviceAllocator& a) { a.graph_ended(ending, reinterpret_cast<std::uint64_t>(graph), ended); });
}

/// A graph or an executable.
template <typename Call>
CUresult destroy(const void* graph, Call&& call) {
  const std::uint64_t ending = graph_ending(graph);
  const CUresult result = call();
  graph_ended(ending, graph, result == CUDA_SUCCESS);
  return result;
}

void child_added(CUgraph graph, const CUgraphNodeParams* params) {
  if (params == nullptr || params->type != CU_GRAPH_NODE_TYPE_GRAPH) return;
  CUgraph child = params->graph.graph;
  tell_allocator([&](DeviceAllocator& a) { a.graph_child_added(graph, child); });
  // The child was moved into its parent, and nobody will destroy it by name.
  if (params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) graph_ended(graph_ending(child), child, true);
}

/// The second door to memory nodes and child graphs; nodes of other types pass.
template <typename Call>
CUresult add_node(CUgraph graph, CUgraphNodeParams* params, Call&& call) {
  const std::size_t bytes = alloc_node_bytes(params);
  const PendingAllocation allocation = bytes != 0 ? before_allocation(Family::Graph, bytes) : PendingAllocation{};
  const PendingFree free = before_free(freed_by_node(params));
  const CUresult result = call();
  if (bytes != 0) after_allocation(allocation, result, &params->alloc.dptr);
  after_free(free, result);
  if (result == CUDA_SUCCESS) child_added(graph, params);
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
  return begin_capture(stream, mode, [&] { return driver().cuStreamBeginCapture_v2(stream, mode); });
}

CUHEAP_EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  return begin_capture(stream_of(stream, true), mode,
                       [&] { return driver().cuStreamBeginCapture_v2_ptsz(stream, mode); });
}

// The first form had no mode and captured globally.
CUHEAP_EXPORT CUresult cuStreamBeginCapture(CUstream stream) {
  return begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, [&] { return driver().cuStreamBeginCapture(stream); });
}

CUHEAP_EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  return begin_capture(stream_of(stream, true), CU_STREAM_CAPTURE_MODE_GLOBAL,
                       [&] { return driver().cuStreamBeginCapture_ptsz(stream); });
}

CUHEAP_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                                   const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode) {
  return begin_capture(stream, mode,
                       [&] { return driver().cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count, mode); });
}

CUHEAP_EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                                        const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode) {
  return begin_capture(stream_of(stream, true), mode,
                       [&] { return driver().cuStreamBeginCaptureToGraph_ptsz(stream, graph, dependencies, edges, count, mode); });
}

CUHEAP_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return end_capture(stream, graph, [&] { return driver().cuStreamEndCapture(stream, graph); });
}

CUHEAP_EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  return end_capture(stream_of(stream, true), graph, [&] { return driver().cuStreamEndCapture_ptsz(stream, graph); });
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
  return add_node(graph, params, [&] { return driver().cuGraphAddNode(node, graph, dependencies, count, params); });
}

CUHEAP_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                         const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* params) {
  return add_node(graph, params, [&] { return driver().cuGraphAddNode_v2(node, graph, dependencies, edges, count, params); });
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
  return destroy(graph, [&] { return driver().cuGraphDestroy(graph); });
}

CUHEAP_EXPORT CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log, size_t size) {
  return instantiate(exec, graph, [&] { return driver().cuGraphInstantiate(exec, graph, error_node, log, size); });
}

CUHEAP_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log, size_t size) {
  return instantiate(exec, graph, [&] { return driver().cuGraphInstantiate_v2(exec, graph, error_node, log, size); });
}

CUHEAP_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return instantiate(exec, graph, [&] { return driver().cuGraphInstantiateWithFlags(exec, graph, flags); });
}

CUHEAP_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiate(exec, graph, [&] { return driver().cuGraphInstantiateWithParams(exec, graph, params); });
}

CUHEAP_EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return instantiate(exec, graph, [&] { return driver().cuGraphInstantiateWithParams_ptsz(exec, graph, params); });
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

CUHEAP_EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  const CUresult result = driver().cuGraphExecChildGraphNodeSetParams(exec, node, child);
  if (result == CUDA_SUCCESS) tell_allocator([&](DeviceAllocator& a) { a.graph_exec_child_set(exec, child); });
  return result;
}

CUHEAP_EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  const CUresult result = driver().cuGraphExecNodeSetParams(exec, node, params);
  const bool is_child = result == CUDA_SUCCESS && params != nullptr && params->type == CU_GRAPH_NODE_TYPE_GRAPH;
  if (is_child) tell_allocator([&](DeviceAllocator& a) { a.graph_exec_child_set(exec, params->graph.graph); });
  return result;
}

CUHEAP_EXPORT CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  const CUresult result = driver().cuGraphNodeSetParams(node, params);
  const bool is_child = result == CUDA_SUCCESS && params != nullptr && params->type == CU_GRAPH_NODE_TYPE_GRAPH;
  if (is_child) tell_allocator([&](DeviceAllocator& a) { a.graph_child_set(params->graph.graph); });
  return result;
}

CUHEAP_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return destroy(exec, [&] { return driver().cuGraphExecDestroy(exec); });
}

// The memory of a graph's nodes is taken when it is launched or uploaded.
CUHEAP_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return with_relief(kAnyDevice, kAnyBytes, [&] { return driver().cuGraphLaunch(exec, stream); });
}

CUHEAP_EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  return with_relief(kAnyDevice, kAnyBytes, [&] { return driver().cuGraphLaunch_ptsz(exec, stream); });
}

CUHEAP_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return with_relief(kAnyDevice, kAnyBytes, [&] { return driver().cuGraphUpload(exec, stream); });
}

CUHEAP_EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
  return with_relief(kAnyDevice, kAnyBytes, [&] { return driver().cuGraphUpload_ptsz(exec, stream); });
}
