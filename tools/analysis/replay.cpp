#include "tools/analysis/replay.h"

namespace cuheap {

void replay(const Trace& trace, LiveSet& set, std::initializer_list<LiveSetObserver*> observers, Moment until) {
  for (LiveSetObserver* observer : observers) set.observe(*observer);
  if (trace.events == nullptr) return;
  trace.events->for_each([&](std::span<const Event> batch) {
    for (const Event& event : batch) {
      if (set.events() >= until.events) return;
      set.apply(event);
    }
  });
}

void PeakFinder::after(const Event& event, const LiveSet& set) {
  switch (event.kind) {
    case EventKind::Allocate: case EventKind::FreeFailed: case EventKind::Resize: case EventKind::Totals: break;
    default: return;  // cannot rise
  }
  std::array<std::uint64_t, 3> now{};
  for (const DeviceState& row : set.devices()) {
    if (!selection_.takes(row.device)) continue;
    now[0] += peak_floor_ == Floor::None ? row[Floor::Physical].held : row[peak_floor_].live;
    now[1] += row[Floor::Framework].live;
    now[2] += row[Floor::Allocation].live;
  }
  // Totals belong to the event before them: take them into the same moment.
  const bool same = event.kind == EventKind::Totals && set.events() == moment_.events + 1 && now == best_;
  if (now <= best_ && !same) return;
  best_ = now;
  moment_ = {event.time_ns, set.events()};
}

Moment resolve(const Trace& trace, const When& when, const Selection& selection) {
  if (when.kind == When::Kind::End) return {trace.end_ns, kEndOfTrace.events};
  if (when.kind == When::Kind::Found) return when.found;
  if (when.kind == When::Kind::Peak) {
    LiveSet set;
    PeakFinder finder(selection, when.peak_floor);
    replay(trace, set, {&finder});
    return finder.moment();
  }
  Moment moment{when.time_ns, 0};
  if (trace.events == nullptr) return moment;
  std::uint64_t count = 0;
  trace.events->for_each([&](std::span<const Event> batch) {
    for (const Event& event : batch) {
      ++count;
      if (event.time_ns <= when.time_ns) moment.events = count;
    }
  });
  return moment;
}

}  // namespace cuheap
