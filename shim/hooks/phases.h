// Phases and marks that the program names through annotate.h. Per thread; a thread that has set none counts as being in
// the phase that the process is in.
#pragma once
#include "tracer/base/hook_scope.h"
#include "tracer/format/event.h"

namespace cuheap {

/// The phase an event of this thread belongs to; 0: none.
PhaseId current_phase();

/// Recording has begun: names and opens what was opened before it.
void publish_phases(const HookScope& scope);

}  // namespace cuheap
