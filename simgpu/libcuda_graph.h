// Handles of graphs and nodes, for the graph and capture entry points.
#pragma once

#include <algorithm>
#include <vector>

#include "simgpu/libcuda_entry.h"

namespace cuheap::sim {

std::shared_ptr<Graph> find_graph(CUgraph handle);
/// The handle of a graph; it becomes known if it was not.
CUgraph graph_handle(const std::shared_ptr<Graph>& graph);
/// A node of any known graph (also of a child graph); null: stale or foreign.
GraphNode* find_node(CUgraphNode handle);
/// False: one of them is not a node of this graph.
bool nodes_of(const Graph& graph, const CUgraphNode* handles, size_t count, std::vector<GraphNode*>& out);
/// Forgets a graph and its child graphs as handles.
void forget_graph(CUgraph handle);

inline CUgraphNode handle_of(const GraphNode* node) { return reinterpret_cast<CUgraphNode>(const_cast<GraphNode*>(node)); }

/// Gives a node the work that its parameters mean; each also stores the parameters.
void become_kernel(GraphNode& node, const CUDA_KERNEL_NODE_PARAMS& parameters);
CUresult become_copy(GraphNode& node, const CUDA_MEMCPY3D& parameters, int device);
CUresult become_memset(GraphNode& node, const CUDA_MEMSET_NODE_PARAMS& parameters, int device);
void become_host(GraphNode& node, const CUDA_HOST_NODE_PARAMS& parameters);
/// Any of the four; the node is of the parameters' type.
CUresult become(GraphNode& node, const CUgraphNodeParams& parameters);

}  // namespace cuheap::sim
