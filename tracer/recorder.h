// The front door of the scribe: start, capture a site, record, stop. One recorder a process, in static storage, without
// constructor or destructor. The shim calls it; it knows nothing of CUDA and nothing of LD_PRELOAD.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tracer/base/hook_scope.h"
#include "tracer/event_sink.h"
#include "tracer/format/codec.h"
#include "tracer/format/event.h"

namespace cuheap {

/// A site captured before the real call, and what the call stack decides.
struct CapturedSite {
  SiteId id = 0;               // 0: stacks are off, or nothing could be unwound
  std::uint32_t bits = 0;      // memoised per site by the module patterns given to start(); bit i: pattern i is on the stack
  std::uint32_t depth = 0;     // frames of the stack
  std::uint32_t reused = 0;    // outer frames that did not have to be unwound again
};

struct RecorderStart {
  const char* directory;        // run directory; exists or can be made
  bool native_stacks;           // CUHEAP_STACKS
  /// Module name patterns (substring of the file name); a site whose stack passes through a matching module carries the
  /// pattern's bit in CapturedSite::bits. Up to 32; null ends the list.
  const char* const* module_patterns;
};

class Recorder final : public EventSink {
 public:
  /// Opens the trace file, starts the helper thread. Called once when the process proves to use CUDA, outside every hook
  /// scope and every lock; may call the loader and allocate. False: recording stays off and one line said why.
  [[nodiscard]] bool start(const RecorderStart& options);

  bool is_recording() const;

  /// The caller's stack, interned. Takes no lock that is held across a driver call and calls no loader function but
  /// dl_iterate_phdr. `skip` frames of our own are left out.
  CapturedSite capture_site(const HookScope&, unsigned skip);

  /// EventSink. `event.thread` is filled in here; a zero time is stamped here.
  void record(const Event& event) override;

  /// Definitions; each is committed before it returns, so its id may be used at once. Not for hooks' hot paths.
  NameId define_name(const HookScope&, const char* text, std::size_t size);  // interned; 0 when it cannot be kept
  void define_meta(const HookScope&, const char* key, const char* value);
  void define_device(const HookScope&, const DeviceRecord& device);

  void count_loss(LossReason reason, std::uint64_t events = 1);

  /// Orderly end: stamps end_ns and stops the helper. Also safe to skip: the file is valid without it. start() may
  /// follow again.
  void stop();

  /// Has `task` called about every `period_ns` by our helper thread, inside a HookScope, outside every lock of ours. It
  /// must return soon: no chunk is prepared meanwhile. False: too many of them.
  [[nodiscard]] bool add_helper_task(void (*task)(), std::uint64_t period_ns);

  /// The file being written; empty before start().
  const char* trace_path() const;

  /// In a fork child: recording off for good, locks reset, memory leaked on purpose, no system call that could touch the
  /// parent's file. If the parent had not started, nothing happens and the child may start() on its own.
  void after_fork_in_child();
};

/// The process's recorder.
Recorder& recorder();

/// CLOCK_MONOTONIC in nanoseconds.
std::uint64_t now_ns();

}  // namespace cuheap
