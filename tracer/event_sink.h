// EventSink: all that the pool knows of the scribe. The recorder is one; tests have another that keeps a list.
#pragma once
#include "tracer/format/event.h"

namespace cuheap {

class EventSink {
 public:
  /// Takes one event. Never fails towards the caller: what cannot be kept is counted as lost. Called inside a HookScope,
  /// from any thread, never with a lock that is held across a driver call.
  virtual void record(const Event& event) = 0;

 protected:
  ~EventSink() = default;  // never deleted through this type
};

}  // namespace cuheap
