#include "shim/pool/pool.h"

#include <new>

#include "shim/pool/pool_messages.h"
#include "tracer/base/arena.h"
#include "tracer/base/hook_scope.h"
#include "tracer/base/process.h"

namespace cuheap {
namespace {

constinit Pool the_pool;

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
    void* pages = may_pool_on(ordinal) ? map_pages(sizeof(DevicePool)) : nullptr;
    if (pages != nullptr) {
      device.pool = new (pages) DevicePool;
      if (device.pool->arm(&shared_, ordinal, accessors_of(ordinal))) {
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
  if (result == Arming::Armed) {  // who was met meanwhile looked too early, and some cannot reach it
    const HookScope scope;
    for (int from = 0; scope && from < kMaxDevices; ++from) {
      if (from != ordinal && (met_devices_.load() >> from & 1) != 0) open_to(ordinal, from);
    }
  }
  return result;
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
  if (const CUresult refused = ask_stream(block, stream); refused != CUDA_SUCCESS) return refused;
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
CUresult Pool::ask_stream(const PoolBlock& block, CUstream stream) {
  if (process::is_exiting()) return CUDA_SUCCESS;
  const DriverTable& driver = *shared_.driver;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_SUCCESS;
  const CUdeviceptr own = stand_in_for(block);
  // Without one: the address means nothing to the driver, which refuses that, too.
  const CUresult answer = driver.cuMemFreeAsync(own != 0 ? own : block.address, stream);
  // Kept, not freed: a free may wait for what the host does next.
  const HookScope scope;
  if (scope && answer != CUDA_SUCCESS && own != 0) shared_.contexts.keep_stand_in(block.context, block.generation, own);
  return answer;
}

CUdeviceptr Pool::stand_in_for(const PoolBlock& block) {
  const HookScope scope;
  if (!scope) return 0;
  CUdeviceptr kept = 0;
  shared_.contexts.learn(block.context, block.generation, block.segment->device, block.life);
  if (!shared_.contexts.take_stand_in(block.context, block.generation, &kept)) return 0;
  return kept != 0 ? kept : make_stand_in(block.context);
}

/// In the context of the block that it stands for: the caller's may have ended, or there may be none.
CUdeviceptr Pool::make_stand_in(std::uint64_t context) {
  const DriverTable& driver = *shared_.driver;
  const RelaxedCapture relaxed(driver);
  CUdeviceptr address = 0;
  if (driver.cuCtxPushCurrent_v2(reinterpret_cast<CUcontext>(context)) != CUDA_SUCCESS) return 0;
  if (driver.cuMemAlloc_v2(&address, 1) != CUDA_SUCCESS) address = 0;
  CUcontext popped = nullptr;
  driver.cuCtxPopCurrent_v2(&popped);
  return address;
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

}  // namespace cuheap
