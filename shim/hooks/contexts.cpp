#include "shim/hooks/contexts.h"

#include <atomic>

#include "shim/driver/driver.h"

namespace cuheap {
namespace {

constexpr int kUnknownDevice = -2;
constexpr std::size_t kContexts = 4096;  // contexts ever seen; those beyond are not followed, so nobody sees their end
constexpr std::size_t kDevices = 128;

// The life of a context as one word, so that one load tells whether it goes on: the generation, whether that one has begun at
// all, and how many calls that may end it are under way. A new generation begins with none: what ended the one before has no
// say about it.
constexpr std::uint64_t kGeneration = std::uint64_t{1} << 32;
constexpr std::uint64_t kNotMadeYet = std::uint64_t{1} << 31;
constexpr std::uint64_t kEnding = 1;

constexpr std::uint64_t at_work(std::uint64_t word) { return word / kGeneration * kGeneration; }
constexpr std::uint32_t generation_of(std::uint64_t word) { return static_cast<std::uint32_t>(word / kGeneration); }

// Entries are never taken out, so a reader needs no lock.
struct ContextEntry {
  std::atomic<std::uint64_t> context{0};
  std::atomic<std::uint64_t> life{0};
  std::atomic<std::uint64_t> id{0};  // the driver's, of the life that was made last
  std::atomic<int> device{kUnknownDevice};
};
constinit ContextEntry contexts[kContexts];
constinit std::atomic<std::uint64_t> primaries[kDevices];

ContextEntry* entry_of(std::uint64_t context) {
  const std::size_t home = static_cast<std::size_t>((context * 0x9e3779b97f4a7c15u) >> 52);
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

CurrentContext seen(std::uint64_t context, const ContextEntry& entry, int device) {
  const std::uint64_t word = at_work(entry.life.load(std::memory_order_acquire));
  return {context, generation_of(word), device, {&entry.life, word}};
}

}  // namespace

CurrentContext current_context() {
  CUcontext current = nullptr;
  if (driver().cuCtxGetCurrent(&current) != CUDA_SUCCESS || current == nullptr) return {};
  const auto context = reinterpret_cast<std::uint64_t>(current);
  ContextEntry* const entry = entry_of(context);
  if (entry == nullptr) return {context, 0, ask_device(), {}};
  int device = entry->device.load(std::memory_order_relaxed);
  if (device == kUnknownDevice) {
    device = ask_device();
    if (device >= 0) entry->device.store(device, std::memory_order_relaxed);
  }
  return seen(context, *entry, device);
}

MadeContext context_was_made(std::uint64_t context, int device, std::uint64_t id) {
  ContextEntry* const entry = context != 0 ? entry_of(context) : nullptr;
  if (entry == nullptr) return {{context, 0, device, {}}};
  const std::uint64_t former = id != 0 ? entry->id.exchange(id, std::memory_order_acq_rel) : 0;
  const bool is_other = former != 0 && former != id;
  entry->device.store(device, std::memory_order_relaxed);
  MadeContext made;
  std::uint64_t word = entry->life.load(std::memory_order_relaxed);
  std::uint64_t next = 0;
  do {
    // Another life, and the end of the last is not decided yet: it shall not be decided over this one.
    made.has_ended_unseen = is_other && (word & kNotMadeYet) == 0;
    made.ended_generation = generation_of(word);
    next = made.has_ended_unseen ? at_work(word) + kGeneration : word & ~kNotMadeYet;
  } while (!entry->life.compare_exchange_weak(word, next, std::memory_order_acq_rel));
  made.now = seen(context, *entry, device);
  return made;
}

std::uint32_t context_is_ending(std::uint64_t context) {
  ContextEntry* const entry = context != 0 ? entry_of(context) : nullptr;
  return entry != nullptr ? generation_of(entry->life.fetch_add(kEnding, std::memory_order_acq_rel)) : 0;
}

bool context_end_is_decided(std::uint64_t context, std::uint32_t generation, bool ended) {
  ContextEntry* const entry = context != 0 ? entry_of(context) : nullptr;
  if (entry == nullptr) return ended;
  std::uint64_t word = entry->life.load(std::memory_order_relaxed);
  std::uint64_t next = 0;
  do {
    if (generation_of(word) != generation) return false;  // somebody has said so already
    next = ended ? (at_work(word) + kGeneration) | kNotMadeYet : word - kEnding;
  } while (!entry->life.compare_exchange_weak(word, next, std::memory_order_acq_rel));
  if (ended) entry->device.store(kUnknownDevice, std::memory_order_relaxed);
  return ended;
}

void context_has_answered(std::uint64_t context, const ContextLife& life) {
  ContextEntry* const entry = entry_of(context);
  std::uint64_t expected = life.at_work | kNotMadeYet;
  if (entry != nullptr) entry->life.compare_exchange_strong(expected, life.at_work, std::memory_order_acq_rel);
}

void note_primary_context(CUdevice device, CUcontext context) {
  if (device >= 0 && static_cast<std::size_t>(device) < kDevices) primaries[device].store(reinterpret_cast<std::uint64_t>(context));
}

std::uint64_t primary_context(CUdevice device) {
  return device >= 0 && static_cast<std::size_t>(device) < kDevices ? primaries[device].load() : 0;
}

}  // namespace cuheap
