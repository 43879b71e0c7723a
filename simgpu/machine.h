// The whole make-believe machine of this process: its devices, their memory, and every object a program holds a handle of.
// Built once by the first cuInit and never destroyed: threads may still run while the process exits.
#pragma once

#include <string>
#include <vector>

#include "simgpu/allocations.h"
#include "simgpu/context.h"
#include "simgpu/device_spec.h"
#include "simgpu/memory.h"
#include "simgpu/shared_state.h"
#include "simgpu/table.h"
#include "simgpu/vmm.h"

namespace cuheap::sim {

class Event;
class Pool;
class Graph;
struct GraphExec;
struct Module;
struct Function;
struct Array;

/// What one device has in this process.
struct DeviceState {
  std::mutex lock;
  ContextRef primary;
  int primary_references = 0;
  unsigned primary_flags = 0;
  std::shared_ptr<Pool> default_pool;
  std::shared_ptr<Pool> current_pool;
  std::shared_ptr<Pool> graph_pool;
};

struct Machine {
  std::vector<DeviceChoice> devices;
  SharedState shared;
  Memory memory;
  Allocations allocations;
  Vmm vmm;
  DeviceState states[kMaxDevices];
  Table<Context> contexts;
  Table<Stream> streams;
  Table<Event> events;
  Table<Pool> pools;
  Table<Graph> graphs;
  Table<GraphExec> graph_execs;
  Table<Module> modules;
  Table<Function> functions;
  Table<Array> arrays;

  /// Devices and shared state from the environment; memory of this process. Called once. False with a reason.
  bool start(std::string& error);

  [[nodiscard]] uint64_t free_bytes(int device);
  [[nodiscard]] ContextRef context_by_id(uint64_t id) const;
};

Machine& machine();

/// SIMGPU_DEVICES or the default; false with a reason.
bool devices_from_environment(std::vector<DeviceChoice>& out, std::string& error);

}  // namespace cuheap::sim
