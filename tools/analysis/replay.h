// replay: drives a LiveSet and its observers over a trace, up to a moment. Several analyses share one pass this way.
// Also what a moment is, and how "peak", "end" and a time become one.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "tools/analysis/live_set.h"
#include "tools/model/trace.h"

namespace cuheap {

/// A state of the run: after its first `events` events. Times alone are not enough: many events share one.
struct Moment {
  std::uint64_t time_ns = 0;
  std::uint64_t events = 0;
  bool operator==(const Moment&) const = default;
};
constexpr Moment kEndOfTrace{~std::uint64_t{0}, ~std::uint64_t{0}};

/// Applies the events up to `until`.
void replay(const Trace& trace, LiveSet& set, std::initializer_list<LiveSetObserver*> observers, Moment until = kEndOfTrace);

/// What a report is about. An empty field means: the floor closest to the program, all devices.
struct Selection {
  Floor floor = Floor::None;
  std::optional<std::int16_t> device;
  bool takes(std::int16_t d) const { return device ? *device == d : d != kHostDevice; }
};

/// "peak" (most held on the physical floor; with `peak_floor`, most live there), "end", a time, or a moment found before.
struct When {
  enum class Kind : std::uint8_t { Peak, End, Time, Found } kind = Kind::Peak;
  std::uint64_t time_ns = 0;              // Kind::Time, same clock as Event::time_ns
  Floor peak_floor = Floor::None;
  Moment found{};                         // Kind::Found
};

/// Finds the peak while a replay goes by. Where the physical floor stays at its maximum (caches do), the moment of most
/// live bytes on the floors above decides: the block that needed the memory is then part of the picture.
class PeakFinder : public LiveSetObserver {
 public:
  PeakFinder(Selection selection, Floor peak_floor) : selection_(selection), peak_floor_(peak_floor) {}
  void after(const Event& event, const LiveSet& set) override;
  Moment moment() const { return moment_; }
  std::uint64_t bytes() const { return best_[0]; }  // held (or live) at the peak

 private:
  Selection selection_;
  Floor peak_floor_;
  std::array<std::uint64_t, 3> best_{};
  Moment moment_;
};

/// One pass over the trace (none for the end).
Moment resolve(const Trace& trace, const When& when, const Selection& selection = {});

}  // namespace cuheap
