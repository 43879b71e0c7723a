// Executable graphs: instantiated, launched, updated.
#include <algorithm>
#include <cstring>

#include "simgpu/libcuda_graph.h"

using namespace cuheap::sim;

namespace cuheap::sim {
namespace {

// A launch of at most this many nodes may be done by the caller.
constexpr size_t kInlineNodes = 64;

constexpr unsigned long long kKnownFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                           CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

/// "If hGraph contains any allocation or free nodes, there can be at most one executable graph in existence for that graph."
bool is_taken(const Graph& graph) {
  if (!graph.has_memory()) return false;
  const auto all = machine().graph_execs.all();
  return std::any_of(all.begin(), all.end(), [&](const auto& exec) { return exec->source_id == graph.id; });
}

CUresult instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  const auto graph = find_graph(handle);
  if (out == nullptr || graph == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  constexpr auto exclusive = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  if ((flags & exclusive) == exclusive || is_taken(*graph)) return CUDA_ERROR_INVALID_VALUE;
  auto exec = std::make_shared<GraphExec>();
  exec->graph = graph->clone();
  exec->source_id = graph->id;
  exec->flags = flags;
  if (!exec->freeze()) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUgraphExec>(machine().graph_execs.add(std::move(exec)));
  return CUDA_SUCCESS;
}

/// The same shape: types in order, and how many dependencies each has.
bool same_shape(const GraphExec& exec, const Graph& graph, const GraphNode** differs) {
  *differs = nullptr;
  const auto order = graph.topological();
  if (order.size() != exec.order.size()) return false;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i]->type == exec.order[i]->type && order[i]->dependencies.size() == exec.order[i]->dependencies.size()) continue;
    *differs = order[i];
    return false;
  }
  return true;
}

CUresult update(CUgraphExec exec_handle, CUgraph handle, CUgraphExecUpdateResult& why, CUgraphNode& differs) {
  const auto exec = machine().graph_execs.find(exec_handle);
  const auto graph = find_graph(handle);
  why = CU_GRAPH_EXEC_UPDATE_ERROR, differs = nullptr;
  if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const GraphNode* node = nullptr;
  if (!same_shape(*exec, *graph, &node)) {
    why = node == nullptr ? CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED : CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    differs = handle_of(node);
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  auto fresh = graph->clone();
  GraphExec next;
  next.graph = fresh;
  if (!next.freeze()) return CUDA_ERROR_INVALID_VALUE;
  next.flags = exec->flags;
  next.source_id = exec->source_id;
  *exec = std::move(next);
  why = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  return CUDA_SUCCESS;
}

/// Allocation and free nodes in order, those of children too.
void add_memory_nodes(const std::vector<GraphNode*>& order, std::vector<const GraphNode*>& out) {
  for (const GraphNode* node : order) {
    if (node->child != nullptr && node->child->has_memory()) add_memory_nodes(node->child->topological(), out);
    if (node->block != nullptr) out.push_back(node);
  }
}

/// Memory that the graph allocates is found when the launch is called, so that a full device is that call's error and not the
/// context's end.
CUresult claim_memory(const GraphExec& exec) {
  std::vector<const GraphNode*> nodes;
  add_memory_nodes(exec.order, nodes);
  const bool frees_itself = (exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  for (const GraphNode* node : nodes) {
    if (node->type != NodeType::MemAlloc) continue;
    // "If any allocations remain unfreed (from a previous launch) … the launch will fail with CUDA_ERROR_INVALID_VALUE."
    if (node->block->out && !frees_itself) return CUDA_ERROR_INVALID_VALUE;
    if (!node->block->back()) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (const GraphNode* node : nodes) node->block->out = node->type == NodeType::MemAlloc;
  return CUDA_SUCCESS;
}

CUresult launch(CUgraphExec handle, CUstream stream_handle) {
  const auto exec = machine().graph_execs.find(handle);
  Context& context = current_context();
  const auto stream = find_stream(stream_handle, context);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->capturing.load())
    if (const CUresult refused = claim_memory(*exec); refused != CUDA_SUCCESS) return refused;
  // A launch works on the graph as it is now: an update between two launches must not reach the first.
  auto snapshot = std::make_shared<GraphExec>(*exec);
  Work work;
  work.may_run_inline = !snapshot->calls_host && snapshot->order.size() <= kInlineNodes;
  work.cost_ns = snapshot->cost_ns;
  work.run = [snapshot](Stream& on) { return snapshot->run(on); };
  // In a capture the launched graph becomes a child of the recorded one.
  GraphNode* node = nullptr;
  const CUresult result = submit(context, stream, NodeType::Graph, std::move(work), {}, nullptr, &node);
  if (node != nullptr) node->child = snapshot->graph->clone();
  return result;
}

/// The node of an executable graph that stands for a node of its source.
GraphNode* exec_node(CUgraphExec handle, CUgraphNode original, NodeType type) {
  const auto exec = machine().graph_execs.find(handle);
  if (exec != nullptr) exec->detach();
  GraphNode* node = exec != nullptr ? exec->copy_of(reinterpret_cast<GraphNode*>(original)) : nullptr;
  return node != nullptr && node->type == type ? node : nullptr;
}

/// Another child of the same shape, from the next launch on.
CUresult become_child(GraphExec& exec, GraphNode& node, CUgraph handle) {
  const auto graph = find_graph(handle);
  if (graph == nullptr || graph->has_memory()) return CUDA_ERROR_INVALID_VALUE;
  GraphExec before;
  before.graph = node.child;
  const GraphNode* differs = nullptr;
  if (!before.freeze() || !same_shape(before, *graph, &differs)) return CUDA_ERROR_INVALID_VALUE;
  node.child = graph->clone();
  exec.calls_host = false, exec.cost_ns = 0;
  return exec.freeze() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int device_of(CUcontext handle) {
  const ContextRef context = find_context(handle);
  return context != nullptr ? context->device : current_context_or_null() != nullptr ? current_context().device : -1;
}

}  // namespace
}  // namespace cuheap::sim

SIMGPU_API CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  SIMGPU_ENTER(Needs::Init);
  return instantiate(out, graph, flags);
}

SIMGPU_API CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* error, char* log, size_t bytes) {
  SIMGPU_ENTER(Needs::Init);
  if (error != nullptr) *error = nullptr;
  if (log != nullptr && bytes > 0) *log = 0;
  return instantiate(out, graph, 0);
}

SIMGPU_API CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  SIMGPU_ENTER(Needs::Init);
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = instantiate(out, graph, parameters->flags);
  parameters->hErrNode_out = nullptr;
  parameters->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

SIMGPU_API CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  SIMGPU_ENTER(Needs::Init);
  const auto exec = machine().graph_execs.find(handle);
  if (exec == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGraphExecDestroy(CUgraphExec handle) {
  SIMGPU_ENTER(Needs::Init);
  return machine().graph_execs.take(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  if (machine().graph_execs.find(exec) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return find_stream(stream, current_context()) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIMGPU_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  SIMGPU_ENTER(Needs::Context);
  return launch(exec, stream);
}

SIMGPU_API CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* differs, CUgraphExecUpdateResult* why) {
  SIMGPU_ENTER(Needs::Init);
  if (differs == nullptr || why == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return update(exec, graph, *why, *differs);
}

SIMGPU_API CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  SIMGPU_ENTER(Needs::Init);
  if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *info = {};
  return update(exec, graph, info->result, info->errorNode);
}

SIMGPU_API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode original, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  SIMGPU_ENTER(Needs::Init);
  GraphNode* node = exec_node(exec, original, NodeType::Kernel);
  if (node == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return become_kernel(*node, *parameters), CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode original, const CUDA_MEMCPY3D* copy, CUcontext context) {
  SIMGPU_ENTER(Needs::Init);
  GraphNode* node = exec_node(exec, original, NodeType::Memcpy);
  return node != nullptr && copy != nullptr ? become_copy(*node, *copy, device_of(context)) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode original, const CUDA_MEMSET_NODE_PARAMS* parameters,
                                                   CUcontext context) {
  SIMGPU_ENTER(Needs::Init);
  GraphNode* node = exec_node(exec, original, NodeType::Memset);
  return node != nullptr && parameters != nullptr ? become_memset(*node, *parameters, device_of(context)) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode original, const CUDA_HOST_NODE_PARAMS* parameters) {
  SIMGPU_ENTER(Needs::Init);
  GraphNode* node = exec_node(exec, original, NodeType::Host);
  if (node == nullptr || parameters == nullptr || parameters->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return become_host(*node, *parameters), CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode original, CUgraph child) {
  SIMGPU_ENTER(Needs::Init);
  GraphNode* node = exec_node(exec, original, NodeType::Graph);
  return node != nullptr ? become_child(*machine().graph_execs.find(exec), *node, child) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode original, CUgraphNodeParams* p) {
  SIMGPU_ENTER(Needs::Init);
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = exec_node(exec, original, static_cast<NodeType>(p->type));
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (p->type == CU_GRAPH_NODE_TYPE_GRAPH) return become_child(*machine().graph_execs.find(exec), *node, p->graph.graph);
  return become(*node, *p);
}

SIMGPU_API CUresult cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode original, unsigned int enabled) {
  SIMGPU_ENTER(Needs::Init);
  const auto exec = machine().graph_execs.find(handle);
  if (exec != nullptr) exec->detach();
  GraphNode* node = exec != nullptr ? exec->copy_of(reinterpret_cast<GraphNode*>(original)) : nullptr;
  const bool switchable = node != nullptr && (node->type == NodeType::Kernel || node->type == NodeType::Memset ||
                                              node->type == NodeType::Memcpy);
  if (!switchable) return CUDA_ERROR_INVALID_VALUE;
  node->enabled = enabled != 0;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode original, unsigned int* enabled) {
  SIMGPU_ENTER(Needs::Init);
  const auto exec = machine().graph_execs.find(handle);
  const GraphNode* node = exec != nullptr ? exec->copy_of(reinterpret_cast<GraphNode*>(original)) : nullptr;
  if (node == nullptr || enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *enabled = node->enabled ? 1 : 0;
  return CUDA_SUCCESS;
}
