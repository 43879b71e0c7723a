// Trace: what a recording holds once read. Definitions are in memory (they are bounded by code, not by time); events
// are streamed in time order, merged over threads and processes, and never held as a whole. The reader and the
// importers make a Trace; analyses take one; nothing here knows of files.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tracer/format/event.h"

namespace cuheap {

enum class Ground : std::uint8_t { Simulated, Gpu, Imported };
enum class FrameLanguage : std::uint8_t { Python, Native };

/// One frame of a stack, named. `line` 0: unknown.
struct Frame {
  std::string function;  // demangled; "?" if it has no name
  std::string file;      // empty if unknown
  std::uint32_t line = 0;
  std::string module;  // file name of the library or program; empty for Python
  FrameLanguage language = FrameLanguage::Native;

  bool operator==(const Frame&) const = default;
};

/// A node of the site tree. Index 0 is the empty stack.
struct Site {
  SiteId parent = 0;              // 0: outermost
  std::uint32_t first_frame = 0;  // frames of this node in Trace::frames: more than one where inlining expands
  std::uint32_t frame_count = 0;  // innermost first
};

/// A device as one process sees it. Its number in the trace is the ordinal of the first process that had it: two ranks may
/// each see another GPU as their 0 (CUDA_VISIBLE_DEVICES).
struct TraceDevice {
  std::uint16_t process = 0;
  std::int16_t ordinal = 0;  // the number in the trace: that of Event::device
  std::string name;
  std::uint64_t total_bytes = 0;
  std::uint32_t major = 0, minor = 0, multiprocessors = 0;
  std::int16_t seen_as = 0;  // the ordinal in its process
  std::string uuid;          // 16 bytes; empty: unknown
};

/// Damage is data: the readable rest is always returned.
struct Damage {
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::string reason;
};

struct Process {
  std::string file;  // trace file
  std::uint32_t pid = 0;
  std::uint32_t parent_pid = 0;
  std::int32_t rank = -1;
  std::uint64_t start_ns = 0;       // CLOCK_MONOTONIC
  std::uint64_t start_wall_ns = 0;  // CLOCK_REALTIME at start_ns
  std::uint64_t end_ns = 0;         // orderly end, or the last event's time
  bool ended_orderly = false;
  std::uint64_t lost_events[static_cast<std::size_t>(LossReason::kCount)] = {};
  std::map<std::string, std::string> meta;  // command, python, torch, driver, options...: see docs/trace-format.md
};

/// Events in time order. Sites, phases and processes are numbered across the whole trace.
class EventSource {
 public:
  virtual ~EventSource() = default;
  using Sink = std::function<void(std::span<const Event>)>;
  /// Calls `sink` with consecutive batches; may be called again and starts from the beginning each time.
  virtual void for_each(const Sink& sink) const = 0;
};

struct Trace {
  std::string path;  // as the user gave it
  Ground ground = Ground::Gpu;
  std::vector<Process> processes;
  std::vector<TraceDevice> devices;
  std::vector<Site> sites;  // by SiteId
  std::vector<Frame> frames;
  std::vector<std::string> names;  // by NameId: phases and marks
  std::vector<Damage> damage;
  std::vector<std::string>
      notes;                   // what a reader of a report should know and is no loss, e.g. a library without symbols
  std::uint64_t start_ns = 0;  // first process's start
  std::uint64_t end_ns = 0;
  std::uint64_t event_count = 0;
  std::shared_ptr<const EventSource> events;

  std::uint64_t lost_events() const;
  std::vector<std::string> loss_reasons() const;  // one line a reason, damage included
  /// Frames of a stack, innermost first.
  std::vector<Frame> stack(SiteId site) const;
};

/// "no-chunk" and the like: one short word a reason, as it stands in reports.
const char* loss_reason_text(LossReason reason);
const char* ground_name(Ground ground);  // "simulated", "gpu", "imported"
const char* floor_name(Floor floor);     // "physical", "allocation", "framework"
const char* family_name(Family family);
const char* event_kind_name(EventKind kind);

}  // namespace cuheap
