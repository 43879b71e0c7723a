#include "tools/report/page_annotations.h"

#include <algorithm>

namespace cuheap {
namespace {

// A server may mark every request: beyond these the page would only draw a solid band.
constexpr std::size_t kMostPhases = 20000, kMostMarks = 20000, kMostSamples = 50000;

}  // namespace

void PageAnnotations::after(const Event& event, const LiveSet&) {
  switch (event.kind) {
    case EventKind::PhaseBegin: return begin_phase(event);
    case EventKind::PhaseEnd: return end_phase(event);
    case EventKind::MemoryInfo: return add_driver_sample(event);
    case EventKind::Mark:
      if (marks_.size() >= kMostMarks) ++left_out_;
      else marks_.push_back({{"t_ns", relative(event.time_ns)}, {"name", name(static_cast<NameId>(event.extra0))}});
      return;
    default: return;
  }
}

void PageAnnotations::begin_phase(const Event& event) {
  Open phase{event.process, event.thread, event.phase, event.time_ns, 0};
  for (const Open& other : open_) phase.depth += other.process == phase.process && other.thread == phase.thread;
  open_.push_back(phase);
}

void PageAnnotations::end_phase(const Event& event) {
  for (auto phase = open_.rbegin(); phase != open_.rend(); ++phase) {
    if (phase->process != event.process || phase->thread != event.thread || phase->phase != event.phase) continue;
    add_phase(*phase, event.time_ns);
    open_.erase(std::next(phase).base());
    return;
  }
}

void PageAnnotations::add_phase(const Open& phase, std::uint64_t end_ns) {
  if (phases_.size() >= kMostPhases) {
    ++left_out_;
    return;
  }
  phases_.push_back({{"name", name(phase.phase)}, {"process", phase.process}, {"depth", phase.depth},
                     {"begin_ns", relative(phase.begin_ns)}, {"end_ns", relative(end_ns)}});
}

void PageAnnotations::finish() {
  for (const Open& phase : open_) add_phase(phase, trace_.end_ns);
  open_.clear();
}

void PageAnnotations::add_driver_sample(const Event& event) {
  if (event.extra0 < event.size || driver_times_.size() >= kMostSamples) return;
  driver_devices_.push_back(event.device);
  driver_times_.push_back(static_cast<std::int64_t>(relative(event.time_ns)));
  driver_used_.push_back(static_cast<std::int64_t>(event.extra0 - event.size));
}

PageSection PageAnnotations::driver_section() const {
  PageSection section("driver");
  section.add_delta("device", driver_devices_);
  section.add_delta("time", driver_times_);
  section.add_delta("used", driver_used_);
  return section;
}

}  // namespace cuheap
