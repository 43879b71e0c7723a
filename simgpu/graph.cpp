#include "simgpu/graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "simgpu/machine.h"

namespace cuheap::sim {
namespace {

std::atomic<uint64_t> next_graph_id{1};

/// What the blocks of one device hold together.
struct Totals {
  std::atomic<uint64_t> used{0}, reserved{0}, used_high{0}, reserved_high{0};
};

struct BlockList {
  std::mutex lock;
  std::vector<std::weak_ptr<GraphBlock>> blocks;
  Totals totals[kMaxDevices];
};

BlockList& block_list() {
  static auto& only = *new BlockList;
  return only;
}

void count(std::atomic<uint64_t>& now, std::atomic<uint64_t>& high, int64_t difference) {
  const uint64_t value = now.fetch_add(static_cast<uint64_t>(difference)) + static_cast<uint64_t>(difference);
  uint64_t seen = high.load();
  while (difference > 0 && seen < value && !high.compare_exchange_weak(seen, value)) {
  }
}

std::vector<std::shared_ptr<GraphBlock>> live_blocks(int device) {
  BlockList& list = block_list();
  std::lock_guard guard(list.lock);
  std::vector<std::shared_ptr<GraphBlock>> result;
  list.blocks.erase(std::remove_if(list.blocks.begin(), list.blocks.end(), [](const auto& b) { return b.expired(); }),
                    list.blocks.end());
  for (const auto& weak : list.blocks)
    if (auto block = weak.lock(); block != nullptr && block->device == device) result.push_back(block);
  return result;
}

}  // namespace

// Memory of graphs ----------------------------------------------------------------------------------------------------

std::shared_ptr<GraphBlock> new_graph_block(int device, uint64_t bytes) {
  auto block = std::make_shared<GraphBlock>();
  block->bytes = round_up(bytes, kGranule);
  block->device = device;
  block->address = machine().memory.reserve(block->bytes, kGranule, 0);
  if (block->address == 0) return nullptr;
  machine().allocations.add({.base = block->address, .size = bytes, .kind = Kind::Graph, .device = device});
  BlockList& list = block_list();
  std::lock_guard guard(list.lock);
  list.blocks.push_back(block);
  return block;
}

std::shared_ptr<GraphBlock> find_graph_block(uint64_t address) {
  BlockList& list = block_list();
  std::lock_guard guard(list.lock);
  for (const auto& weak : list.blocks)
    if (auto block = weak.lock(); block != nullptr && block->address == address) return block;
  return nullptr;
}

GraphBlock::~GraphBlock() {
  if (address == 0) return;
  die();
  trim();
  machine().allocations.take(address);
  machine().memory.unmap(address, bytes);
  machine().memory.unreserve(address, bytes);
}

bool GraphBlock::back() {
  std::lock_guard guard(lock);
  if (physical != nullptr) return true;
  physical = machine().memory.new_physical(device, bytes);
  if (physical == nullptr) return false;
  machine().memory.map(address, *physical, 0, bytes, kAccessAll);
  count(block_list().totals[device].reserved, block_list().totals[device].reserved_high, static_cast<int64_t>(bytes));
  return true;
}

Io GraphBlock::go_live() {
  if (!back()) return Io::OutOfHostMemory;
  std::lock_guard guard(lock);
  if (!live) count(block_list().totals[device].used, block_list().totals[device].used_high, static_cast<int64_t>(bytes));
  live = true;
  self = shared_from_this();
  return Io::Ok;
}

void GraphBlock::die() {
  std::shared_ptr<GraphBlock> last;  // perhaps the last holder: it goes after the lock
  std::lock_guard guard(lock);
  last = std::move(self);
  if (live) count(block_list().totals[device].used, block_list().totals[device].used_high, -static_cast<int64_t>(bytes));
  live = false;
}

bool GraphBlock::trim() {
  std::lock_guard guard(lock);
  if (live || physical == nullptr) return false;
  machine().memory.unmap(address, bytes);
  physical.reset();
  count(block_list().totals[device].reserved, block_list().totals[device].reserved_high, -static_cast<int64_t>(bytes));
  return true;
}

GraphMemoryUse graph_memory_use(int device) {
  const Totals& totals = block_list().totals[device];
  return {totals.used, totals.reserved, totals.used_high, totals.reserved_high};
}

void reset_graph_memory_high(int device, bool used) {
  Totals& totals = block_list().totals[device];
  if (used) totals.used_high = totals.used.load();
  else totals.reserved_high = totals.reserved.load();
}

void trim_graph_memory(int device) {
  for (const auto& block : live_blocks(device)) block->trim();
}

// Graphs --------------------------------------------------------------------------------------------------------------

Graph::~Graph() {
  for (const auto& let_go : on_destroy) let_go();
}

GraphNode* Graph::add(NodeType type, std::vector<GraphNode*> dependencies) {
  if (id == 0) id = next_graph_id++;
  auto node = std::make_unique<GraphNode>();
  node->type = type;
  node->graph = this;
  node->dependencies = std::move(dependencies);
  index_.insert(node.get());
  nodes.push_back(std::move(node));
  return nodes.back().get();
}

bool Graph::contains(const GraphNode* node) const { return index_.contains(node); }

bool Graph::remove(GraphNode* node) {
  const auto at = std::find_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n.get() == node; });
  if (at == nodes.end()) return false;
  for (auto& other : nodes) std::erase(other->dependencies, node);
  index_.erase(node);
  nodes.erase(at);
  return true;
}

std::shared_ptr<Graph> Graph::clone() const {
  auto copy = std::make_shared<Graph>();
  copy->id = next_graph_id++;
  std::unordered_map<const GraphNode*, GraphNode*> map;
  for (const auto& node : nodes) {
    auto twin = std::make_unique<GraphNode>(*node);
    twin->graph = copy.get();
    twin->original = node.get();
    if (node->child != nullptr) twin->child = node->child->clone();
    map[node.get()] = twin.get();
    copy->index_.insert(twin.get());
    copy->nodes.push_back(std::move(twin));
  }
  for (auto& node : copy->nodes)
    for (auto& dependency : node->dependencies) dependency = map.at(dependency);
  return copy;
}

std::vector<GraphNode*> Graph::topological() const {
  std::vector<GraphNode*> order;
  std::unordered_map<const GraphNode*, size_t> waiting;
  std::unordered_map<const GraphNode*, std::vector<GraphNode*>> after;
  for (const auto& node : nodes) {
    waiting[node.get()] = node->dependencies.size();
    for (const GraphNode* dependency : node->dependencies) after[dependency].push_back(node.get());
    if (node->dependencies.empty()) order.push_back(node.get());
  }
  for (size_t i = 0; i < order.size(); ++i)
    for (GraphNode* next : after[order[i]])
      if (--waiting[next] == 0) order.push_back(next);
  if (order.size() != nodes.size()) order.clear();
  return order;
}

std::vector<GraphNode*> Graph::dependents(const GraphNode* node) const {
  std::vector<GraphNode*> result;
  for (const auto& other : nodes)
    if (std::find(other->dependencies.begin(), other->dependencies.end(), node) != other->dependencies.end())
      result.push_back(other.get());
  return result;
}

bool Graph::has_memory() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const auto& node) {
    return node->type == NodeType::MemAlloc || node->type == NodeType::MemFree || (node->child != nullptr && node->child->has_memory());
  });
}

bool Graph::frees(const GraphBlock& block) const {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const auto& node) { return node->type == NodeType::MemFree && node->block.get() == &block; });
}

bool GraphExec::freeze() {
  order = graph->topological();
  if (order.empty() && !graph->nodes.empty()) return false;
  for (GraphNode* node : order) {
    if (node->child != nullptr) {
      auto inner = std::make_shared<GraphExec>();
      inner->graph = node->child;
      if (!inner->freeze()) return false;
      node->calls_host = inner->calls_host;
      node->cost_ns = inner->cost_ns;
      node->run = [inner](Stream& stream) { return inner->run(stream); };
    }
    calls_host = calls_host || node->calls_host;
    cost_ns += node->cost_ns;
  }
  return true;
}

Io GraphExec::run(Stream& stream) const {
  for (const GraphNode* node : order)
    if (node->enabled && node->run)
      if (const Io result = node->run(stream); result != Io::Ok) return result;
  return Io::Ok;
}

void GraphExec::detach() {
  if (graph.use_count() == 1) return;
  auto fresh = graph->clone();
  for (auto& node : fresh->nodes) node->original = node->original->original;
  graph = std::move(fresh);
  calls_host = false;
  cost_ns = 0;
  freeze();
}

GraphNode* GraphExec::copy_of(const GraphNode* original) const {
  for (GraphNode* node : order)
    if (node->original == original) return node;
  return nullptr;
}

}  // namespace cuheap::sim
