// PytorchSnapshot -> trace file. A history begins late: what was alive before it is found by undoing the history from
// the segments at its end, and written first, flagged kEventInitial.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "tools/importers/pytorch_snapshot.h"
#include "tools/importers/range_pieces.h"
#include "tools/reader/trace_file_writer.h"

namespace cuheap {
namespace {

using Snapshot = PytorchSnapshot;
using Action = Snapshot::Action;
using Place = std::pair<std::int16_t, std::uint64_t>;  // device, address

struct LiveBlock {
  std::uint64_t size = 0, stream = 0;
  Snapshot::StackId stack = 0;
};

struct State {
  std::map<Place, LiveBlock> blocks;
  std::map<std::int16_t, RangePieces> segments;
};

State end_state(const Snapshot& snapshot) {
  State state;
  for (const Snapshot::Segment& segment : snapshot.segments) {
    state.segments[segment.device].add(segment.address, segment.size);
    for (const Snapshot::Block& block : segment.blocks) {
      if (block.state != Snapshot::BlockState::Allocated) continue;
      state.blocks[{segment.device, block.address}] = {block.requested, segment.stream, block.stack};
    }
  }
  return state;
}

/// Undoes the history, last entry first.
State initial_state(const Snapshot& snapshot) {
  State state = end_state(snapshot);
  for (auto entry = snapshot.entries.rbegin(); entry != snapshot.entries.rend(); ++entry) {
    const Place place{entry->device, entry->address};
    RangePieces& segments = state.segments[entry->device];
    switch (entry->action) {
      case Action::Alloc:
        state.blocks.erase(place);
        break;
      // Who allocated a block that is freed later is not known; the stack of an entry is the freeing one.
      case Action::FreeRequested:
      case Action::FreeCompleted:
        state.blocks[place] = {entry->size, entry->stream, 0};
        break;
      case Action::SegmentAlloc:
      case Action::SegmentMap:
        segments.remove(entry->address, entry->size);
        break;
      case Action::SegmentFree:
      case Action::SegmentUnmap:
        segments.add(entry->address, entry->size);
        break;
      default:
        break;
    }
  }
  return state;
}

bool is_python(const Snapshot::Frame& frame) {
  return frame.file.ends_with(".py") || frame.file.starts_with("<") || frame.function == "<module>";
}

class SnapshotWriter {
 public:
  SnapshotWriter(const Snapshot& snapshot, const std::string& path)
      : in_(snapshot), first_ns_(first_time_ns()), out_(path, {.start_ns = first_ns_, .start_wall_ns = first_ns_}) {}

  ImportReport write() {
    define();
    write_initial();
    auto annotation = in_.annotations.begin();
    std::uint64_t now_us = 0;
    for (const Snapshot::Entry& entry : in_.entries) {
      // A phase begins before and ends after what happened in its microsecond.
      const auto due = [&] {
        return annotation->begins ? annotation->time_us <= entry.time_us : annotation->time_us < entry.time_us;
      };
      for (; annotation != in_.annotations.end() && due(); ++annotation) write_annotation(*annotation);
      now_us = entry.time_us;
      write_entry(entry);
    }
    for (; annotation != in_.annotations.end(); ++annotation) {
      now_us = std::max(now_us, annotation->time_us);
      write_annotation(*annotation);
    }
    out_.finish(std::max(now_us * 1000, first_ns_));
    report_.unknown_actions = in_.unknown_actions;
    return report_;
  }

 private:
  std::uint64_t first_time_ns() const {
    std::uint64_t first = in_.entries.empty() ? 0 : in_.entries.front().time_us;
    if (!in_.annotations.empty())
      first = in_.entries.empty() ? in_.annotations.front().time_us : std::min(first, in_.annotations.front().time_us);
    return first * 1000;
  }

  void define() {
    out_.define_meta("ground", ground_name(Ground::Imported));
    out_.define_meta("importer", "PyTorch memory snapshot");
    out_.define_meta("source", in_.file);
    if (!in_.settings.empty()) out_.define_meta("PYTORCH_CUDA_ALLOC_CONF", in_.settings);
    std::map<std::int16_t, bool> devices;
    for (const Snapshot::Segment& segment : in_.segments) devices[segment.device] = true;
    for (const Snapshot::Entry& entry : in_.entries) devices[entry.device] = true;
    for (const auto& [ordinal, seen] : devices) out_.define_device(static_cast<std::uint32_t>(ordinal), "");
    sites_.resize(in_.stacks.size());
    for (std::size_t stack = 0; stack < in_.stacks.size(); ++stack) sites_[stack] = define_stack(in_.stacks[stack]);
  }

  SiteId define_stack(const std::vector<std::uint32_t>& frames) {
    SiteId site = 0;
    for (auto index = frames.rbegin(); index != frames.rend(); ++index) {
      const Snapshot::Frame& frame = in_.frames[*index];
      const std::uint32_t code =
          out_.define_code(is_python(frame) ? Language::Python : Language::Native, frame.function, frame.file);
      site = out_.define_source_site(site, code, frame.line);
    }
    return site;
  }

  Event event(EventKind kind, Floor floor, Family family, std::int16_t device, std::uint64_t time_ns) const {
    Event e;
    e.kind = kind;
    e.floor = floor;
    e.family = family;
    e.device = device;
    e.time_ns = time_ns;
    e.phase = open_.empty() ? 0 : open_.back();
    return e;
  }
  void write_block(const Place& place, const LiveBlock& block, std::uint64_t time_ns, std::uint8_t flags = 0) {
    Event e = event(EventKind::Allocate, Floor::Framework, Family::Tensor, place.first, time_ns);
    e.address = place.second;
    e.size = block.size;
    e.stream = block.stream;
    e.site = sites_[block.stack];
    e.flags = flags;
    out_.write(e);
    live_[place] = block;
    live_bytes_[place.first] += block.size;
  }
  void write_segment(std::int16_t device, std::uint64_t address, std::uint64_t size, Snapshot::StackId stack,
                     std::uint64_t time_ns, std::uint8_t flags = 0) {
    Event e = event(EventKind::Allocate, Floor::Physical, Family::Segment, device, time_ns);
    e.address = address;
    e.size = size;
    e.site = sites_[stack];
    e.flags = flags;
    out_.write(e);
    segments_[device].add(address, size);
  }

  void write_initial() {
    const State initial = initial_state(in_);
    std::map<std::tuple<std::int16_t, std::uint64_t, std::uint64_t>, Snapshot::StackId> known;
    for (const Snapshot::Segment& s : in_.segments) known[{s.device, s.address, s.size}] = s.stack;
    for (const auto& [device, pieces] : initial.segments) {
      for (const auto& [address, size] : pieces) {
        const auto found = known.find({device, address, size});
        write_segment(device, address, size, found != known.end() ? found->second : 0, first_ns_, kEventInitial);
        ++report_.initial_segments;
      }
    }
    for (const auto& [place, block] : initial.blocks) {
      write_block(place, block, first_ns_, kEventInitial);
      ++report_.initial_blocks;
    }
  }

  void write_entry(const Snapshot::Entry& entry) {
    const std::uint64_t time_ns = entry.time_us * 1000;
    const Place place{entry.device, entry.address};
    switch (entry.action) {
      case Action::Alloc:
        pending_.erase(place);
        write_block(place, {entry.size, entry.stream, entry.stack}, time_ns);
        break;
      case Action::FreeRequested:
        write_free(entry, time_ns, true);
        break;
      case Action::FreeCompleted:
        write_free(entry, time_ns, false);
        break;
      case Action::SegmentAlloc:
      case Action::SegmentMap:
        write_segment(entry.device, entry.address, entry.size, entry.stack, time_ns);
        break;
      case Action::SegmentFree:
      case Action::SegmentUnmap:
        remove_segment(entry, time_ns);
        break;
      case Action::OutOfMemory:
        write_oom(entry, time_ns);
        break;
      case Action::Other:
        break;
    }
  }

  /// The tensor is gone when its free is requested; a file may have only the completion.
  void write_free(const Snapshot::Entry& entry, std::uint64_t time_ns, bool is_request) {
    const Place place{entry.device, entry.address};
    const auto block = live_.find(place);
    if (block == live_.end()) {
      if (is_request || !pending_.contains(place)) ++report_.unmatched_frees;
      pending_.erase(place);
      return;
    }
    if (is_request) pending_[place] = true;
    Event e = event(EventKind::Free, Floor::Framework, Family::Tensor, entry.device, time_ns);
    e.address = entry.address;
    e.stream = entry.stream;
    e.site = sites_[entry.stack];
    out_.write(e);
    live_bytes_[entry.device] -= block->second.size;
    live_.erase(block);
  }

  /// Expandable segments give back parts of what was mapped in other parts: whole pieces go, their rests come back.
  void remove_segment(const Snapshot::Entry& entry, std::uint64_t time_ns) {
    const RangePieces::Change change = segments_[entry.device].remove(entry.address, entry.size);
    if (change.removed.empty()) ++report_.unmatched_frees;
    for (const auto& [address, size] : change.removed) {
      Event e = event(EventKind::Free, Floor::Physical, Family::Segment, entry.device, time_ns);
      e.address = address;
      e.site = sites_[entry.stack];
      out_.write(e);
    }
    for (const auto& [address, size] : change.kept) {
      segments_[entry.device].remove(address, size);
      write_segment(entry.device, address, size, entry.stack, time_ns);
    }
  }

  void write_oom(const Snapshot::Entry& entry, std::uint64_t time_ns) {
    Event e = event(EventKind::OutOfMemory, Floor::Framework, Family::Tensor, entry.device, time_ns);
    e.size = entry.size;
    e.stream = entry.stream;
    e.site = sites_[entry.stack];
    e.extra0 = live_bytes_[entry.device];
    e.extra1 = segments_[entry.device].total();
    out_.write(e);
  }

  void write_annotation(const Snapshot::Annotation& annotation) {
    const NameId name = out_.define_name(annotation.name);
    const auto open = std::find(open_.rbegin(), open_.rend(), name);
    if (!annotation.begins && open == open_.rend()) return;  // it began before the history
    if (annotation.begins) {
      open_.push_back(name);
    } else {
      open_.erase(std::next(open).base());
    }
    Event e = event(annotation.begins ? EventKind::PhaseBegin : EventKind::PhaseEnd, Floor::None, Family::None, 0,
                    annotation.time_us * 1000);
    e.phase = name;
    out_.write(e);
  }

  const Snapshot& in_;
  std::uint64_t first_ns_;
  TraceFileWriter out_;
  ImportReport report_;
  std::vector<SiteId> sites_;  // by StackId
  std::map<Place, LiveBlock> live_;
  std::map<Place, bool> pending_;
  std::map<std::int16_t, RangePieces> segments_;
  std::map<std::int16_t, std::uint64_t> live_bytes_;
  std::vector<NameId> open_;  // phases, outermost first
};

}  // namespace

ImportReport write_as_trace(const PytorchSnapshot& snapshot, const std::string& path) {
  return SnapshotWriter(snapshot, path).write();
}

ImportCheck check_import(const PytorchSnapshot& snapshot, const Trace& trace) {
  std::map<Place, std::uint64_t> blocks, segments;
  trace.events->for_each([&](std::span<const Event> events) {
    for (const Event& e : events) {
      if (e.floor != Floor::Framework && e.floor != Floor::Physical) continue;
      std::map<Place, std::uint64_t>& live = e.floor == Floor::Framework ? blocks : segments;
      if (e.kind == EventKind::Allocate) live[{e.device, e.address}] = e.size;
      if (e.kind == EventKind::Free) live.erase({e.device, e.address});
    }
  });
  ImportCheck check;
  constexpr std::size_t kShown = 5;
  const auto differ = [&](std::string line) {
    if (check.differences.size() < kShown) check.differences.push_back(std::move(line));
  };
  std::map<std::int16_t, RangePieces> held, wanted;
  for (const auto& [place, size] : segments) held[place.first].add(place.second, size);
  for (const Snapshot::Segment& segment : snapshot.segments) {
    wanted[segment.device].add(segment.address, segment.size);
    ++check.segments;
    check.segment_bytes += segment.size;
    const auto found = segments.find({segment.device, segment.address});
    if (!segment.expandable && (found == segments.end() || found->second != segment.size)) {
      differ(
          fmt::format("segment {:#x} of {} bytes is not held at the end of the replay", segment.address, segment.size));
    }
    for (const Snapshot::Block& block : segment.blocks) {
      if (block.state != Snapshot::BlockState::Allocated) continue;
      ++check.blocks;
      check.block_bytes += block.requested;
      const auto live = blocks.find({segment.device, block.address});
      if (live == blocks.end() || live->second != block.requested) {
        differ(fmt::format("block {:#x} of {} bytes is not alive at the end of the replay", block.address,
                           block.requested));
      }
      if (live != blocks.end()) blocks.erase(live);
    }
  }
  for (const auto& [place, size] : blocks)
    differ(fmt::format("the replay ends with a block {:#x} of {} bytes that the snapshot has not", place.second, size));
  for (auto& [device, pieces] : wanted) {
    if (pieces.joined() != held[device].joined())
      differ(fmt::format("device {}: the replay ends with other segments than the snapshot", device));
  }
  for (auto& [device, pieces] : held) {
    if (!wanted.contains(device) && pieces.total() != 0)
      differ(fmt::format("device {}: the snapshot holds nothing there, the replay does", device));
  }
  return check;
}

}  // namespace cuheap
