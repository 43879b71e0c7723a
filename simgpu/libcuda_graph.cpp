// Graphs: made, asked, cloned, destroyed; dependencies; user objects; the memory of graphs.
#include "simgpu/libcuda_graph.h"

#include <cstdio>
#include <cstring>
#include <unordered_map>

using namespace cuheap::sim;

namespace cuheap::sim {

std::shared_ptr<Graph> find_graph(CUgraph handle) { return machine().graphs.find(handle); }

CUgraph graph_handle(const std::shared_ptr<Graph>& graph) { return reinterpret_cast<CUgraph>(machine().graphs.add(graph)); }

GraphNode* find_node(CUgraphNode handle) {
  auto* node = reinterpret_cast<GraphNode*>(handle);
  if (node == nullptr) return nullptr;
  for (const auto& graph : machine().graphs.all())
    if (graph->contains(node)) return node;
  return nullptr;
}

bool nodes_of(const Graph& graph, const CUgraphNode* handles, size_t count, std::vector<GraphNode*>& out) {
  for (size_t i = 0; i < count; ++i) {
    auto* node = reinterpret_cast<GraphNode*>(handles[i]);
    if (!graph.contains(node)) return false;
    out.push_back(node);
  }
  return true;
}

void forget_graph(CUgraph handle) {
  const auto graph = machine().graphs.take(handle);
  if (graph == nullptr) return;
  for (const auto& node : graph->nodes)
    if (node->child != nullptr) forget_graph(reinterpret_cast<CUgraph>(node->child.get()));
}

namespace {

/// A destructor with a count; graphs and the program hold shares.
struct UserObject {
  std::atomic<unsigned> references;
  CUhostFn destroy;
  void* data;
};

Table<UserObject>& user_objects() {
  static auto& only = *new Table<UserObject>;
  return only;
}

void release_user_object(const std::shared_ptr<UserObject>& object, unsigned count) {
  if (object->references.fetch_sub(count) != count) return;
  user_objects().take(object.get());
  object->destroy(object->data);
}

/// Copies up to *count handles out, as every listing call of the graph API does.
CUresult list(const std::vector<GraphNode*>& nodes, CUgraphNode* out, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out == nullptr) {
    *count = nodes.size();
    return CUDA_SUCCESS;
  }
  for (size_t i = 0; i < *count; ++i) out[i] = i < nodes.size() ? handle_of(nodes[i]) : nullptr;
  *count = std::min(*count, nodes.size());
  return CUDA_SUCCESS;
}

CUresult list_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  const auto graph = find_graph(handle);
  if (graph == nullptr || count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  size_t total = 0;
  for (const auto& node : graph->nodes)
    for (const GraphNode* dependency : node->dependencies) {
      if (from != nullptr && total < *count) {
        from[total] = handle_of(dependency);
        to[total] = handle_of(node.get());
        if (data != nullptr) data[total] = {};
      }
      ++total;
    }
  *count = from == nullptr ? total : std::min(*count, total);
  return CUDA_SUCCESS;
}

CUresult change_dependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count, bool add) {
  const auto graph = find_graph(handle);
  if (graph == nullptr || (count > 0 && (from == nullptr || to == nullptr))) return CUDA_ERROR_INVALID_VALUE;
  // "Dependencies cannot be removed from graphs which contain allocation or free nodes."
  if (!add && graph->has_memory()) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> before, after;
  if (!nodes_of(*graph, from, count, before) || !nodes_of(*graph, to, count, after)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    auto& list_of = after[i]->dependencies;
    const bool there = std::find(list_of.begin(), list_of.end(), before[i]) != list_of.end();
    if (there == add) return CUDA_ERROR_INVALID_VALUE;
    if (add) list_of.push_back(before[i]);
    else std::erase(list_of, before[i]);
  }
  return CUDA_SUCCESS;
}

std::vector<GraphNode*> all_nodes(const Graph& graph, bool roots_only) {
  std::vector<GraphNode*> result;
  for (const auto& node : graph.nodes)
    if (!roots_only || node->dependencies.empty()) result.push_back(node.get());
  return result;
}

void register_children(const Graph& graph) {
  for (const auto& node : graph.nodes)
    if (node->child != nullptr) graph_handle(node->child), register_children(*node->child);
}

}  // namespace
}  // namespace cuheap::sim

SIMGPU_API CUresult cuGraphCreate(CUgraph* out, unsigned int flags) {
  SIMGPU_ENTER(Needs::Init);
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = graph_handle(std::make_shared<Graph>());
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGraphDestroy(CUgraph handle) {
  SIMGPU_ENTER(Needs::Init);
  if (find_graph(handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  forget_graph(handle);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGraphClone(CUgraph* out, CUgraph handle) {
  SIMGPU_ENTER(Needs::Init);
  const auto graph = find_graph(handle);
  // "Cloning is not supported for graphs which contain memory allocation nodes, memory free nodes, or conditional nodes."
  if (out == nullptr || graph == nullptr || graph->has_memory()) return CUDA_ERROR_INVALID_VALUE;
  const auto copy = graph->clone();
  *out = graph_handle(copy);
  register_children(*copy);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph handle) {
  SIMGPU_ENTER(Needs::Init);
  const auto graph = find_graph(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& node : graph->nodes)
    if (node->original == reinterpret_cast<GraphNode*>(original)) return *out = handle_of(node.get()), CUDA_SUCCESS;
  return CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  SIMGPU_ENTER(Needs::Init);
  const auto graph = find_graph(handle);
  return graph != nullptr ? list(all_nodes(*graph, false), out, count) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  SIMGPU_ENTER(Needs::Init);
  const auto graph = find_graph(handle);
  return graph != nullptr ? list(all_nodes(*graph, true), out, count) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphGetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  SIMGPU_ENTER(Needs::Init);
  return list_edges(handle, from, to, nullptr, count);
}

SIMGPU_API CUresult cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  SIMGPU_ENTER(Needs::Init);
  return list_edges(handle, from, to, data, count);
}

SIMGPU_API CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  SIMGPU_ENTER(Needs::Init);
  const GraphNode* node = find_node(handle);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = static_cast<CUgraphNodeType>(node->type);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode* out, size_t* count) {
  SIMGPU_ENTER(Needs::Init);
  const GraphNode* node = find_node(handle);
  return node != nullptr ? list(node->dependencies, out, count) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data, size_t* count) {
  SIMGPU_ENTER(Needs::Init);
  const GraphNode* node = find_node(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = list(node->dependencies, out, count);
  if (result == CUDA_SUCCESS && data != nullptr && out != nullptr) std::memset(data, 0, *count * sizeof *data);
  return result;
}

SIMGPU_API CUresult cuGraphNodeGetDependentNodes(CUgraphNode handle, CUgraphNode* out, size_t* count) {
  SIMGPU_ENTER(Needs::Init);
  const GraphNode* node = find_node(handle);
  return node != nullptr ? list(node->graph->dependents(node), out, count) : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data, size_t* count) {
  SIMGPU_ENTER(Needs::Init);
  const GraphNode* node = find_node(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = list(node->graph->dependents(node), out, count);
  if (result == CUDA_SUCCESS && data != nullptr && out != nullptr) std::memset(data, 0, *count * sizeof *data);
  return result;
}

SIMGPU_API CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  SIMGPU_ENTER(Needs::Init);
  return change_dependencies(graph, from, to, count, true);
}

SIMGPU_API CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*,
                                              size_t count) {
  SIMGPU_ENTER(Needs::Init);
  return change_dependencies(graph, from, to, count, true);
}

SIMGPU_API CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  SIMGPU_ENTER(Needs::Init);
  return change_dependencies(graph, from, to, count, false);
}

SIMGPU_API CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*,
                                                 size_t count) {
  SIMGPU_ENTER(Needs::Init);
  return change_dependencies(graph, from, to, count, false);
}

SIMGPU_API CUresult cuGraphDestroyNode(CUgraphNode handle) {
  SIMGPU_ENTER(Needs::Init);
  GraphNode* node = find_node(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // "Nodes which belong to a graph which contains allocation or free nodes cannot be destroyed."
  if (node->graph->has_memory()) return CUDA_ERROR_INVALID_VALUE;
  if (node->child != nullptr) forget_graph(reinterpret_cast<CUgraph>(node->child.get()));
  return node->graph->remove(node) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph* out) {
  SIMGPU_ENTER(Needs::Init);
  const GraphNode* node = find_node(handle);
  if (node == nullptr || out == nullptr || node->child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = graph_handle(node->child);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned int) {
  SIMGPU_ENTER(Needs::Init);
  const auto graph = find_graph(handle);
  if (graph == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  FILE* file = std::fopen(path, "we");
  if (file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  std::fprintf(file, "digraph dot {\n");
  std::unordered_map<const GraphNode*, size_t> number;
  for (const auto& node : graph->nodes) {
    const size_t id = number.size();
    number[node.get()] = id;
    std::fprintf(file, "  n%zu [label=\"%zu type %d\"];\n", id, id, static_cast<int>(node->type));
  }
  for (const auto& node : graph->nodes)
    for (const GraphNode* dependency : node->dependencies) std::fprintf(file, "  n%zu -> n%zu;\n", number[dependency], number[node.get()]);
  std::fprintf(file, "}\n");
  return std::fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

// User objects --------------------------------------------------------------------------------------------------------

SIMGPU_API CUresult cuUserObjectCreate(CUuserObject* out, void* data, CUhostFn destroy, unsigned int count, unsigned int flags) {
  SIMGPU_ENTER(Needs::Init);
  if (out == nullptr || destroy == nullptr || count == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_shared<UserObject>();
  object->references = count, object->destroy = destroy, object->data = data;
  *out = reinterpret_cast<CUuserObject>(user_objects().add(std::move(object)));
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  SIMGPU_ENTER(Needs::Init);
  const auto object = user_objects().find(handle);
  if (object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  object->references += count;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  SIMGPU_ENTER(Needs::Init);
  const auto object = user_objects().find(handle);
  if (object == nullptr || count == 0 || count > object->references.load()) return CUDA_ERROR_INVALID_VALUE;
  release_user_object(object, count);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGraphRetainUserObject(CUgraph graph_handle_in, CUuserObject handle, unsigned int count, unsigned int flags) {
  SIMGPU_ENTER(Needs::Init);
  const auto graph = find_graph(graph_handle_in);
  const auto object = user_objects().find(handle);
  if (graph == nullptr || object == nullptr || count == 0 || flags > CU_GRAPH_USER_OBJECT_MOVE) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) object->references += count;
  graph->on_destroy.push_back([object, count] { release_user_object(object, count); });
  return CUDA_SUCCESS;
}

// Memory of graphs ----------------------------------------------------------------------------------------------------

SIMGPU_API CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  SIMGPU_ENTER(Needs::Init);
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const GraphMemoryUse use = graph_memory_use(device);
  cuuint64_t bytes = 0;
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: bytes = use.used; break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: bytes = use.used_high; break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: bytes = use.reserved; break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: bytes = use.reserved_high; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  std::memcpy(value, &bytes, sizeof bytes);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  SIMGPU_ENTER(Needs::Init);
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  cuuint64_t bytes = 1;
  if (value != nullptr) std::memcpy(&bytes, value, sizeof bytes);
  const bool high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  if (bytes != 0 || !high) return CUDA_ERROR_INVALID_VALUE;
  reset_graph_memory_high(device, attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGraphMemTrim(CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  trim_graph_memory(device);
  return CUDA_SUCCESS;
}
