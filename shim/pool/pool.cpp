#include "shim/pool/pool.h"

#include <new>
#include <utility>

#include "shim/pool/pool_messages.h"
#include "tracer/base/arena.h"
#include "tracer/base/hook_scope.h"
#include "tracer/base/process.h"

namespace cuheap {
namespace {

constinit Pool the_pool;

std::uint64_t number_of(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }

/// Attributes whose answer lets the asker keep hold of the physical memory beyond the block's life.
bool exposes(CUpointer_attribute attribute) {
  return attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID || attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS ||
         attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
}

/// What the driver cannot know of a pooled block: it answers for the whole reservation, or for no context.
bool answer(const PoolBlock& block, CUpointer_attribute attribute, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = reinterpret_cast<CUcontext>(block.context);
      return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = block.buffer_id;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = block.address;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(data) = block.bytes;
      return true;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      *static_cast<unsigned*>(data) = block.sync_memops ? 1 : 0;
      return true;
    default:
      return false;  // MAPPING_*, MEMORY_BLOCK_ID, ALLOWED_HANDLE_TYPES, IS_LEGACY_CUDA_IPC_CAPABLE (0): the driver knows
  }
}

}  // namespace

DeviceAllocator& start_pool(const PoolConfig& config) {
  the_pool.start(config);
  return the_pool;
}

void Pool::start(const PoolConfig& config) {
  config_ = config;
  shared_.driver = config.driver;
  shared_.sink = config.sink;
  shared_.ordered_free = config.ordered_free;
  shared_.contexts.start(*config.driver, config.has_context_events);
  is_off_.store(false, std::memory_order_release);
}

// ---- allocate

CUresult Pool::allocate(const AllocationRequest& request, CUdeviceptr* out, std::uint8_t* event_flags) {
  CUresult served = CUDA_ERROR_NOT_SUPPORTED;
  // No place to write to: the driver has an answer for that too.
  if (Device* device = out != nullptr ? device_for(request) : nullptr; device != nullptr) {
    const HookScope scope;
    if (scope) served = serve(*device, request, out);
  }
  if (served == CUDA_SUCCESS) {
    *event_flags |= kEventPooled;
    return served;
  }
  // Whatever the pool could not do, the driver decides: the host gets what it would have got without us.
  CUresult result = shared_.driver->cuMemAlloc_v2(out, request.bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && !request.caller.capture.open && relieve(request.caller.device, request.bytes)) {
    result = shared_.driver->cuMemAlloc_v2(out, request.bytes);
  }
  return result;
}

Pool::Device* Pool::device_for(const AllocationRequest& request) {
  const Caller& caller = request.caller;
  if (is_off_.load(std::memory_order_acquire) || !process::is_owner()) return nullptr;
  if (request.bytes == 0 || caller.context == 0 || caller.device < 0 || caller.device >= kMaxDevices) return nullptr;
  if (caller.life.is_over()) return nullptr;  // destroyed by another thread: the driver says so
  if ((request.site_bits & config_.step_aside_bits) != 0 || caller.capture.prohibited) return nullptr;
  if (shared_.frozen.load(std::memory_order_relaxed) || shared_.contexts.has_overflowed()) return nullptr;
  Device& device = devices_[caller.device];
  Arming arming = device.arming.load(std::memory_order_acquire);
  if (arming == Arming::Unknown && !shared_.captures.open() && !process::is_exiting()) arming = arm(caller.device);
  return arming == Arming::Armed && !device.is_closed.load(std::memory_order_relaxed) ? &device : nullptr;
}

Pool::Arming Pool::arm(int ordinal) {
  Device& device = devices_[ordinal];
  Arming unknown = Arming::Unknown;
  if (!device.arming.compare_exchange_strong(unknown, Arming::UnderWay)) return unknown;
  Arming result = Arming::Direct;
  {
    const HookScope scope;
    if (!scope) {
      device.arming.store(Arming::Unknown);  // a signal in the midst of our own work: another time
      return Arming::Unknown;
    }
    meet_device(ordinal);
    std::uint64_t accessors = 0;
    const bool may_pool = may_pool_on(ordinal) && find_accessors(ordinal, &accessors);
    void* pages = may_pool ? map_pages(sizeof(DevicePool)) : nullptr;
    if (pages != nullptr) {
      device.pool = new (pages) DevicePool;
      if (device.pool->arm(&shared_, ordinal, accessors)) {
        result = Arming::Armed;
      } else {
        message::pool_self_test_failed(ordinal);
        Event event;
        event.kind = EventKind::PoolActivity;
        event.floor = Floor::Physical;
        event.extra0 = static_cast<std::uint64_t>(PoolActivity::SelfTestFailed);
        event.device = static_cast<std::int16_t>(ordinal);
        shared_.sink->record(event);
      }
    }
  }
  device.arming.store(result, std::memory_order_seq_cst);
  if (result == Arming::Armed) {  // whoever was met meanwhile looked too early
    const HookScope scope;
    for (int from = 0; scope && from < kMaxDevices; ++from) {
      if (from != ordinal && (met_devices_.load() >> from & 1) != 0) open_to(ordinal, from);
    }
  }
  return result;
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

/// The other devices that the process works on. False: one of them cannot reach this one.
bool Pool::find_accessors(int device, std::uint64_t* mask) const {
  *mask = met_devices_.load() & ~(std::uint64_t{1} << device);
  for (int from = 0; from < kMaxDevices; ++from) {
    if ((*mask >> from & 1) == 0 || can_reach(from, device)) continue;
    message::pool_peer_failed(from, device);
    return false;
  }
  return true;
}

bool Pool::may_pool_on(int ordinal) {
  if (config_.is_forced || config_.is_simulated) return true;
  char name[256] = {};
  int version = 0;
  CUdevice handle = 0;
  const DriverTable& driver = *config_.driver;
  if (driver.cuDeviceGet(&handle, ordinal) == CUDA_SUCCESS && driver.cuDriverGetVersion(&version) == CUDA_SUCCESS &&
      driver.cuDeviceGetName(name, sizeof name - 1, handle) == CUDA_SUCCESS) {
    for (unsigned i = 0; i < kPassedPairCount; ++i) {
      const PassedPair& pair = kPassedPairs[i];
      if (version / 1000 == pair.driver_major && __builtin_strstr(name, pair.device) != nullptr) return true;
    }
  }
  message::pool_not_proved_here(name, version);
  return false;
}

CUresult Pool::serve(Device& device, const AllocationRequest& request, CUdeviceptr* out) {
  CUdeviceptr address = 0;
  const CUresult result = device.pool->allocate(request, &address);
  if (result == CUDA_SUCCESS) {
    if (config_.fill >= 0 && !request.caller.capture.open) static_cast<void>(fill(address, request.bytes));
    *out = address;
  } else if (is_sticky(result)) {
    disarm(result, request.caller.device);
  }
  // Out of memory here is not yet the host's: cuMemAlloc has the last word, and the hook records what the host is told.
  if (config_.checks) check(request.caller.device);
  return result;
}

void Pool::check(int device) {
  if (!is_armed(device) || devices_[device].pool->is_valid()) return;
  message::pool_books_wrong(device);
  disarm(CUDA_ERROR_UNKNOWN, device);
}

// Work on any stream may use the block at once, so the fill must be over before it is handed out.
CUresult Pool::fill(CUdeviceptr address, std::size_t bytes) {
  const RelaxedCapture relaxed(*shared_.driver);
  const CUresult result = shared_.driver->cuMemsetD8_v2(address, static_cast<unsigned char>(config_.fill), bytes);
  return result == CUDA_SUCCESS ? shared_.driver->cuCtxSynchronize() : result;
}

void Pool::disarm(CUresult why, int device) {
  if (is_off_.exchange(true)) return;
  message::pool_disarmed(static_cast<int>(why));
  Event event;
  event.kind = EventKind::PoolActivity;
  event.floor = Floor::Physical;
  event.extra0 = static_cast<std::uint64_t>(PoolActivity::Disarm);
  event.extra1 = static_cast<std::uint64_t>(why);
  event.device = static_cast<std::int16_t>(device);
  shared_.sink->record(event);
}

// ---- release

CUresult Pool::release(const Caller& caller, CUdeviceptr address) {
  bool handled = false;
  const CUresult result = end_block(caller, address, false, &handled);
  return handled ? result : shared_.driver->cuMemFree_v2(address);
}

CUresult Pool::release_async(const Caller& caller, CUdeviceptr address, CUstream stream) {
  PoolBlock block;
  bool is_ours = false;
  const DriverTable& driver = *shared_.driver;
  // What is no block of ours begins nowhere, and the driver says so.
  if (!find_block(address, &block, &is_ours) || block.address != address) return driver.cuMemFreeAsync(address, stream);
  if (const CUresult refused = ask_stream(caller, address, stream); refused != CUDA_SUCCESS) return refused;
  // The fence covers all that is queued in any context, so the stream's too, and nothing waits.
  CUcontext context = nullptr;
  const bool is_default = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  if (!is_default && !process::is_exiting() && driver.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS) {
    const HookScope scope;
    if (scope) shared_.contexts.learn_named(number_of(context));
  }
  bool handled = false;
  const CUresult result = end_block(caller, address, true, &handled);
  return handled ? result : driver.cuMemFreeAsync(address, stream);
}

/// Would the driver take a free of plain memory on this stream? A stream that captures, that is gone, or whose context is
/// gone is asked with a block of the driver's own: so the answer is the driver's, and so is what happens to the capture.
CUresult Pool::ask_stream(const Caller& caller, CUdeviceptr address, CUstream stream) {
  if (process::is_exiting()) return CUDA_SUCCESS;
  const DriverTable& driver = *shared_.driver;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_SUCCESS;
  StandIn own;
  {
    const PoolGuard guard(stand_in_lock_);
    std::swap(own, stand_in_);
  }
  CUresult answer = CUDA_ERROR_INVALID_VALUE;
  if (own.context == caller.context && own.generation == caller.generation) answer = driver.cuMemFreeAsync(own.address, stream);
  if (answer == CUDA_ERROR_INVALID_VALUE) {  // there is none, or none any more
    own = {0, caller.context, caller.generation};
    {
      const RelaxedCapture relaxed(driver);
      // Without a context, or without memory: the address means nothing to the driver, which refuses that, too.
      if (driver.cuMemAlloc_v2(&own.address, 1) != CUDA_SUCCESS) return driver.cuMemFreeAsync(address, stream);
    }
    answer = driver.cuMemFreeAsync(own.address, stream);
  }
  // Kept, not freed: a free may wait for what the host does next.
  const PoolGuard guard(stand_in_lock_);
  if (answer != CUDA_SUCCESS) stand_in_ = own;
  return answer;
}

CUresult Pool::end_block(const Caller& caller, CUdeviceptr address, bool ordered, bool* handled) {
  Segment* segment = address != 0 ? shared_.segments.find(address) : nullptr;
  if (segment == nullptr || is_dead_.load(std::memory_order_relaxed) || !process::is_owner()) return CUDA_SUCCESS;
  if (!ordered && caller.capture.prohibited) {
    // Let the driver refuse it, with its error and its effect on the capture; the address itself means nothing to it.
    const CUresult refused = shared_.driver->cuMemFree_v2(address);
    if (is_capture_error(refused)) {
      *handled = true;
      return refused;
    }
  }
  const HookScope scope;
  if (!scope) return CUDA_SUCCESS;
  const CUresult result = devices_[segment->device].pool->release(caller, segment, address, ordered);
  *handled = result != CUDA_ERROR_NOT_FOUND;
  if (is_sticky(result)) disarm(result, segment->device);
  if (config_.checks) check(segment->device);
  return result;
}

// ---- the truth about memory

CUresult Pool::memory_info(const Caller& caller, std::size_t* free, std::size_t* total) {
  Device* device = process::is_owner() && !process::is_exiting() ? armed(caller.device) : nullptr;
  std::uint64_t idle = 0;
  if (device != nullptr && free != nullptr && total != nullptr) {
    const HookScope scope;
    if (scope) {
      device->pool->settle(Waiting::Native);
      idle = device->pool->idle_bytes();
    }
  }
  const CUresult result = shared_.driver->cuMemGetInfo_v2(free, total);
  if (result == CUDA_SUCCESS && idle != 0) *free = *total - *free < idle ? *total : *free + idle;
  return result;
}

bool Pool::find_block(CUdeviceptr address, PoolBlock* out, bool* is_ours) {
  Segment* segment = shared_.segments.find(address);
  *is_ours = segment != nullptr && !is_dead_.load(std::memory_order_relaxed) && process::is_owner();
  if (!*is_ours) return false;
  const HookScope scope;
  if (!scope) {
    *is_ours = false;
    return false;
  }
  return devices_[segment->device].pool->find(segment, address, out);
}

template <class Change>
bool Pool::change_block(CUdeviceptr address, Change change) {
  Segment* segment = shared_.segments.find(address);
  if (segment == nullptr || !process::is_owner()) return false;
  const HookScope scope;
  return scope && devices_[segment->device].pool->change(segment, address, change);
}

bool Pool::expose_block(CUdeviceptr address) {
  return change_block(address, [](PoolBlock& block) { block.exposed = true; });
}

CUresult Pool::address_range(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) {
  PoolBlock block;
  bool is_ours = false;
  const bool found = find_block(address, &block, &is_ours);
  if (!is_ours || (base == nullptr && size == nullptr)) return shared_.driver->cuMemGetAddressRange_v2(base, size, address);
  if (!found) return CUDA_ERROR_NOT_FOUND;  // as after a native free
  if (base != nullptr) *base = block.address;
  if (size != nullptr) *size = block.bytes;
  return CUDA_SUCCESS;
}

CUresult Pool::pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  PoolBlock block;
  bool is_ours = false;
  const bool found = find_block(address, &block, &is_ours);
  if (is_ours && !found) return CUDA_ERROR_INVALID_VALUE;
  if (found && exposes(attribute)) expose_block(address);
  if (found && data != nullptr && answer(block, attribute, data)) return CUDA_SUCCESS;
  return shared_.driver->cuPointerGetAttribute(data, attribute, address);
}

CUresult Pool::pointer_attributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) {
  PoolBlock block;
  bool is_ours = false;
  const bool found = find_block(address, &block, &is_ours);
  if (is_ours && !found) {
    // The answers for a pointer that means nothing: the driver gives them for any it does not know, such as one of ours.
    return shared_.driver->cuPointerGetAttributes(count, attributes, data, number_of(&block));
  }
  const CUresult result = shared_.driver->cuPointerGetAttributes(count, attributes, data, address);
  if (result != CUDA_SUCCESS || !found) return result;
  for (unsigned i = 0; i < count; ++i) {
    if (exposes(attributes[i])) expose_block(address);
    if (data[i] != nullptr) answer(block, attributes[i], data[i]);
  }
  return result;
}

CUresult Pool::set_pointer_attribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  PoolBlock block;
  bool is_ours = false;
  const bool found = find_block(address, &block, &is_ours);
  if (!is_ours) return shared_.driver->cuPointerSetAttribute(value, attribute, address);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = shared_.driver->cuPointerSetAttribute(value, attribute, address);
  if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || value == nullptr) return result;
  // Drivers refuse it for mapped memory. Whoever asks is about to let a device of others reach the memory.
  unsigned wanted = 0;
  __builtin_memcpy(&wanted, value, sizeof wanted);
  change_block(address, [&](PoolBlock& changed) {
    changed.exposed = true;
    changed.sync_memops = wanted != 0;
  });
  if (result != CUDA_SUCCESS && wanted != 0) message::pool_sync_memops_asked();
  return CUDA_SUCCESS;
}

CUresult Pool::ipc_handle(CUipcMemHandle* handle, CUdeviceptr address) {
  if (expose_block(address)) message::pool_ipc_asked();
  return shared_.driver->cuIpcGetMemHandle(handle, address);
}

CUresult Pool::range_handle(void* handle, CUdeviceptr address, std::size_t size, CUmemRangeHandleType type,
                            unsigned long long flags) {
  expose_block(address);
  return shared_.driver->cuMemGetHandleForAddressRange(handle, address, size, type, flags);
}

CUdeviceptr Pool::unmapped(CUdeviceptr address) {
  static constinit char nobodys = 0;
  const bool is_ours = address != 0 && shared_.segments.find(address) != nullptr && process::is_owner();
  return is_ours ? number_of(&nobodys) : address;
}

// ---- what happens around it

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
  shared_.contexts.forget(context);
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

}  // namespace cuheap
