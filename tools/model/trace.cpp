#include "tools/model/trace.h"

#include <iterator>

namespace cuheap {
namespace {

template <std::size_t N>
const char* name_at(const char* const (&names)[N], std::size_t index) {
  return index < N ? names[index] : "unknown";
}

}  // namespace

const char* loss_reason_text(LossReason reason) {
  static const char* const kTexts[] = {
      "unknown reason",
      "no prepared chunk was at hand (the disk was slower than the events)",
      "the trace file could not grow (disk full, quota or size limit)",
      "a hook ran inside the recorder's own work",
      "the site table was full: events kept, their stacks lost",
      "the block table was full: some frees lack their size",
      "recording had been switched off",
      "unknown reason",
  };
  return name_at(kTexts, static_cast<std::size_t>(reason));
}

const char* ground_name(Ground ground) {
  static const char* const kNames[] = {"simulated", "gpu", "imported"};
  return name_at(kNames, static_cast<std::size_t>(ground));
}

const char* floor_name(Floor floor) {
  static const char* const kNames[] = {"none", "physical", "allocation", "framework"};
  return name_at(kNames, static_cast<std::size_t>(floor));
}

const char* family_name(Family family) {
  static const char* const kNames[] = {"none",       "device",       "pitch",      "managed",     "pinned",
                                       "registered", "array",        "async_pool", "graph",       "handle",
                                       "imported",   "pool_granule", "tensor",     "host_handle", "segment"};
  return name_at(kNames, static_cast<std::size_t>(family));
}

const char* event_kind_name(EventKind kind) {
  static const char* const kNames[] = {"none",        "allocate",      "free",        "free_failed", "out_of_memory",
                                       "memory_info", "totals",        "reserve",     "unreserve",   "map",
                                       "unmap",       "pool",          "phase_begin", "phase_end",   "mark",
                                       "context_end", "capture_begin", "capture_end", "resize",      "allocate_failed"};
  return name_at(kNames, static_cast<std::size_t>(kind));
}

std::uint64_t Trace::lost_events() const {
  std::uint64_t lost = 0;
  for (const Process& process : processes) {
    for (const std::uint64_t count : process.lost_events) lost += count;
  }
  return lost;
}

std::vector<std::string> Trace::loss_reasons() const {
  std::vector<std::string> lines;
  for (std::size_t reason = 0; reason < static_cast<std::size_t>(LossReason::kCount); ++reason) {
    std::uint64_t count = 0;
    for (const Process& process : processes) count += process.lost_events[reason];
    if (count != 0)
      lines.push_back(std::to_string(count) + " events: " + loss_reason_text(static_cast<LossReason>(reason)));
  }
  for (const Damage& d : damage) {
    lines.push_back(d.file + " at byte " + std::to_string(d.offset) + ": " + d.reason +
                    (d.bytes != 0 ? " (" + std::to_string(d.bytes) + " bytes unreadable)" : ""));
  }
  return lines;
}

std::vector<Frame> Trace::stack(SiteId site) const {
  std::vector<Frame> result;
  // A parent has a smaller number than its children (the reader sees to it), so this ends.
  for (; site != 0 && site < sites.size(); site = sites[site].parent) {
    const auto first = frames.begin() + sites[site].first_frame;
    result.insert(result.end(), first, first + sites[site].frame_count);
  }
  return result;
}

}  // namespace cuheap
