// Nodes of graphs built by hand: added, read, changed. Kernels, copies, memsets, host functions, memory, children, events.
#include "simgpu/libcuda_copy.h"
#include "simgpu/libcuda_graph.h"
#include "simgpu/libcuda_kernel.h"

using namespace cuheap::sim;

namespace cuheap::sim {

void become_kernel(GraphNode& node, const CUDA_KERNEL_NODE_PARAMS& parameters) {
  Work work = kernel_work(parameters);
  node.run = std::move(work.run);
  node.calls_host = !work.may_run_inline;
  node.cost_ns = work.cost_ns;
  node.parameters = parameters;
}

CUresult become_copy(GraphNode& node, const CUDA_MEMCPY3D& parameters, int device) {
  Box box;
  if (const CUresult wrong = box_of(parameters, box); wrong != CUDA_SUCCESS) return wrong;
  Work work = copy_work(box, both(device));
  node.run = std::move(work.run);
  node.cost_ns = work.cost_ns;
  node.parameters = parameters;
  return CUDA_SUCCESS;
}

CUresult become_memset(GraphNode& node, const CUDA_MEMSET_NODE_PARAMS& p, int device) {
  if (p.dst == 0 || (p.elementSize != 1 && p.elementSize != 2 && p.elementSize != 4) || p.width == 0) return CUDA_ERROR_INVALID_VALUE;
  Work work = fill_work(p.dst, p.pitch, p.value, p.elementSize, p.width, p.height, device);
  node.run = std::move(work.run);
  node.cost_ns = work.cost_ns;
  node.parameters = p;
  return CUDA_SUCCESS;
}

void become_host(GraphNode& node, const CUDA_HOST_NODE_PARAMS& p) {
  node.run = [p](Stream&) { return p.fn(p.userData), Io::Ok; };
  node.calls_host = true;
  node.parameters = p;
}

namespace {

/// What every add call begins with.
struct Add {
  std::shared_ptr<Graph> graph;
  std::vector<GraphNode*> dependencies;
  CUresult result = CUDA_SUCCESS;

  Add(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes, size_t count) : graph(find_graph(handle)) {
    if (out == nullptr || graph == nullptr || (nodes == nullptr && count > 0) ||
        (count > 0 && !nodes_of(*graph, nodes, count, dependencies)))
      result = CUDA_ERROR_INVALID_VALUE;
  }
  GraphNode* node(NodeType type) { return graph->add(type, dependencies); }
};

CUresult finish(CUgraphNode* out, GraphNode* node, CUresult result) {
  if (result != CUDA_SUCCESS) return node->graph->remove(node), result;
  *out = handle_of(node);
  return CUDA_SUCCESS;
}

int device_of(CUcontext handle) {
  const ContextRef context = find_context(handle);
  if (context != nullptr) return context->device;
  return current_context_or_null() != nullptr ? current_context().device : -1;
}

CUresult add_kernel(CUgraphNode* out, Add add, CUDA_KERNEL_NODE_PARAMS parameters) {
  if (add.result != CUDA_SUCCESS) return add.result;
  if (const CUresult wrong = check_kernel(parameters, std::max(device_of(parameters.ctx), 0)); wrong != CUDA_SUCCESS) return wrong;
  GraphNode* node = add.node(NodeType::Kernel);
  become_kernel(*node, parameters);
  return finish(out, node, CUDA_SUCCESS);
}

CUDA_KERNEL_NODE_PARAMS widen(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
  return {p.func, p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,
          nullptr, nullptr};
}

CUresult add_allocation(CUgraphNode* out, Add add, const CUmemPoolProps& pool, size_t bytes, CUdeviceptr& address) {
  if (add.result != CUDA_SUCCESS) return add.result;
  if (bytes == 0 || pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE || pool.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(pool.location.id)) return CUDA_ERROR_INVALID_DEVICE;
  const auto block = new_graph_block(pool.location.id, bytes);
  if (block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  GraphNode* node = add.node(NodeType::MemAlloc);
  node->block = block;
  node->run = [block](Stream&) { return block->go_live(); };
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps = pool, parameters.bytesize = bytes, parameters.dptr = address = block->address;
  node->parameters = parameters;
  return finish(out, node, CUDA_SUCCESS);
}

CUresult add_free(CUgraphNode* out, Add add, CUdeviceptr address) {
  if (add.result != CUDA_SUCCESS) return add.result;
  const auto block = find_graph_block(address);
  if (block == nullptr || add.graph->frees(*block)) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = add.node(NodeType::MemFree);
  node->block = block;
  node->run = [block](Stream&) { return block->die(), Io::Ok; };
  node->parameters = address;
  return finish(out, node, CUDA_SUCCESS);
}

/// `moved`: the parent takes the graph itself, as it must where that graph holds memory.
CUresult add_child(CUgraphNode* out, Add add, CUgraph child_handle, bool moved) {
  const auto child = find_graph(child_handle);
  if (add.result != CUDA_SUCCESS || child == nullptr || child == add.graph) return CUDA_ERROR_INVALID_VALUE;
  if (!moved && child->has_memory()) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = add.node(NodeType::Graph);
  node->child = moved ? child : child->clone();
  return finish(out, node, CUDA_SUCCESS);
}

CUresult add_event(CUgraphNode* out, Add add, CUevent event, NodeType type) {
  const auto found = machine().events.find(event);
  if (add.result != CUDA_SUCCESS) return add.result;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  GraphNode* node = add.node(type);
  node->parameters = event;
  if (type == NodeType::EventRecord) {
    node->run = [found](Stream& on) {
      auto stamp = std::make_shared<Stamp>();
      stamp->time_ns.store(on.virtual_time_ns());
      std::lock_guard guard(found->lock);
      found->last = std::move(stamp);
      return Io::Ok;
    };
  } else {
    node->calls_host = true;  // it may wait
    node->run = [found](Stream& on) {
      std::shared_ptr<Stamp> last;
      {
        std::lock_guard guard(found->lock);
        last = found->last;
      }
      if (last != nullptr && last->mark.stream.get() != &on && last->mark.stream != nullptr) last->mark.stream->wait(last->mark.sequence);
      return Io::Ok;
    };
  }
  return finish(out, node, CUDA_SUCCESS);
}

CUresult add_node(CUgraphNode* out, const Add& add, CUgraphNodeParams* p) {
  if (p == nullptr || add.result != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const auto& k = p->kernel;
      return add_kernel(out, add, {k.func, k.gridDimX, k.gridDimY, k.gridDimZ, k.blockDimX, k.blockDimY, k.blockDimZ, k.sharedMemBytes,
                                   k.kernelParams, k.extra, k.kern, k.ctx});
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      GraphNode* node = Add(add).node(NodeType::Memcpy);
      return finish(out, node, become_copy(*node, p->memcpy.copyParams, device_of(p->memcpy.copyCtx)));
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      GraphNode* node = Add(add).node(NodeType::Memset);
      const auto& m = p->memset;
      return finish(out, node, become_memset(*node, {m.dst, m.pitch, m.value, m.elementSize, m.width, m.height}, device_of(m.ctx)));
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      if (p->host.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
      GraphNode* node = Add(add).node(NodeType::Host);
      become_host(*node, {p->host.fn, p->host.userData});
      return finish(out, node, CUDA_SUCCESS);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return add_child(out, add, p->graph.graph, p->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE);
    case CU_GRAPH_NODE_TYPE_EMPTY: return finish(out, Add(add).node(NodeType::Empty), CUDA_SUCCESS);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return add_event(out, add, p->eventWait.event, NodeType::WaitEvent);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return add_event(out, add, p->eventRecord.event, NodeType::EventRecord);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return add_allocation(out, add, p->alloc.poolProps, p->alloc.bytesize, p->alloc.dptr);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return add_free(out, add, p->free.dptr);
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

template <class T>
CUresult read(CUgraphNode handle, NodeType type, T* out) {
  const GraphNode* node = find_node(handle);
  if (node == nullptr || out == nullptr || node->type != type) return CUDA_ERROR_INVALID_VALUE;
  const T* value = std::any_cast<T>(&node->parameters);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = *value;
  return CUDA_SUCCESS;
}

GraphNode* typed(CUgraphNode handle, NodeType type) {
  GraphNode* node = find_node(handle);
  return node != nullptr && node->type == type ? node : nullptr;
}

}  // namespace
}  // namespace cuheap::sim

CUresult cuheap::sim::become(GraphNode& node, const CUgraphNodeParams& p) {
  const auto& k = p.kernel;
  const auto& m = p.memset;
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      become_kernel(node, {k.func, k.gridDimX, k.gridDimY, k.gridDimZ, k.blockDimX, k.blockDimY, k.blockDimZ, k.sharedMemBytes,
                           k.kernelParams, k.extra, k.kern, k.ctx});
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMCPY: return become_copy(node, p.memcpy.copyParams, device_of(p.memcpy.copyCtx));
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return become_memset(node, {m.dst, m.pitch, m.value, m.elementSize, m.width, m.height}, device_of(m.ctx));
    case CU_GRAPH_NODE_TYPE_HOST:
      if (p.host.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
      return become_host(node, {p.host.fn, p.host.userData}), CUDA_SUCCESS;
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

#define SIMGPU_ADD(name, ...)                                                         \
  SIMGPU_API CUresult name(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, \
                           size_t count __VA_OPT__(, ) __VA_ARGS__)

SIMGPU_ADD(cuGraphAddKernelNode, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  SIMGPU_ENTER(Needs::Init);
  return parameters != nullptr ? add_kernel(out, {out, graph, nodes, count}, widen(*parameters)) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_ADD(cuGraphAddKernelNode_v2, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  SIMGPU_ENTER(Needs::Init);
  return parameters != nullptr ? add_kernel(out, {out, graph, nodes, count}, *parameters) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_ADD(cuGraphAddMemcpyNode, const CUDA_MEMCPY3D* copy, CUcontext context) {
  SIMGPU_ENTER(Needs::Init);
  Add add(out, graph, nodes, count);
  if (copy == nullptr || add.result != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = add.node(NodeType::Memcpy);
  return finish(out, node, become_copy(*node, *copy, device_of(context)));
}

SIMGPU_ADD(cuGraphAddMemsetNode, const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext context) {
  SIMGPU_ENTER(Needs::Init);
  Add add(out, graph, nodes, count);
  if (parameters == nullptr || add.result != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = add.node(NodeType::Memset);
  return finish(out, node, become_memset(*node, *parameters, device_of(context)));
}

SIMGPU_ADD(cuGraphAddHostNode, const CUDA_HOST_NODE_PARAMS* parameters) {
  SIMGPU_ENTER(Needs::Init);
  Add add(out, graph, nodes, count);
  if (parameters == nullptr || parameters->fn == nullptr || add.result != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = add.node(NodeType::Host);
  become_host(*node, *parameters);
  return finish(out, node, CUDA_SUCCESS);
}

SIMGPU_ADD(cuGraphAddEmptyNode) {
  SIMGPU_ENTER(Needs::Init);
  Add add(out, graph, nodes, count);
  return add.result == CUDA_SUCCESS ? finish(out, add.node(NodeType::Empty), CUDA_SUCCESS) : add.result;
}

SIMGPU_ADD(cuGraphAddChildGraphNode, CUgraph child) {
  SIMGPU_ENTER(Needs::Init);
  return add_child(out, {out, graph, nodes, count}, child, false);
}

SIMGPU_ADD(cuGraphAddEventRecordNode, CUevent event) {
  SIMGPU_ENTER(Needs::Init);
  return add_event(out, {out, graph, nodes, count}, event, NodeType::EventRecord);
}

SIMGPU_ADD(cuGraphAddEventWaitNode, CUevent event) {
  SIMGPU_ENTER(Needs::Init);
  return add_event(out, {out, graph, nodes, count}, event, NodeType::WaitEvent);
}

SIMGPU_ADD(cuGraphAddMemAllocNode, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  SIMGPU_ENTER(Needs::Init);
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_allocation(out, {out, graph, nodes, count}, parameters->poolProps, parameters->bytesize, parameters->dptr);
}

SIMGPU_ADD(cuGraphAddMemFreeNode, CUdeviceptr address) {
  SIMGPU_ENTER(Needs::Init);
  return add_free(out, {out, graph, nodes, count}, address);
}

SIMGPU_ADD(cuGraphAddNode, CUgraphNodeParams* parameters) {
  SIMGPU_ENTER(Needs::Init);
  return add_node(out, {out, graph, nodes, count}, parameters);
}

SIMGPU_API CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, const CUgraphEdgeData*, size_t count,
                                      CUgraphNodeParams* parameters) {
  SIMGPU_ENTER(Needs::Init);
  return add_node(out, {out, graph, nodes, count}, parameters);
}

SIMGPU_API CUresult cuGraphNodeSetParams(CUgraphNode handle, CUgraphNodeParams* parameters) {
  SIMGPU_ENTER(Needs::Init);
  GraphNode* node = parameters != nullptr ? typed(handle, static_cast<NodeType>(parameters->type)) : nullptr;
  return node != nullptr ? become(*node, *parameters) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* out) {
  SIMGPU_ENTER(Needs::Init);
  return read(node, NodeType::Kernel, out);
}

SIMGPU_API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  SIMGPU_ENTER(Needs::Init);
  GraphNode* node = typed(handle, NodeType::Kernel);
  if (node == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return become_kernel(*node, *parameters), CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* out) {
  SIMGPU_ENTER(Needs::Init);
  return read(node, NodeType::Memcpy, out);
}

SIMGPU_API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode handle, const CUDA_MEMCPY3D* copy) {
  SIMGPU_ENTER(Needs::Init);
  GraphNode* node = typed(handle, NodeType::Memcpy);
  return node != nullptr && copy != nullptr ? become_copy(*node, *copy, device_of(nullptr)) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out) {
  SIMGPU_ENTER(Needs::Init);
  return read(node, NodeType::Memset, out);
}

SIMGPU_API CUresult cuGraphMemsetNodeSetParams(CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS* parameters) {
  SIMGPU_ENTER(Needs::Init);
  GraphNode* node = typed(handle, NodeType::Memset);
  return node != nullptr && parameters != nullptr ? become_memset(*node, *parameters, device_of(nullptr)) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* out) {
  SIMGPU_ENTER(Needs::Init);
  return read(node, NodeType::Host, out);
}

SIMGPU_API CUresult cuGraphHostNodeSetParams(CUgraphNode handle, const CUDA_HOST_NODE_PARAMS* parameters) {
  SIMGPU_ENTER(Needs::Init);
  GraphNode* node = typed(handle, NodeType::Host);
  if (node == nullptr || parameters == nullptr || parameters->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return become_host(*node, *parameters), CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* out) {
  SIMGPU_ENTER(Needs::Init);
  return read(node, NodeType::MemAlloc, out);
}

SIMGPU_API CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* out) {
  SIMGPU_ENTER(Needs::Init);
  return read(node, NodeType::MemFree, out);
}

SIMGPU_API CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* out) {
  SIMGPU_ENTER(Needs::Init);
  return read(node, NodeType::EventRecord, out);
}

SIMGPU_API CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out) {
  SIMGPU_ENTER(Needs::Init);
  return read(node, NodeType::WaitEvent, out);
}

// Scheduling and caching hints of kernels have no effect here.
SIMGPU_API CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID, const CUkernelNodeAttrValue* value) {
  SIMGPU_ENTER(Needs::Init);
  return typed(node, NodeType::Kernel) != nullptr && value != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID, CUkernelNodeAttrValue* value) {
  SIMGPU_ENTER(Needs::Init);
  if (typed(node, NodeType::Kernel) == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = {};
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  SIMGPU_ENTER(Needs::Init);
  return typed(to, NodeType::Kernel) != nullptr && typed(from, NodeType::Kernel) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
