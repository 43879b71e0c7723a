// The framework floor. PyTorch's allocator reports every tensor allocation, free and out-of-memory by two functions of
// libc10, through the PLT, whoever listens. Defined here they come to us first; then they go on to libc10, so that torch's
// own profiler misses nothing. They are called under the allocator's mutex: no loader call, no GIL, no lock that is ever
// held across a call into torch or the driver. Two mangled names each, for totals of type size_t (2.0 and later) and
// int64_t (1.10 - 1.13); the arguments travel alike.
#include <atomic>

#include "shim/annotate.h"
#include "shim/driver/elf_symbols.h"
#include "shim/hooks/accounting.h"
#include "shim/hooks/phases.h"
#include "tracer/base/keep_errno.h"

namespace cuheap {

/// c10::Device: two signed bytes. Only its layout is relied upon.
struct TorchDevice {
  signed char type;
  signed char index;
};

namespace {

constexpr signed char kTorchCuda = 1;
constexpr std::size_t kDevices = 128;
constexpr unsigned kOwnFrames = 2;

constinit std::atomic<std::uint64_t> last_reserved[kDevices];

/// The real function behind one of our exports: found by reading symbol tables, looked for again only after something was
/// loaded (Python loads libc10 long after us, and locally).
class RealFunction {
 public:
  constexpr explicit RealFunction(const char* name) : name_(name) {}

  template <typename F>
  F* get() {
    void* function = function_.load(std::memory_order_acquire);
    if (function == nullptr) function = look();
    return reinterpret_cast<F*>(function);
  }

 private:
  void* look() {
    const std::uint64_t generation = loads_and_unloads();
    if (generation == looked_at_.load(std::memory_order_relaxed)) return nullptr;
    void* const function = find_symbol(name_, this);
    if (function != nullptr) function_.store(function, std::memory_order_release);
    looked_at_.store(generation, std::memory_order_relaxed);
    return function;
  }

  const char* name_;
  std::atomic<void*> function_{nullptr};
  std::atomic<std::uint64_t> looked_at_{0};
};

Event framework_event(EventKind kind, int device) {
  Event event;
  event.kind = kind;
  event.floor = Floor::Framework;
  event.family = Family::Tensor;
  event.device = static_cast<std::int16_t>(device);
  event.phase = current_phase();
  return event;
}

void record_totals(int device, std::uint64_t allocated, std::uint64_t reserved) {
  if (device < 0 || static_cast<std::size_t>(device) >= kDevices) return;
  if (last_reserved[device].exchange(reserved, std::memory_order_relaxed) == reserved) return;
  Event totals = framework_event(EventKind::Totals, device);
  totals.family = Family::None;
  totals.extra0 = allocated;
  totals.extra1 = reserved;
  recorder().record(totals);
}

__attribute__((noinline)) void account_usage(const void* address, std::int64_t size, std::uint64_t allocated,
                                             std::uint64_t reserved, TorchDevice device) {
  if (device.type != kTorchCuda || size == 0 || !is_recording()) return;
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) return recorder().count_loss(LossReason::Reentered);
  Event event = framework_event(size > 0 ? EventKind::Allocate : EventKind::Free, device.index);
  event.address = reinterpret_cast<std::uint64_t>(address);
  if (size > 0) {
    event.size = static_cast<std::uint64_t>(size);
    event.site = recorder().capture_site(scope, kOwnFrames).id;
    if (capture_view().open) event.flags |= kEventCapturing;
  }
  recorder().record(event);
  record_totals(device.index, allocated, reserved);
}

__attribute__((noinline)) void account_out_of_memory(std::int64_t size, std::uint64_t allocated, std::uint64_t reserved,
                                                     TorchDevice device) {
  if (device.type != kTorchCuda || !is_recording()) return;
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) return recorder().count_loss(LossReason::Reentered);
  Event event = framework_event(EventKind::OutOfMemory, device.index);
  event.size = static_cast<std::uint64_t>(size);
  event.extra0 = allocated;
  event.extra1 = reserved;
  event.site = recorder().capture_site(scope, kOwnFrames).id;
  recorder().record(event);
}

using UsageFunction = void(void*, std::int64_t, std::uint64_t, std::uint64_t, TorchDevice);
using OutOfMemoryFunction = void(std::int64_t, std::uint64_t, std::uint64_t, TorchDevice);

#define CUHEAP_USAGE "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define CUHEAP_USAGE_1X "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE"
#define CUHEAP_OOM "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"
#define CUHEAP_OOM_1X "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE"

constinit RealFunction real_usage(CUHEAP_USAGE), real_usage_1x(CUHEAP_USAGE_1X);
constinit RealFunction real_oom(CUHEAP_OOM), real_oom_1x(CUHEAP_OOM_1X);

__attribute__((always_inline)) inline void usage(RealFunction& real, void* address, std::int64_t size, std::uint64_t allocated,
                                                 std::uint64_t reserved, TorchDevice device) {
  account_usage(address, size, allocated, reserved, device);
  if (UsageFunction* const forward = real.get<UsageFunction>()) forward(address, size, allocated, reserved, device);
}

__attribute__((always_inline)) inline void out_of_memory(RealFunction& real, std::int64_t size, std::uint64_t allocated,
                                                         std::uint64_t reserved, TorchDevice device) {
  account_out_of_memory(size, allocated, reserved, device);
  if (OutOfMemoryFunction* const forward = real.get<OutOfMemoryFunction>()) forward(size, allocated, reserved, device);
}

}  // namespace

// The exported names are given by asm labels; the C++ names are ours.
#define CUHEAP_EXPORT_AS(name) __asm__(name) __attribute__((visibility("default"), used))
extern "C" {
void torch_usage(void*, std::int64_t, std::uint64_t, std::uint64_t, TorchDevice) CUHEAP_EXPORT_AS(CUHEAP_USAGE);
void torch_usage_1x(void*, std::int64_t, std::uint64_t, std::uint64_t, TorchDevice) CUHEAP_EXPORT_AS(CUHEAP_USAGE_1X);
void torch_out_of_memory(std::int64_t, std::uint64_t, std::uint64_t, TorchDevice) CUHEAP_EXPORT_AS(CUHEAP_OOM);
void torch_out_of_memory_1x(std::int64_t, std::uint64_t, std::uint64_t, TorchDevice) CUHEAP_EXPORT_AS(CUHEAP_OOM_1X);
}

void torch_usage(void* address, std::int64_t size, std::uint64_t allocated, std::uint64_t reserved, TorchDevice device) {
  usage(real_usage, address, size, allocated, reserved, device);
}

void torch_usage_1x(void* address, std::int64_t size, std::uint64_t allocated, std::uint64_t reserved, TorchDevice device) {
  usage(real_usage_1x, address, size, allocated, reserved, device);
}

void torch_out_of_memory(std::int64_t size, std::uint64_t allocated, std::uint64_t reserved, TorchDevice device) {
  out_of_memory(real_oom, size, allocated, reserved, device);
}

void torch_out_of_memory_1x(std::int64_t size, std::uint64_t allocated, std::uint64_t reserved, TorchDevice device) {
  out_of_memory(real_oom_1x, size, allocated, reserved, device);
}

}  // namespace cuheap

using namespace cuheap;

// Allocators that report through annotate.h. They keep no totals for us: what they hold is what they took below.
CUHEAP_EXPORT void cuheap_block_alloc(const void* block, unsigned long bytes, int device) {
  if (block == nullptr || bytes == 0 || !is_recording()) return;
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) return recorder().count_loss(LossReason::Reentered);
  Event event = framework_event(EventKind::Allocate, device);
  event.address = reinterpret_cast<std::uint64_t>(block);
  event.size = bytes;
  event.site = recorder().capture_site(scope, 1).id;
  recorder().record(event);
}

CUHEAP_EXPORT void cuheap_block_free(const void* block, int device) {
  if (block == nullptr || !is_recording()) return;
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) return recorder().count_loss(LossReason::Reentered);
  Event event = framework_event(EventKind::Free, device);
  event.address = reinterpret_cast<std::uint64_t>(block);
  recorder().record(event);
}
