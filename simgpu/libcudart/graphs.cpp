// Graphs: the driver's own, with the runtime's parameter structures translated. Conditional nodes, external semaphores
// and the generic cudaGraphAddNode family are not simulated.
#include <cstring>

#include "copies.h"
#include "registry.h"

namespace cuheap::sim::runtime {
namespace {

CUcontext current_context() {
  CUcontext context = nullptr;
  driver().cuCtxGetCurrent_(&context);
  return context;
}

CUresult kernel_to_driver(const cudaKernelNodeParams& params, CUDA_KERNEL_NODE_PARAMS& out) {
  out = {};
  if (const CUresult result = find_kernel(params.func, out.kern); result != CUDA_SUCCESS) return result;
  out.gridDimX = params.gridDim.x;
  out.gridDimY = params.gridDim.y;
  out.gridDimZ = params.gridDim.z;
  out.blockDimX = params.blockDim.x;
  out.blockDimY = params.blockDim.y;
  out.blockDimZ = params.blockDim.z;
  out.sharedMemBytes = params.sharedMemBytes;
  out.kernelParams = params.kernelParams;
  out.extra = params.extra;
  return CUDA_SUCCESS;
}

cudaKernelNodeParams kernel_to_runtime(const CUDA_KERNEL_NODE_PARAMS& params) {
  cudaKernelNodeParams out{};
  const CUkernel kernel = params.kern != nullptr ? params.kern : reinterpret_cast<CUkernel>(params.func);
  out.func = const_cast<void*>(host_function(kernel));
  out.gridDim = dim3(params.gridDimX, params.gridDimY, params.gridDimZ);
  out.blockDim = dim3(params.blockDimX, params.blockDimY, params.blockDimZ);
  out.sharedMemBytes = params.sharedMemBytes;
  out.kernelParams = params.kernelParams;
  out.extra = params.extra;
  return out;
}

// These structures are the same in both APIs, field for field.
static_assert(sizeof(cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS));
static_assert(sizeof(cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS));
static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));
static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS));
static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo));
static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));

const CUDA_MEMSET_NODE_PARAMS* driver_params(const cudaMemsetParams* params) {
  return reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS*>(params);
}

const CUDA_HOST_NODE_PARAMS* driver_params(const cudaHostNodeParams* params) {
  return reinterpret_cast<const CUDA_HOST_NODE_PARAMS*>(params);
}

const CUgraphEdgeData* driver_edges(const cudaGraphEdgeData* edges) {
  return reinterpret_cast<const CUgraphEdgeData*>(edges);
}
CUgraphEdgeData* driver_edges(cudaGraphEdgeData* edges) {
  return reinterpret_cast<CUgraphEdgeData*>(edges);
}

CUresult symbol_copy(const void* symbol, size_t offset, size_t bytes, void*& pointer) {
  Variable variable;
  if (const CUresult result = find_variable(symbol, variable); result != CUDA_SUCCESS) return result;
  if (offset + bytes > variable.bytes) return CUDA_ERROR_INVALID_VALUE;
  pointer = reinterpret_cast<void*>(variable.address + offset);
  return CUDA_SUCCESS;
}

CUresult add_copy(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count, void* to,
                  const void* from, size_t bytes, cudaMemcpyKind kind) {
  CUDA_MEMCPY3D copy;
  if (const CUresult result = to_driver(to, from, bytes, kind, copy); result != CUDA_SUCCESS) return result;
  return driver().cuGraphAddMemcpyNode_(node, graph, after, count, &copy, current_context());
}

CUresult set_copy(cudaGraphNode_t node, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  CUDA_MEMCPY3D copy;
  if (const CUresult result = to_driver(to, from, bytes, kind, copy); result != CUDA_SUCCESS) return result;
  return driver().cuGraphMemcpyNodeSetParams_(node, &copy);
}

CUresult set_exec_copy(cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* from, size_t bytes,
                       cudaMemcpyKind kind) {
  CUDA_MEMCPY3D copy;
  if (const CUresult result = to_driver(to, from, bytes, kind, copy); result != CUDA_SUCCESS) return result;
  return driver().cuGraphExecMemcpyNodeSetParams_(exec, node, &copy, current_context());
}

}  // namespace

// The graph itself.

CUDART_EXPORT cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
  return with_context([&] { return driver().cuGraphCreate_(graph, flags); });
}

CUDART_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return with_context([&] { return driver().cuGraphDestroy_(graph); });
}

CUDART_EXPORT cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  return with_context([&] { return driver().cuGraphClone_(clone, graph); });
}

CUDART_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return with_context([&] { return driver().cuGraphGetNodes_(graph, nodes, count); });
}

CUDART_EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return with_context([&] { return driver().cuGraphGetRootNodes_(graph, nodes, count); });
}

CUDART_EXPORT cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original, cudaGraph_t clone) {
  return with_context([&] { return driver().cuGraphNodeFindInClone_(node, original, clone); });
}

CUDART_EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return with_context([&] { return driver().cuGraphNodeGetType_(node, reinterpret_cast<CUgraphNodeType*>(type)); });
}

CUDART_EXPORT cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return with_context([&] { return driver().cuGraphDestroyNode_(node); });
}

CUDART_EXPORT cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned int flags) {
  return with_context([&] { return driver().cuGraphDebugDotPrint_(graph, path, flags); });
}

// Kernel nodes.

CUDART_EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                                 size_t count, const cudaKernelNodeParams* params) {
  if (params == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_KERNEL_NODE_PARAMS kernel;
    if (const CUresult result = kernel_to_driver(*params, kernel); result != CUDA_SUCCESS) return result;
    return driver().cuGraphAddKernelNode_(node, graph, after, count, &kernel);
  });
}

CUDART_EXPORT cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* params) {
  if (params == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_KERNEL_NODE_PARAMS kernel{};
    const CUresult result = driver().cuGraphKernelNodeGetParams_(node, &kernel);
    if (result == CUDA_SUCCESS) *params = kernel_to_runtime(kernel);
    return result;
  });
}

CUDART_EXPORT cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* params) {
  if (params == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_KERNEL_NODE_PARAMS kernel;
    if (const CUresult result = kernel_to_driver(*params, kernel); result != CUDA_SUCCESS) return result;
    return driver().cuGraphKernelNodeSetParams_(node, &kernel);
  });
}

CUDART_EXPORT cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                           const cudaKernelNodeParams* params) {
  if (params == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_KERNEL_NODE_PARAMS kernel;
    if (const CUresult result = kernel_to_driver(*params, kernel); result != CUDA_SUCCESS) return result;
    return driver().cuGraphExecKernelNodeSetParams_(exec, node, &kernel);
  });
}

CUDART_EXPORT cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from) {
  return with_context([&] { return driver().cuGraphKernelNodeCopyAttributes_(to, from); });
}

CUDART_EXPORT cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                                          cudaLaunchAttributeValue* value) {
  return with_context([&] {
    return driver().cuGraphKernelNodeGetAttribute_(node, static_cast<CUkernelNodeAttrID>(id),
                                                   reinterpret_cast<CUkernelNodeAttrValue*>(value));
  });
}

CUDART_EXPORT cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                                          const cudaLaunchAttributeValue* value) {
  return with_context([&] {
    return driver().cuGraphKernelNodeSetAttribute_(node, static_cast<CUkernelNodeAttrID>(id),
                                                   reinterpret_cast<const CUkernelNodeAttrValue*>(value));
  });
}

// Copy nodes: volumes, lines and symbols.

CUDART_EXPORT cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                                 size_t count, const cudaMemcpy3DParms* params) {
  if (params == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_MEMCPY3D copy;
    if (const CUresult result = to_driver(*params, copy); result != CUDA_SUCCESS) return result;
    return driver().cuGraphAddMemcpyNode_(node, graph, after, count, &copy, current_context());
  });
}

CUDART_EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* after, size_t count, void* to,
                                                   const void* from, size_t bytes, cudaMemcpyKind kind) {
  return with_context([&] { return add_copy(node, graph, after, count, to, from, bytes, kind); });
}

CUDART_EXPORT cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                                         const cudaGraphNode_t* after, size_t count, const void* symbol,
                                                         const void* from, size_t bytes, size_t offset,
                                                         cudaMemcpyKind kind) {
  return with_context([&] {
    void* to = nullptr;
    if (const CUresult result = symbol_copy(symbol, offset, bytes, to); result != CUDA_SUCCESS) return result;
    return add_copy(node, graph, after, count, to, from, bytes, kind);
  });
}

CUDART_EXPORT cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                                           const cudaGraphNode_t* after, size_t count, void* to,
                                                           const void* symbol, size_t bytes, size_t offset,
                                                           cudaMemcpyKind kind) {
  return with_context([&] {
    void* from = nullptr;
    if (const CUresult result = symbol_copy(symbol, offset, bytes, from); result != CUDA_SUCCESS) return result;
    return add_copy(node, graph, after, count, to, from, bytes, kind);
  });
}

CUDART_EXPORT cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* params) {
  if (params == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_MEMCPY3D copy{};
    const CUresult result = driver().cuGraphMemcpyNodeGetParams_(node, &copy);
    if (result == CUDA_SUCCESS) *params = to_runtime(copy);
    return result;
  });
}

CUDART_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* params) {
  if (params == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_MEMCPY3D copy;
    if (const CUresult result = to_driver(*params, copy); result != CUDA_SUCCESS) return result;
    return driver().cuGraphMemcpyNodeSetParams_(node, &copy);
  });
}

CUDART_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from, size_t bytes,
                                                         cudaMemcpyKind kind) {
  return with_context([&] { return set_copy(node, to, from, bytes, kind); });
}

CUDART_EXPORT cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol,
                                                               const void* from, size_t bytes, size_t offset,
                                                               cudaMemcpyKind kind) {
  return with_context([&] {
    void* to = nullptr;
    if (const CUresult result = symbol_copy(symbol, offset, bytes, to); result != CUDA_SUCCESS) return result;
    return set_copy(node, to, from, bytes, kind);
  });
}

CUDART_EXPORT cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* to, const void* symbol,
                                                                 size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return with_context([&] {
    void* from = nullptr;
    if (const CUresult result = symbol_copy(symbol, offset, bytes, from); result != CUDA_SUCCESS) return result;
    return set_copy(node, to, from, bytes, kind);
  });
}

CUDART_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                           const cudaMemcpy3DParms* params) {
  if (params == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    CUDA_MEMCPY3D copy;
    if (const CUresult result = to_driver(*params, copy); result != CUDA_SUCCESS) return result;
    return driver().cuGraphExecMemcpyNodeSetParams_(exec, node, &copy, current_context());
  });
}

CUDART_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                                             const void* from, size_t bytes, cudaMemcpyKind kind) {
  return with_context([&] { return set_exec_copy(exec, node, to, from, bytes, kind); });
}

CUDART_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                                   const void* symbol, const void* from, size_t bytes,
                                                                   size_t offset, cudaMemcpyKind kind) {
  return with_context([&] {
    void* to = nullptr;
    if (const CUresult result = symbol_copy(symbol, offset, bytes, to); result != CUDA_SUCCESS) return result;
    return set_exec_copy(exec, node, to, from, bytes, kind);
  });
}

CUDART_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                                     void* to, const void* symbol, size_t bytes,
                                                                     size_t offset, cudaMemcpyKind kind) {
  return with_context([&] {
    void* from = nullptr;
    if (const CUresult result = symbol_copy(symbol, offset, bytes, from); result != CUDA_SUCCESS) return result;
    return set_exec_copy(exec, node, to, from, bytes, kind);
  });
}

// Fill nodes.

CUDART_EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                                 size_t count, const cudaMemsetParams* params) {
  return with_context([&] {
    return driver().cuGraphAddMemsetNode_(node, graph, after, count, driver_params(params), current_context());
  });
}

CUDART_EXPORT cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* params) {
  return with_context(
      [&] { return driver().cuGraphMemsetNodeGetParams_(node, reinterpret_cast<CUDA_MEMSET_NODE_PARAMS*>(params)); });
}

CUDART_EXPORT cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* params) {
  return with_context([&] { return driver().cuGraphMemsetNodeSetParams_(node, driver_params(params)); });
}

CUDART_EXPORT cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                           const cudaMemsetParams* params) {
  return with_context(
      [&] { return driver().cuGraphExecMemsetNodeSetParams_(exec, node, driver_params(params), current_context()); });
}

// Host nodes, child graphs, empty nodes.

CUDART_EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                               size_t count, const cudaHostNodeParams* params) {
  return with_context([&] { return driver().cuGraphAddHostNode_(node, graph, after, count, driver_params(params)); });
}

CUDART_EXPORT cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* params) {
  return with_context(
      [&] { return driver().cuGraphHostNodeGetParams_(node, reinterpret_cast<CUDA_HOST_NODE_PARAMS*>(params)); });
}

CUDART_EXPORT cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* params) {
  return with_context([&] { return driver().cuGraphHostNodeSetParams_(node, driver_params(params)); });
}

CUDART_EXPORT cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                         const cudaHostNodeParams* params) {
  return with_context([&] { return driver().cuGraphExecHostNodeSetParams_(exec, node, driver_params(params)); });
}

CUDART_EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                     const cudaGraphNode_t* after, size_t count, cudaGraph_t child) {
  return with_context([&] { return driver().cuGraphAddChildGraphNode_(node, graph, after, count, child); });
}

CUDART_EXPORT cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  return with_context([&] { return driver().cuGraphChildGraphNodeGetGraph_(node, graph); });
}

CUDART_EXPORT cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                               cudaGraph_t child) {
  return with_context([&] { return driver().cuGraphExecChildGraphNodeSetParams_(exec, node, child); });
}

CUDART_EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                                size_t count) {
  return with_context([&] { return driver().cuGraphAddEmptyNode_(node, graph, after, count); });
}

// Event nodes.

CUDART_EXPORT cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                      const cudaGraphNode_t* after, size_t count, cudaEvent_t event) {
  return with_context([&] { return driver().cuGraphAddEventRecordNode_(node, graph, after, count, event); });
}

CUDART_EXPORT cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return with_context([&] { return driver().cuGraphEventRecordNodeGetEvent_(node, event); });
}

CUDART_EXPORT cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return with_context([&] { return driver().cuGraphEventRecordNodeSetEvent_(node, event); });
}

CUDART_EXPORT cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                               cudaEvent_t event) {
  return with_context([&] { return driver().cuGraphExecEventRecordNodeSetEvent_(exec, node, event); });
}

CUDART_EXPORT cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    const cudaGraphNode_t* after, size_t count, cudaEvent_t event) {
  return with_context([&] { return driver().cuGraphAddEventWaitNode_(node, graph, after, count, event); });
}

CUDART_EXPORT cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return with_context([&] { return driver().cuGraphEventWaitNodeGetEvent_(node, event); });
}

CUDART_EXPORT cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return with_context([&] { return driver().cuGraphEventWaitNodeSetEvent_(node, event); });
}

CUDART_EXPORT cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                             cudaEvent_t event) {
  return with_context([&] { return driver().cuGraphExecEventWaitNodeSetEvent_(exec, node, event); });
}

// Memory nodes.

CUDART_EXPORT cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* after, size_t count,
                                                   cudaMemAllocNodeParams* params) {
  return with_context([&] {
    return driver().cuGraphAddMemAllocNode_(node, graph, after, count,
                                            reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(params));
  });
}

CUDART_EXPORT cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* params) {
  return with_context([&] {
    return driver().cuGraphMemAllocNodeGetParams_(node, reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(params));
  });
}

CUDART_EXPORT cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  const cudaGraphNode_t* after, size_t count, void* pointer) {
  return with_context([&] { return driver().cuGraphAddMemFreeNode_(node, graph, after, count, address(pointer)); });
}

CUDART_EXPORT cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer_out) {
  return with_context(
      [&] { return driver().cuGraphMemFreeNodeGetParams_(node, static_cast<CUdeviceptr*>(pointer_out)); });
}

CUDART_EXPORT cudaError_t cudaDeviceGraphMemTrim(int device) {
  return with_driver([&] { return driver().cuDeviceGraphMemTrim_(device); });
}

CUDART_EXPORT cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  return with_driver([&] {
    return driver().cuDeviceGetGraphMemAttribute_(device, static_cast<CUgraphMem_attribute>(attribute), value);
  });
}

CUDART_EXPORT cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  return with_driver([&] {
    return driver().cuDeviceSetGraphMemAttribute_(device, static_cast<CUgraphMem_attribute>(attribute), value);
  });
}

// Edges: with their data in CUDA 13 and in the _v2 forms of 12, without it in the plain forms of 12.

#define EDGE_CALLS(suffix)                                                                                           \
  CUDART_EXPORT cudaError_t cudaGraphGetEdges##suffix(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, \
                                                      cudaGraphEdgeData* edges, size_t* count) {                     \
    return with_context([&] { return driver().cuGraphGetEdges_(graph, from, to, driver_edges(edges), count); });     \
  }                                                                                                                  \
  CUDART_EXPORT cudaError_t cudaGraphNodeGetDependencies##suffix(cudaGraphNode_t node, cudaGraphNode_t* nodes,       \
                                                                 cudaGraphEdgeData* edges, size_t* count) {          \
    return with_context(                                                                                             \
        [&] { return driver().cuGraphNodeGetDependencies_(node, nodes, driver_edges(edges), count); });              \
  }                                                                                                                  \
  CUDART_EXPORT cudaError_t cudaGraphNodeGetDependentNodes##suffix(cudaGraphNode_t node, cudaGraphNode_t* nodes,     \
                                                                   cudaGraphEdgeData* edges, size_t* count) {        \
    return with_context(                                                                                             \
        [&] { return driver().cuGraphNodeGetDependentNodes_(node, nodes, driver_edges(edges), count); });            \
  }                                                                                                                  \
  CUDART_EXPORT cudaError_t cudaGraphAddDependencies##suffix(cudaGraph_t graph, const cudaGraphNode_t* from,         \
                                                             const cudaGraphNode_t* to,                              \
                                                             const cudaGraphEdgeData* edges, size_t count) {         \
    return with_context(                                                                                             \
        [&] { return driver().cuGraphAddDependencies_(graph, from, to, driver_edges(edges), count); });              \
  }                                                                                                                  \
  CUDART_EXPORT cudaError_t cudaGraphRemoveDependencies##suffix(cudaGraph_t graph, const cudaGraphNode_t* from,      \
                                                                const cudaGraphNode_t* to,                           \
                                                                const cudaGraphEdgeData* edges, size_t count) {      \
    return with_context(                                                                                             \
        [&] { return driver().cuGraphRemoveDependencies_(graph, from, to, driver_edges(edges), count); });           \
  }

#if CUDART_VERSION >= 13000
EDGE_CALLS()
#else
EDGE_CALLS(_v2)

CUDART_EXPORT cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                            size_t* count) {
  return cudaGraphGetEdges_v2(graph, from, to, nullptr, count);
}

CUDART_EXPORT cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  return cudaGraphNodeGetDependencies_v2(node, nodes, nullptr, count);
}

CUDART_EXPORT cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  return cudaGraphNodeGetDependentNodes_v2(node, nodes, nullptr, count);
}

CUDART_EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                   const cudaGraphNode_t* to, size_t count) {
  return cudaGraphAddDependencies_v2(graph, from, to, nullptr, count);
}

CUDART_EXPORT cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                      const cudaGraphNode_t* to, size_t count) {
  return cudaGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}
#endif

// Executable graphs.

CUDART_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                        unsigned long long flags) {
  return with_context([&] { return driver().cuGraphInstantiateWithFlags_(exec, graph, flags); });
}

CUDART_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

CUDART_WITH_TWIN(cudaGraphInstantiateWithParams, _ptsz,
                 (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams* params),
                 (exec, graph, params)) {
  return with_context([&] {
    return driver.cuGraphInstantiateWithParams_(exec, graph, reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(params));
  });
}

CUDART_EXPORT cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  if (flags == nullptr) return remember(cudaErrorInvalidValue);
  return with_context([&] {
    cuuint64_t driver_flags = 0;
    const CUresult result = driver().cuGraphExecGetFlags_(exec, &driver_flags);
    *flags = driver_flags;
    return result;
  });
}

CUDART_EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                              cudaGraphExecUpdateResultInfo* info) {
  return with_context(
      [&] { return driver().cuGraphExecUpdate_(exec, graph, reinterpret_cast<CUgraphExecUpdateResultInfo*>(info)); });
}

CUDART_WITH_TWIN(cudaGraphUpload, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream)) {
  return with_context([&] { return driver.cuGraphUpload_(exec, stream); });
}

CUDART_WITH_TWIN(cudaGraphLaunch, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream)) {
  return with_context([&] { return driver.cuGraphLaunch_(exec, stream); });
}

CUDART_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return with_context([&] { return driver().cuGraphExecDestroy_(exec); });
}

CUDART_EXPORT cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int enabled) {
  return with_context([&] { return driver().cuGraphNodeSetEnabled_(exec, node, enabled); });
}

CUDART_EXPORT cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int* enabled) {
  return with_context([&] { return driver().cuGraphNodeGetEnabled_(exec, node, enabled); });
}

// Objects whose lifetime a graph holds.

CUDART_EXPORT cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy,
                                               unsigned int count, unsigned int flags) {
  return with_context([&] { return driver().cuUserObjectCreate_(object, pointer, destroy, count, flags); });
}

CUDART_EXPORT cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  return with_context([&] { return driver().cuUserObjectRetain_(object, count); });
}

CUDART_EXPORT cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  return with_context([&] { return driver().cuUserObjectRelease_(object, count); });
}

CUDART_EXPORT cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
                                                    unsigned int flags) {
  return with_context([&] { return driver().cuGraphRetainUserObject_(graph, object, count, flags); });
}

CUDART_EXPORT cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count) {
  return with_context([&] { return driver().cuGraphReleaseUserObject_(graph, object, count); });
}

}  // namespace cuheap::sim::runtime
