// Pickle -> PytorchSnapshot. The schema is the union of what torch 2.0 to 2.14 writes; everything is looked up by name.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "tools/importers/pickle.h"
#include "tools/importers/pytorch_snapshot.h"
#include "tools/model/error.h"
#include "tools/reader/mapped_file.h"

namespace cuheap {
namespace {

using Snapshot = PytorchSnapshot;

class SnapshotReader {
 public:
  SnapshotReader(const Pickle& pickle, std::size_t file_bytes, Snapshot& out)
      : in_(pickle), out_(out), budget_(file_bytes) {
    out_.stacks.emplace_back();
  }

  void read() {
    const Pickle::Ref root = in_.root();
    const auto segments = in_.find(root, "segments"), traces = in_.find(root, "device_traces");
    if (!segments || in_.type(*segments) != Pickle::Type::List) {
      throw Error(
          out_.file +
          ": no PyTorch memory snapshot: it has no list `segments`; write one with torch.cuda.memory._dump_snapshot()");
    }
    for (const Pickle::Ref segment : in_.items(*segments)) read_segment(segment);
    if (traces) read_traces(*traces);
    if (const auto annotations = in_.find(root, "external_annotations")) read_annotations(*annotations);
    if (const auto settings = in_.find(root, "allocator_settings"))
      out_.settings = text(*settings, "PYTORCH_CUDA_ALLOC_CONF");
  }

 private:
  /// Values can be shared, so a small file may unfold without end; a real one has more bytes than entries.
  void spend() {
    if (budget_-- == 0) throw Error(out_.file + ": more entries than its bytes can hold: damaged or malicious");
  }

  std::uint64_t number(Pickle::Ref dict, std::string_view key, std::uint64_t otherwise = 0) const {
    const auto value = in_.find(dict, key);
    if (!value) return otherwise;
    const auto number = in_.integer(*value);
    if (number) return static_cast<std::uint64_t>(*number);
    if (in_.type(*value) == Pickle::Type::None) return otherwise;
    throw Error(
        fmt::format("{}: `{}` of an entry is no number of 64 bits: not a snapshot that PyTorch wrote", out_.file, key));
  }
  std::string text(Pickle::Ref dict, std::string_view key) const {
    const auto value = in_.find(dict, key);
    const auto string = value ? in_.string(*value) : std::nullopt;
    return string ? std::string(*string) : std::string();
  }
  std::int16_t ordinal(std::uint64_t number) const {
    if (number > 1023) throw Error(fmt::format("{}: device {}: not a snapshot that PyTorch wrote", out_.file, number));
    return static_cast<std::int16_t>(number);
  }

  std::uint32_t frame(Pickle::Ref dict) {
    const auto [at, is_new] = frames_.emplace(dict, static_cast<std::uint32_t>(out_.frames.size()));
    if (is_new) {
      Snapshot::Frame frame{text(dict, "name"), text(dict, "filename"),
                            static_cast<std::uint32_t>(number(dict, "line"))};
      if (frame.file == "??") frame.file.clear();
      if (frame.function.empty()) frame.function.assign(1, '?');
      out_.frames.push_back(std::move(frame));
    }
    return at->second;
  }

  /// Frames that PyTorch's recorder adds on top of every stack.
  bool is_recorders_own(std::uint32_t frame) const {
    const std::string& name = out_.frames[frame].function;
    return name.find("unwind::unwind") != std::string::npos ||
           name.find("CapturedTraceback::gather") != std::string::npos ||
           name.find("gather_with_cpp") != std::string::npos;
  }

  Snapshot::StackId stack(Pickle::Ref dict) {
    const auto list = in_.find(dict, "frames");
    if (!list || in_.items(*list).empty()) return 0;
    const auto [at, is_new] = stacks_.emplace(*list, static_cast<Snapshot::StackId>(out_.stacks.size()));
    if (is_new) {
      std::vector<std::uint32_t> frames;
      for (const Pickle::Ref item : in_.items(*list)) {
        const std::uint32_t index = frame(item);
        if (!frames.empty() || !is_recorders_own(index)) frames.push_back(index);
        spend();
      }
      out_.stacks.push_back(std::move(frames));
    }
    return at->second;
  }

  void read_segment(Pickle::Ref dict) {
    spend();
    Snapshot::Segment segment;
    segment.device = ordinal(number(dict, "device"));
    segment.address = number(dict, "address");
    segment.size = number(dict, "total_size");
    segment.stream = number(dict, "stream");
    segment.expandable = number(dict, "is_expandable") != 0;
    segment.stack = stack(dict);
    std::uint64_t next = segment.address;
    if (const auto blocks = in_.find(dict, "blocks")) {
      for (const Pickle::Ref block : in_.items(*blocks)) segment.blocks.push_back(read_block(block, next));
    }
    out_.segments.push_back(std::move(segment));
  }

  Snapshot::Block read_block(Pickle::Ref dict, std::uint64_t& next) {
    spend();
    Snapshot::Block block;
    block.address = number(dict, "address", next);
    block.size = number(dict, "size");
    block.requested = number(dict, "requested_size", block.size);
    const std::string state = text(dict, "state");
    if (state == "active_allocated") block.state = Snapshot::BlockState::Allocated;
    if (state.starts_with("active_") && state != "active_allocated") block.state = Snapshot::BlockState::PendingFree;
    block.stack = stack(dict);
    if (const auto history = in_.find(dict, "history"); history && !in_.items(*history).empty()) {  // torch before 2.1
      const Pickle::Ref first = in_.items(*history)[0];
      block.requested = number(first, "real_size", block.requested);
      if (block.stack == 0) block.stack = stack(first);
    }
    next = block.address + block.size;
    return block;
  }

  void read_traces(Pickle::Ref traces) {
    std::uint64_t device = 0;
    for (const Pickle::Ref trace : in_.items(traces)) {
      spend();
      for (const Pickle::Ref entry : in_.items(trace)) read_entry(entry, ordinal(device));
      ++device;
    }
    std::stable_sort(out_.entries.begin(), out_.entries.end(),
                     [](const auto& a, const auto& b) { return a.time_us < b.time_us; });
  }

  void read_entry(Pickle::Ref dict, std::int16_t device) {
    static const std::unordered_map<std::string, Snapshot::Action> kActions{
        {"alloc", Snapshot::Action::Alloc},
        {"free_requested", Snapshot::Action::FreeRequested},
        {"free_completed", Snapshot::Action::FreeCompleted},
        {"segment_alloc", Snapshot::Action::SegmentAlloc},
        {"segment_free", Snapshot::Action::SegmentFree},
        {"segment_map", Snapshot::Action::SegmentMap},
        {"segment_unmap", Snapshot::Action::SegmentUnmap},
        {"oom", Snapshot::Action::OutOfMemory}};
    spend();
    const std::string name = text(dict, "action");
    const auto action = kActions.find(name);
    if (action == kActions.end()) {
      if (name != "snapshot" && name != "annotate") ++out_.unknown_actions;
      return;
    }
    Snapshot::Entry entry;
    entry.action = action->second;
    entry.device = device;
    entry.address = number(dict, entry.action == Snapshot::Action::OutOfMemory ? "device_free" : "addr");
    entry.size = number(dict, "size");
    entry.stream = number(dict, "stream");
    // Without times (torch 2.0) the order is the clock.
    last_us_[device] = entry.time_us = std::max(number(dict, "time_us", last_us_[device] + 1), last_us_[device]);
    entry.stack = stack(dict);
    out_.entries.push_back(entry);
  }

  void read_annotations(Pickle::Ref list) {
    for (const Pickle::Ref dict : in_.items(list)) {
      spend();
      const std::string stage = text(dict, "stage");
      if (stage != "START" && stage != "END") continue;
      out_.annotations.push_back({stage == "START", number(dict, "time_us"), text(dict, "name")});
    }
    std::stable_sort(out_.annotations.begin(), out_.annotations.end(),
                     [](const auto& a, const auto& b) { return a.time_us < b.time_us; });
  }

  const Pickle& in_;
  Snapshot& out_;
  std::size_t budget_;
  std::unordered_map<Pickle::Ref, std::uint32_t> frames_;
  std::unordered_map<Pickle::Ref, Snapshot::StackId> stacks_;
  std::unordered_map<std::int16_t, std::uint64_t> last_us_;
};

}  // namespace

PytorchSnapshot read_pytorch_snapshot(const std::string& path) {
  const MappedFile file(path);
  const Pickle pickle(file.bytes(), path);
  PytorchSnapshot snapshot;
  snapshot.file = path;
  SnapshotReader(pickle, file.bytes().size(), snapshot).read();
  return snapshot;
}

}  // namespace cuheap
