// The C calls of annotate.h. A program may name phases long before it initialises CUDA, so names are kept in a table of
// our own and get their trace ids when there is a trace.
#include "shim/annotate.h"

#include <atomic>
#include <cstring>

#include "shim/hooks/accounting.h"
#include "shim/hooks/phases.h"
#include "tracer/base/keep_errno.h"
#include "tracer/base/spin_lock.h"

namespace cuheap {
namespace {

constexpr std::size_t kPhaseNames = 1024;      // different names in a process; further ones count as "other phases"
constexpr std::size_t kNameBytes = 64 * 1024;  // of all of them
constexpr std::size_t kDepth = 16;             // nested phases a thread; deeper ones are counted, not named
using PhaseIndex = std::uint16_t;              // into the table; 0: none

struct PhaseName {
  std::uint32_t offset;
  std::uint32_t size;
  std::atomic<NameId> id;  // 0 until there is a trace
};

struct PhaseTable {
  SpinLock lock;
  std::uint32_t count = 1;
  std::uint32_t used_bytes = 0;
  PhaseName names[kPhaseNames];
  char text[kNameBytes];
};
constinit PhaseTable table{};
constinit std::atomic<PhaseIndex> process_phase{0};
// Opened before the recording began and not closed since, in order: publish_phases tells the trace.
constinit std::atomic<std::uint32_t> early_depth{0};
constinit PhaseIndex early[kDepth];

struct ThreadPhases {
  PhaseIndex open[kDepth];
  std::uint16_t depth;
};
constinit thread_local ThreadPhases mine __attribute__((tls_model("initial-exec"))) = {{}, 0};

/// The table's entry for the name, new or old; 0 if the table is full.
PhaseIndex intern(const HookScope&, const char* text) {
  const std::size_t size = strnlen(text, 1024);
  const SpinGuard guard(table.lock);
  if (!guard) return 0;
  for (std::uint32_t i = 1; i < table.count; ++i) {
    const PhaseName& name = table.names[i];
    if (name.size == size && std::memcmp(table.text + name.offset, text, size) == 0) return static_cast<PhaseIndex>(i);
  }
  if (table.count == kPhaseNames || table.used_bytes + size > kNameBytes) return 0;
  PhaseName& name = table.names[table.count];
  name.offset = table.used_bytes;
  name.size = static_cast<std::uint32_t>(size);
  std::memcpy(table.text + name.offset, text, size);
  table.used_bytes += name.size;
  return static_cast<PhaseIndex>(table.count++);
}

PhaseId id_of(const HookScope& scope, PhaseIndex index) {
  PhaseName& name = table.names[index];
  NameId id = name.id.load(std::memory_order_acquire);
  if (id == 0 && index != 0 && is_recording()) {
    id = recorder().define_name(scope, table.text + name.offset, name.size);
    name.id.store(id, std::memory_order_release);
  }
  return id;
}

void record_phase(const HookScope& scope, EventKind kind, PhaseIndex index) {
  Event event;
  event.kind = kind;
  event.phase = id_of(scope, index);
  if (event.phase != 0) recorder().record(event);
}

PhaseIndex innermost() {
  const std::uint16_t depth = mine.depth;
  return depth == 0 ? PhaseIndex{0} : mine.open[(depth <= kDepth ? depth : kDepth) - 1];
}

void remember_early(PhaseIndex index) {
  const std::uint32_t depth = early_depth.load(std::memory_order_relaxed);
  if (depth < kDepth) early[depth] = index;
  early_depth.store(depth + 1, std::memory_order_relaxed);
}

void forget_early() {
  const std::uint32_t depth = early_depth.load(std::memory_order_relaxed);
  if (depth != 0) early_depth.store(depth - 1, std::memory_order_relaxed);
}

}  // namespace

PhaseId current_phase() {
  const PhaseIndex own = innermost();
  const PhaseIndex index = own != 0 ? own : process_phase.load(std::memory_order_relaxed);
  return table.names[index].id.load(std::memory_order_relaxed);
}

void publish_phases(const HookScope& scope) {
  const std::uint32_t depth = early_depth.exchange(0, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < depth && i < kDepth; ++i) record_phase(scope, EventKind::PhaseBegin, early[i]);
}

}  // namespace cuheap

using namespace cuheap;

CUHEAP_EXPORT void cuheap_phase_begin(const char* name) {
  if (name == nullptr) return;
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) return;
  const PhaseIndex index = intern(scope, name);
  if (mine.depth < kDepth) mine.open[mine.depth] = index;
  ++mine.depth;
  process_phase.store(index, std::memory_order_relaxed);
  if (is_recording()) record_phase(scope, EventKind::PhaseBegin, index);
  else remember_early(index);
}

CUHEAP_EXPORT void cuheap_phase_end() {
  const KeepErrno keep;
  const HookScope scope;
  if (!scope || mine.depth == 0) return;
  const PhaseIndex index = innermost();
  --mine.depth;
  process_phase.store(innermost(), std::memory_order_relaxed);
  if (is_recording()) record_phase(scope, EventKind::PhaseEnd, index);
  else forget_early();
}

CUHEAP_EXPORT void cuheap_mark(const char* name) {
  if (name == nullptr || !is_recording()) return;
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) return;
  Event event;
  event.kind = EventKind::Mark;
  event.phase = current_phase();
  event.extra0 = recorder().define_name(scope, name, strnlen(name, kMaxStringBytes));
  recorder().record(event);
}

CUHEAP_EXPORT const char* cuheap_version() { return CUHEAP_VERSION; }
CUHEAP_EXPORT int cuheap_is_recording() { return is_recording() ? 1 : 0; }
