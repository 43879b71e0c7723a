#include "shim/hooks/contexts.h"

#include <atomic>

#include "shim/driver/driver.h"

namespace cuheap {
namespace {

constexpr int kUnknownDevice = -2;
constexpr std::size_t kContexts = 256;  // contexts ever seen; beyond it the driver is asked each time
constexpr std::size_t kDevices = 128;

// Entries are never taken out, so a reader needs no lock.
struct ContextEntry {
  std::atomic<std::uint64_t> context{0};
  std::atomic<std::uint32_t> generation{0};
  std::atomic<int> device{kUnknownDevice};
};
constinit ContextEntry contexts[kContexts];
constinit std::atomic<std::uint64_t> primaries[kDevices];

ContextEntry* entry_of(std::uint64_t context) {
  const std::size_t home = static_cast<std::size_t>((context * 0x9e3779b97f4a7c15u) >> 56);
  for (std::size_t step = 0; step < 16; ++step) {
    ContextEntry& entry = contexts[(home + step) % kContexts];
    std::uint64_t present = entry.context.load(std::memory_order_acquire);
    if (present == 0 && entry.context.compare_exchange_strong(present, context)) return &entry;
    if (present == context) return &entry;
  }
  return nullptr;
}

int ask_device() {
  CUdevice device = -1;
  return driver().cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

}  // namespace

CurrentContext current_context() {
  CUcontext current = nullptr;
  if (driver().cuCtxGetCurrent(&current) != CUDA_SUCCESS || current == nullptr) return {};
  const auto context = reinterpret_cast<std::uint64_t>(current);
  ContextEntry* const entry = entry_of(context);
  if (entry == nullptr) return {context, 0, ask_device()};
  int device = entry->device.load(std::memory_order_relaxed);
  if (device == kUnknownDevice) {
    device = ask_device();
    if (device >= 0) entry->device.store(device, std::memory_order_relaxed);
  }
  return {context, entry->generation.load(std::memory_order_relaxed), device};
}

std::uint32_t context_generation(std::uint64_t context) {
  const ContextEntry* const entry = context != 0 ? entry_of(context) : nullptr;
  return entry != nullptr ? entry->generation.load(std::memory_order_relaxed) : 0;
}

void context_has_ended(std::uint64_t context) {
  ContextEntry* const entry = context != 0 ? entry_of(context) : nullptr;
  if (entry == nullptr) return;
  entry->device.store(kUnknownDevice, std::memory_order_relaxed);
  entry->generation.fetch_add(1, std::memory_order_relaxed);
}

void note_primary_context(CUdevice device, CUcontext context) {
  if (device >= 0 && static_cast<std::size_t>(device) < kDevices) primaries[device].store(reinterpret_cast<std::uint64_t>(context));
}

std::uint64_t primary_context(CUdevice device) {
  return device >= 0 && static_cast<std::size_t>(device) < kDevices ? primaries[device].load() : 0;
}

}  // namespace cuheap
