// Graphs: nodes with their dependencies and the work each does at every launch; executable copies in topological order;
// memory that a graph allocates, with an address fixed when the node is made and bytes that appear when it first runs.
#pragma once

#include <any>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "simgpu/memory.h"
#include "simgpu/stream.h"

namespace cuheap::sim {

class Graph;

/// Values of CUgraphNodeType.
enum class NodeType { Kernel = 0, Memcpy = 1, Memset = 2, Host = 3, Graph = 4, Empty = 5, WaitEvent = 6, EventRecord = 7,
                      SemaphoreSignal = 8, SemaphoreWait = 9, MemAlloc = 10, MemFree = 11, BatchMemOp = 12 };

/// Memory of an allocation node. Live memory outlives its graph: "graph destruction does not automatically free any live
/// graph-allocated memory"; it ends with a free node or a free call.
struct GraphBlock : std::enable_shared_from_this<GraphBlock> {
  uint64_t address = 0;
  uint64_t bytes = 0;
  int device = 0;
  std::mutex lock;
  bool live = false;      // between its allocation node and its free, as far as the streams have come
  std::atomic<bool> out{false};  // the same in the order of the calls: launched, and no free called
  PhysicalRef physical;   // stays with the graph's pool until trimmed
  std::shared_ptr<GraphBlock> self;  // while live
  ~GraphBlock();
  /// Bytes behind the address; false: the device is full.
  bool back();
  Io go_live();
  void die();
  bool trim();
};

struct GraphNode {
  NodeType type = NodeType::Empty;
  Graph* graph = nullptr;
  std::vector<GraphNode*> dependencies;
  std::function<Io(Stream&)> run;
  bool calls_host = false;
  bool enabled = true;
  uint64_t cost_ns = 0;
  std::any parameters;                     // the CUDA struct it was made with, for the GetParams calls
  std::shared_ptr<Graph> child;
  std::shared_ptr<GraphBlock> block;       // allocation and free nodes
  const GraphNode* original = nullptr;     // in a clone: the node it was copied from
  GraphNode() = default;
  GraphNode(const GraphNode&) = default;
};

class Graph {
 public:
  GraphNode* add(NodeType type, std::vector<GraphNode*> dependencies);
  /// Also out of everybody's dependencies.
  bool remove(GraphNode* node);
  [[nodiscard]] bool contains(const GraphNode* node) const;
  [[nodiscard]] std::shared_ptr<Graph> clone() const;
  /// Empty if there is a cycle and there are nodes.
  [[nodiscard]] std::vector<GraphNode*> topological() const;
  [[nodiscard]] std::vector<GraphNode*> dependents(const GraphNode* node) const;
  /// Allocation or free nodes, also in children: such a graph is neither copied nor cut.
  [[nodiscard]] bool has_memory() const;
  [[nodiscard]] bool frees(const GraphBlock& block) const;
  ~Graph();

  std::vector<std::unique_ptr<GraphNode>> nodes;     // change only through add and remove
  std::vector<std::function<void()>> on_destroy;   // user objects let go
  uint64_t id = 0;

 private:
  std::unordered_set<const GraphNode*> index_;
};

/// A frozen copy, and how to run it.
struct GraphExec {
  std::shared_ptr<Graph> graph;            // the copy
  std::vector<GraphNode*> order;
  uint64_t source_id = 0;                  // of the graph it was made from
  uint64_t flags = 0;
  bool calls_host = false;
  uint64_t cost_ns = 0;
  bool freeze();
  Io run(Stream& stream) const;
  GraphNode* copy_of(const GraphNode* original) const;
  /// Before a node is changed: launches under way keep the nodes they began with.
  void detach();
};

/// All blocks of a device, for the graph memory attributes and the trim call.
struct GraphMemoryUse {
  uint64_t used;
  uint64_t reserved;
  uint64_t used_high;
  uint64_t reserved_high;
};
GraphMemoryUse graph_memory_use(int device);
void reset_graph_memory_high(int device, bool used);
void trim_graph_memory(int device);
std::shared_ptr<GraphBlock> new_graph_block(int device, uint64_t bytes);
std::shared_ptr<GraphBlock> find_graph_block(uint64_t address);

}  // namespace cuheap::sim
