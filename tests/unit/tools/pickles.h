// Pickles written by hand, so that tests can say exactly what is in them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cuheap {

/// Builds pickle bytes opcode by opcode, protocol 4.
class PickleBytes {
 public:
  explicit PickleBytes(char protocol = 4) : bytes_{'\x80', protocol} {}
  PickleBytes& op(const std::string& raw) {
    bytes_ += raw;
    return *this;
  }
  PickleBytes& text(const std::string& s) { return op(std::string("\x8c") + static_cast<char>(s.size()) + s); }
  PickleBytes& number(std::uint64_t value) {
    std::string raw("\x8a\x08", 2);
    for (int i = 0; i < 8; ++i) raw += static_cast<char>(value >> (8 * i));
    return op(raw);
  }
  PickleBytes& begin_dict() { return op("}("); }
  PickleBytes& end_dict() { return op("u"); }
  PickleBytes& begin_list() { return op("]("); }
  PickleBytes& end_list() { return op("e"); }
  std::vector<std::uint8_t> done() const {
    const std::string all = bytes_ + '.';
    return {all.begin(), all.end()};
  }

 private:
  std::string bytes_;
};

/// One entry of `device_traces`.
struct EntryText {
  std::string action;
  std::uint64_t address, size, time_us;
  std::vector<std::string> functions = {"step"};  // of its stack, innermost first
};

struct BlockText {
  std::uint64_t address, requested;
  std::string state = "active_allocated";
};

struct SegmentText {
  std::uint64_t address, size;
  bool expandable;
  std::vector<BlockText> live;
};

/// A snapshot of one device, as _dump_snapshot would write it.
inline std::vector<std::uint8_t> snapshot_bytes(const std::vector<SegmentText>& segments,
                                                const std::vector<EntryText>& entries) {
  PickleBytes p;
  p.begin_dict().text("segments").begin_list();
  for (const SegmentText& segment : segments) {
    p.begin_dict()
        .text("device")
        .number(0)
        .text("address")
        .number(segment.address)
        .text("total_size")
        .number(segment.size);
    p.text("is_expandable").op(segment.expandable ? "\x88" : "\x89").text("blocks").begin_list();
    for (const auto& [address, size, state] : segment.live) {
      p.begin_dict().text("address").number(address).text("size").number(size).text("requested_size").number(size);
      p.text("state").text(state).end_dict();
    }
    p.end_list().end_dict();
  }
  p.end_list().text("device_traces").begin_list().begin_list();
  for (const EntryText& entry : entries) {
    p.begin_dict()
        .text("action")
        .text(entry.action)
        .text(entry.action == "oom" ? "device_free" : "addr")
        .number(entry.address);
    p.text("size").number(entry.size).text("time_us").number(entry.time_us).text("frames").begin_list();
    for (const std::string& function : entry.functions) {
      p.begin_dict().text("name").text(function).text("filename").text("train.py").text("line").number(7).end_dict();
    }
    p.end_list().end_dict();
  }
  return p.end_list().end_list().end_dict().done();
}

}  // namespace cuheap
