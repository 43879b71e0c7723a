#include "simgpu/machine.h"

#include <cstdlib>

#include "simgpu/array.h"
#include "simgpu/event.h"
#include "simgpu/graph.h"
#include "simgpu/module.h"
#include "simgpu/pool.h"

namespace cuheap::sim {
namespace {
constexpr const char* kDefaultDevices = "h100-80g";
}

Machine& machine() {
  static auto& only = *new Machine;
  return only;
}

bool devices_from_environment(std::vector<DeviceChoice>& out, std::string& error) {
  const char* text = std::getenv("SIMGPU_DEVICES");
  return parse_devices(text != nullptr && *text != 0 ? text : kDefaultDevices, out, error);
}

bool Machine::start(std::string& error) {
  if (!devices_from_environment(devices, error)) return false;
  if (!shared.is_open() && !shared.open(std::getenv("SIMGPU_SESSION"), devices)) {
    error = "simgpu: no shared memory for the state of the devices";
    return false;
  }
  if (!memory.open()) {
    error = "simgpu: no address space for device memory (ulimit -v)";
    return false;
  }
  return true;
}

uint64_t Machine::free_bytes(int device) {
  const uint64_t capacity = shared.capacity(device);
  const uint64_t used = shared.used(device);
  return used < capacity ? capacity - used : 0;
}

ContextRef Machine::context_by_id(uint64_t id) const {
  for (auto& context : contexts.all())
    if (context->id == id) return context;
  return nullptr;
}

}  // namespace cuheap::sim
