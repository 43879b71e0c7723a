// What the pool hears of: devices, contexts, peers, captures, graphs, checkpoints, forks.
#include "shim/pool/pool.h"

#include "shim/pool/pool_messages.h"
#include "tracer/base/hook_scope.h"
#include "tracer/base/process.h"

namespace cuheap {

Pool::Device* Pool::armed(int device) {
  return is_armed(device) && !is_dead_.load(std::memory_order_relaxed) ? &devices_[device] : nullptr;
}

bool Pool::is_armed(int device) const {
  return device >= 0 && device < kMaxDevices && devices_[device].arming.load(std::memory_order_acquire) == Arming::Armed;
}

bool Pool::is_pooling(int device) const {
  return !is_off_.load() && is_armed(device);
}

template <class Visit>
void Pool::each_armed(Visit visit) {
  if (!process::is_owner() || process::is_exiting()) return;
  const HookScope scope;
  for (int i = 0; scope && i < kMaxDevices; ++i) {
    if (Device* device = armed(i); device != nullptr) visit(*device->pool);
  }
}

bool Pool::relieve(int device, std::size_t bytes) {
  if (!process::is_owner() || process::is_exiting() || shared_.captures.open()) return false;
  const HookScope scope;
  bool any = false;
  for (int i = 0; scope && i < kMaxDevices; ++i) {
    Device* each = device < 0 || device == i ? armed(i) : nullptr;
    if (each != nullptr && each->pool->relieve(bytes)) any = true;
  }
  return any;
}

std::uint64_t Pool::idle_bytes(int device) {
  const HookScope scope;
  Device* armed_device = armed(device);
  return scope && armed_device != nullptr ? armed_device->pool->idle_bytes() : 0;
}

void Pool::context_met(std::uint64_t context, std::uint32_t generation, int device, ContextLife life) {
  if (!process::is_owner() || device < 0) return;
  const HookScope scope;
  if (!scope) return;
  shared_.contexts.learn(context, generation, device, life);
  meet_device(device);
}

void Pool::context_ended(std::uint64_t context, std::uint32_t generation, bool ended) {
  if (!ended) return;
  shared_.contexts.forget(context, generation);
  each_armed([&](DevicePool& pool) { pool.context_ended(context, generation); });
}

void Pool::peer_enabled(std::uint64_t context, std::uint64_t peer_context) {
  if (!process::is_owner()) return;
  const HookScope scope;
  if (!scope) return;
  shared_.contexts.pair(context, peer_context);
  for (const std::uint64_t each : {context, peer_context}) meet_device(shared_.contexts.device_of(each));
}

// The memory stays open: a copy that the host makes all the same would be staged for plain memory.
void Pool::peer_disabled(std::uint64_t context, std::uint64_t peer_context) {
  if (!process::is_owner()) return;
  const HookScope scope;
  if (scope) shared_.contexts.unpair(context, peer_context);
}

void Pool::release_kept() {
  if (shared_.captures.open()) return;
  each_armed([](DevicePool& pool) { pool.release_kept(); });
}

void Pool::capture_begun(std::uint64_t, CUstream) { shared_.captures.begun(); }

void Pool::capture_ended(CUstream, CUgraph graph) {
  if (graph != nullptr) shared_.graphs.add(number_of(graph), Periods(shared_.captures.period()));
  shared_.captures.ended();
  release_kept();
}

std::uint64_t Pool::graph_ending(std::uint64_t graph) { return shared_.graphs.set_aside(graph); }

void Pool::graph_ended(std::uint64_t ending, std::uint64_t graph, bool ended) {
  if (ending == 0) return;
  if (!ended) return shared_.graphs.put_back(ending, graph);
  shared_.graphs.remove(ending);
  release_kept();
}

void Pool::graph_cloned(CUgraph clone, CUgraph original) { shared_.graphs.inherit(number_of(clone), number_of(original)); }

void Pool::graph_child_added(CUgraph parent, CUgraph child) { shared_.graphs.inherit(number_of(parent), number_of(child)); }

void Pool::graph_child_set(CUgraph child) { shared_.graphs.inherit_somewhere(number_of(child)); }

void Pool::graph_instantiated(CUgraphExec exec, CUgraph graph) { shared_.graphs.inherit(number_of(exec), number_of(graph)); }

// Every node has its parameters from the graph now. Launches of before are covered by the fence of what is released.
void Pool::graph_exec_updated(CUgraphExec exec, CUgraph graph) {
  shared_.graphs.replace(number_of(exec), number_of(graph));
  release_kept();
}

void Pool::graph_exec_child_set(CUgraphExec exec, CUgraph child) { shared_.graphs.inherit(number_of(exec), number_of(child)); }

void Pool::frozen(bool is_frozen) {
  if (is_frozen) {
    each_armed([](DevicePool& pool) {
      pool.settle(Waiting::All);
      pool.reclaim(~std::uint64_t{0});
    });
  }
  shared_.frozen.store(is_frozen, std::memory_order_relaxed);
}

void Pool::after_fork_in_child() {
  is_off_.store(true, std::memory_order_relaxed);
  is_dead_.store(true, std::memory_order_relaxed);
  shared_.contexts.after_fork_in_child();
  for (Device& device : devices_) {
    if (device.pool != nullptr) device.pool->after_fork_in_child();
  }
}

bool Pool::is_valid() {
  for (Device& device : devices_) {
    if (device.arming.load() == Arming::Armed && !device.pool->is_valid()) return false;
  }
  return true;
}

// ---- devices that reach each other's memory

/// Plain memory can be reached from every device by copies and fills, which the driver stages where it must. Mapped memory
/// only from devices that it was opened to: so it is opened to each one that the process works on, before it does.
void Pool::meet_device(int device) {
  if (device < 0 || device >= kMaxDevices) return;
  const std::uint64_t bit = std::uint64_t{1} << device;
  if ((opened_devices_.load(std::memory_order_acquire) & bit) != 0) return;
  met_devices_.fetch_or(bit);
  for (int i = 0; i < kMaxDevices; ++i) {
    if (i != device && armed(i) != nullptr) open_to(i, device);
  }
  opened_devices_.fetch_or(bit);
}

void Pool::open_to(int device, int from) {
  DevicePool& pool = *devices_[device].pool;
  if (can_reach(from, device)) {
    if (pool.update_access(from, true)) return;
    pool.update_access(from, false);  // half opened is worse than closed
  }
  devices_[device].is_closed.store(true, std::memory_order_relaxed);
  message::pool_peer_failed(from, device);
}

bool Pool::can_reach(int from, int device) const {
  const DriverTable& driver = *config_.driver;
  CUdevice one = 0, other = 0;
  int can = 0;
  return driver.cuDeviceGet(&one, from) == CUDA_SUCCESS && driver.cuDeviceGet(&other, device) == CUDA_SUCCESS &&
         driver.cuDeviceCanAccessPeer(&can, one, other) == CUDA_SUCCESS && can != 0;
}

/// The other devices that the process works on and that can reach this one: its self-test tries them, too.
std::uint64_t Pool::accessors_of(int device) const {
  std::uint64_t mask = met_devices_.load() & ~(std::uint64_t{1} << device);
  for (int from = 0; from < kMaxDevices; ++from) {
    if ((mask >> from & 1) != 0 && !can_reach(from, device)) mask &= ~(std::uint64_t{1} << from);
  }
  return mask;
}

}  // namespace cuheap
