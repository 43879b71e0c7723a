// TraceBuilder: a trace in memory for the tests of the analyses. Times move on by one microsecond an event unless told.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/model/trace.h"

namespace cuheap::test {

class MemoryEvents : public EventSource {
 public:
  explicit MemoryEvents(std::vector<Event> events) : events_(std::move(events)) {}
  void for_each(const Sink& sink) const override {
    // Uneven batches, as a reader gives them.
    for (std::size_t at = 0, size = 1; at < events_.size(); at += size, size = size % 1000 + 7) {
      sink(std::span<const Event>(events_).subspan(at, std::min(size, events_.size() - at)));
    }
  }

 private:
  std::vector<Event> events_;
};

class TraceBuilder {
 public:
  TraceBuilder() { trace_.sites.resize(1); trace_.names.emplace_back(); trace_.processes.resize(1); }

  /// A stack of native functions, outermost first.
  SiteId site(const std::vector<std::string>& functions) {
    SiteId parent = 0;
    for (const std::string& f : functions) {
      Frame frame;
      frame.function = f;
      frame.file = "/src/app.cpp";
      frame.line = static_cast<std::uint32_t>(10 + trace_.frames.size());
      frame.module = "app";
      parent = push(parent, frame);
    }
    return parent;
  }
  SiteId push(SiteId parent, const Frame& frame) {
    trace_.sites.push_back({parent, static_cast<std::uint32_t>(trace_.frames.size()), 1});
    trace_.frames.push_back(frame);
    return static_cast<SiteId>(trace_.sites.size() - 1);
  }
  NameId name(const std::string& text) {
    trace_.names.push_back(text);
    return static_cast<NameId>(trace_.names.size() - 1);
  }
  TraceBuilder& device(std::uint64_t total, const std::string& name = "test device") {
    const std::int16_t ordinal = static_cast<std::int16_t>(trace_.devices.size());
    trace_.devices.push_back({0, ordinal, name, total, 8, 0, 100, ordinal, ""});
    return *this;
  }

  /// Sets the clock, in nanoseconds since the start of the trace.
  TraceBuilder& at(std::uint64_t ns) { now_ = ns; return *this; }
  std::uint64_t now() const { return now_; }

  Event& event(EventKind kind, Floor floor, Family family, std::uint64_t address, std::uint64_t size = 0, SiteId site = 0) {
    Event e;
    e.time_ns = kStart + now_;
    now_ += 1000;
    e.kind = kind;
    e.floor = floor;
    e.family = family;
    e.address = address;
    e.size = size;
    e.site = site;
    e.thread = 1;
    events_.push_back(e);
    return events_.back();
  }
  Event& allocate(Floor floor, Family family, std::uint64_t address, std::uint64_t size, SiteId site = 0) {
    return event(EventKind::Allocate, floor, family, address, size, site);
  }
  Event& free(Floor floor, Family family, std::uint64_t address) { return event(EventKind::Free, floor, family, address); }

  Event& cuda_malloc(std::uint64_t address, std::uint64_t size, SiteId site = 0) {
    return allocate(Floor::Allocation, Family::Device, address, size, site);
  }
  Event& cuda_free(std::uint64_t address) { return free(Floor::Allocation, Family::Device, address); }
  Event& tensor(std::uint64_t address, std::uint64_t size, SiteId site = 0) {
    return allocate(Floor::Framework, Family::Tensor, address, size, site);
  }
  Event& tensor_free(std::uint64_t address) { return free(Floor::Framework, Family::Tensor, address); }
  Event& totals(std::uint64_t allocated, std::uint64_t reserved) {
    Event& e = event(EventKind::Totals, Floor::Framework, Family::None, 0);
    e.extra0 = allocated;
    e.extra1 = reserved;
    return e;
  }
  Event& map(std::uint64_t address, std::uint64_t size, std::uint64_t handle) {
    Event& e = event(EventKind::Map, Floor::Physical, Family::None, address, size);
    e.extra0 = handle;
    return e;
  }
  Event& mark(NameId name) {
    Event& e = event(EventKind::Mark, Floor::None, Family::None, 0);
    e.extra0 = name;
    return e;
  }
  Event& phase(EventKind kind, PhaseId phase) {
    Event& e = event(kind, Floor::None, Family::None, 0);
    e.phase = phase;
    return e;
  }

  /// The trace so far; it ends now.
  Trace build() const {
    Trace trace = trace_;
    trace.start_ns = kStart;
    trace.end_ns = kStart + now_;
    trace.event_count = events_.size();
    trace.events = std::make_shared<MemoryEvents>(events_);
    return trace;
  }

  static constexpr std::uint64_t kStart = 1'000'000'000;

 private:
  Trace trace_;
  std::vector<Event> events_;
  std::uint64_t now_ = 0;
};

}  // namespace cuheap::test
