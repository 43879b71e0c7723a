// Records <-> bytes, both directions side by side. Stateless but for the deltas of one chunk, so every chunk decodes on
// its own. No allocation, no file, no clock: the same code runs in the host and offline.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracer/format/event.h"
#include "tracer/format/trace_format.h"
#include "tracer/format/varint.h"

namespace cuheap {

constexpr std::size_t kFloors = 4;
/// Longest encoding of one event: a State record and an Event record of 14 fields.
constexpr std::size_t kMaxEventBytes = 256;
/// Longest string of a definition; longer ones are cut by the writer.
constexpr std::size_t kMaxStringBytes = 4096;
/// Room that one definition record may take: two strings and some numbers.
constexpr std::size_t kMaxDefinitionBytes = 2 * kMaxStringBytes + 128;

struct Bytes {
  const char* data = nullptr;
  std::size_t size = 0;
};

// Definitions, as they cross the file.
struct SiteNode {
  SiteId id = 0;
  SiteId parent = 0;  // 0: outermost
  FrameKind kind = FrameKind::Native;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
};
struct ModuleRecord {
  std::uint32_t id = 0;
  std::uint64_t base = 0;  // load address; offsets count from here
  std::uint64_t size = 0;
  Bytes path;
  Bytes build_id;  // raw bytes
};
struct CodeRecord {
  std::uint32_t id = 0;
  Language language = Language::Python;
  std::uint32_t first_line = 0;
  Bytes function;
  Bytes file;
};
struct NameRecord {
  NameId id = 0;
  Bytes text;
};
struct MetaRecord {
  Bytes key;
  Bytes value;
};
struct DeviceRecord {
  std::uint32_t ordinal = 0;
  std::uint64_t total_bytes = 0;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::uint32_t multiprocessors = 0;
  Bytes name;
  Bytes uuid;  // raw bytes
};

/// What both ends of a chunk remember from record to record.
struct ChunkDeltas {
  std::uint64_t time_ns = 0;
  struct PerFloor {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    SiteId site[2] = {0, 0};  // of the last Allocate, of the last Free
    Family family = Family::None;
    std::int16_t device = 0;
    std::uint64_t stream = 0;
    std::uint64_t context = 0;
    PhaseId phase = 0;
    std::uint8_t flags = 0;
  } floor[kFloors];
};

namespace codec {

/// Builds one general record: payload first, then the length in front of it.
class RecordBuilder {
 public:
  RecordBuilder(std::uint8_t* out, RecordKind kind) : start_(out), at_(out + kGap) { *start_ = static_cast<std::uint8_t>(kind); }
  RecordBuilder& number(std::uint64_t value) { at_ = encode_varint(at_, value); return *this; }
  RecordBuilder& string(Bytes text) {
    const std::size_t size = text.size < kMaxStringBytes ? text.size : kMaxStringBytes;
    at_ = encode_varint(at_, size);
    if (size != 0) std::memcpy(at_, text.data, size);
    at_ += size;
    return *this;
  }
  /// Closes the record; returns the byte after it.
  std::uint8_t* finish() {
    const std::size_t length = static_cast<std::size_t>(at_ - (start_ + kGap));
    std::uint8_t* const body = encode_varint(start_ + 1, length);
    std::memmove(body, start_ + kGap, length);
    return body + length;
  }

 private:
  static constexpr std::size_t kGap = 1 + kMaxVarintBytes;
  std::uint8_t* start_;
  std::uint8_t* at_;
};

/// Takes the fields of a general record one after the other; missing ones read as 0 or empty.
class FieldReader {
 public:
  FieldReader(const std::uint8_t* in, const std::uint8_t* end) : in_(in), end_(end) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    if (in_ == end_) return 0;
    const std::uint8_t* const next = decode_varint(in_, end_, &value);
    if (next == nullptr) { broken_ = true; in_ = end_; return 0; }
    in_ = next;
    return value;
  }
  std::uint32_t number32() { return narrow<std::uint32_t>(number()); }
  Bytes string() {
    const std::uint64_t size = number();
    if (size > static_cast<std::uint64_t>(end_ - in_)) { broken_ = true; in_ = end_; return {}; }
    const Bytes text{reinterpret_cast<const char*>(in_), static_cast<std::size_t>(size)};
    in_ += size;
    return text;
  }
  bool broken() const { return broken_; }
  template <typename T>
  T narrow(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(static_cast<T>(~T{0}))) { broken_ = true; return T{0}; }
    return static_cast<T>(value);
  }

 private:
  const std::uint8_t* in_;
  const std::uint8_t* end_;
  bool broken_ = false;
};

inline bool state_differs(const ChunkDeltas::PerFloor& state, const Event& e) {
  return state.family != e.family || state.device != e.device || state.stream != e.stream || state.context != e.context ||
         state.phase != e.phase || state.flags != e.flags;
}

inline void remember_state(ChunkDeltas::PerFloor& state, const Event& e) {
  state.family = e.family;
  state.device = e.device;
  state.stream = e.stream;
  state.context = e.context;
  state.phase = e.phase;
  state.flags = e.flags;
}

inline std::uint8_t* encode_fast(ChunkDeltas& deltas, const Event& e, std::uint8_t* out) {
  ChunkDeltas::PerFloor& state = deltas.floor[static_cast<std::size_t>(e.floor)];
  if (state_differs(state, e)) {
    out = RecordBuilder(out, RecordKind::State)
              .number(static_cast<std::uint64_t>(e.floor)).number(static_cast<std::uint64_t>(e.family))
              .number(fold_sign(e.device)).number(e.stream).number(e.context).number(e.phase).number(e.flags)
              .finish();
    remember_state(state, e);
  }
  const bool is_free = e.kind == EventKind::Free;
  const std::uint64_t difference = e.address - state.address;
  const bool aligned = (difference & 511) == 0;
  const bool same_size = !is_free && e.size == state.size;
  SiteId& last_site = state.site[is_free ? 1 : 0];
  const bool new_site = e.site != last_site;
  *out++ = static_cast<std::uint8_t>(kFastRecord | (is_free ? kFastFree : 0) |
                                     (static_cast<unsigned>(e.floor) << kFastFloorShift) | (aligned ? kFastAligned : 0) |
                                     (same_size ? kFastSameSize : 0) | (new_site ? kFastNewSite : 0));
  const std::uint64_t dt = e.time_ns > deltas.time_ns ? e.time_ns - deltas.time_ns : 0;
  out = encode_varint(out, dt);
  const std::int64_t signed_difference = static_cast<std::int64_t>(difference);
  out = encode_varint(out, fold_sign(aligned ? signed_difference / 512 : signed_difference));
  if (!is_free && !same_size) out = encode_varint(out, e.size);
  if (new_site) out = encode_varint(out, e.site);
  deltas.time_ns += dt;
  state.address = e.address;
  if (!is_free) state.size = e.size;
  last_site = e.site;
  return out;
}

inline std::uint8_t* encode_general(ChunkDeltas& deltas, const Event& e, std::uint8_t* out) {
  const std::uint64_t dt = e.time_ns > deltas.time_ns ? e.time_ns - deltas.time_ns : 0;
  deltas.time_ns += dt;
  return RecordBuilder(out, RecordKind::Event)
      .number(static_cast<std::uint64_t>(e.kind)).number(static_cast<std::uint64_t>(e.floor))
      .number(static_cast<std::uint64_t>(e.family)).number(e.flags).number(fold_sign(e.device)).number(dt).number(e.address)
      .number(e.size).number(e.stream).number(e.context).number(e.extra0).number(e.extra1).number(e.site).number(e.phase)
      .finish();
}

}  // namespace codec

/// True if the event fits the short form: an Allocate or Free of a floor that says nothing but the fast fields.
inline bool is_fast(const Event& e) {
  return e.floor != Floor::None && e.extra0 == 0 && e.extra1 == 0 &&
         (e.kind == EventKind::Allocate || (e.kind == EventKind::Free && e.size == 0));
}

/// Appends `e` at `out` (kMaxEventBytes of room) and updates the chunk's deltas; returns the byte after it. A time before
/// that of the record before is written as the same time. The thread is the chunk's, the process is not written.
inline std::uint8_t* encode_event(ChunkDeltas& deltas, const Event& e, std::uint8_t* out) {
  return is_fast(e) ? codec::encode_fast(deltas, e, out) : codec::encode_general(deltas, e, out);
}

/// Appends the record that hands the chunk to another thread; needs kMaxEventBytes of room.
inline std::uint8_t* encode_thread(std::uint32_t thread, std::uint8_t* out) {
  return codec::RecordBuilder(out, RecordKind::Thread).number(thread).finish();
}

// Definitions; each needs kMaxDefinitionBytes of room (SiteNode: kMaxEventBytes).
inline std::uint8_t* encode_definition(const SiteNode& d, std::uint8_t* out) {
  return codec::RecordBuilder(out, RecordKind::SiteNode).number(d.id).number(d.parent)
      .number(static_cast<std::uint64_t>(d.kind)).number(d.a).number(d.b).finish();
}
inline std::uint8_t* encode_definition(const ModuleRecord& d, std::uint8_t* out) {
  return codec::RecordBuilder(out, RecordKind::Module).number(d.id).number(d.base).number(d.size).string(d.path)
      .string(d.build_id).finish();
}
inline std::uint8_t* encode_definition(const CodeRecord& d, std::uint8_t* out) {
  return codec::RecordBuilder(out, RecordKind::Code).number(d.id).number(static_cast<std::uint64_t>(d.language))
      .number(d.first_line).string(d.function).string(d.file).finish();
}
inline std::uint8_t* encode_definition(const NameRecord& d, std::uint8_t* out) {
  return codec::RecordBuilder(out, RecordKind::Name).number(d.id).string(d.text).finish();
}
inline std::uint8_t* encode_definition(const MetaRecord& d, std::uint8_t* out) {
  return codec::RecordBuilder(out, RecordKind::Meta).string(d.key).string(d.value).finish();
}
inline std::uint8_t* encode_definition(const DeviceRecord& d, std::uint8_t* out) {
  return codec::RecordBuilder(out, RecordKind::Device).number(d.ordinal).number(d.total_bytes).number(d.major)
      .number(d.minor).number(d.multiprocessors).string(d.name).string(d.uuid).finish();
}

/// What one step of decoding found.
enum class Decoded : std::uint8_t { Event, SiteNode, Module, Code, Name, Meta, Device, Unknown, End, Damaged };

/// One decoded record; strings point into the chunk's bytes.
struct Record {
  Event event;
  SiteNode site_node;
  ModuleRecord module;
  CodeRecord code;
  NameRecord name;
  MetaRecord meta;
  DeviceRecord device;
};

/// Walks the records of one chunk. Never reads outside [in, end), whatever the bytes are.
class ChunkDecoder {
 public:
  ChunkDecoder(const ChunkHeader& header, const std::uint8_t* in, const std::uint8_t* end)
      : in_(in), end_(end), thread_(header.thread) { deltas_.time_ns = header.first_ns; }

  /// Decodes the next record into `record` (only the member that the answer names is meaningful).
  Decoded next(Record& record) {
    while (in_ != end_) {
      const std::uint8_t tag = *in_;
      if ((tag & kFastRecord) != 0) return fast(tag, record.event) ? Decoded::Event : damaged();
      std::uint64_t length = 0;
      const std::uint8_t* const body = decode_varint(in_ + 1, end_, &length);
      if (tag == 0 || body == nullptr || length > static_cast<std::uint64_t>(end_ - body)) return damaged();
      codec::FieldReader fields(body, body + length);
      in_ = body + length;
      if (static_cast<RecordKind>(tag) == RecordKind::State) {
        if (!state(fields)) return damaged();
        continue;
      }
      if (static_cast<RecordKind>(tag) == RecordKind::Thread) {
        thread_ = fields.number32();
        if (fields.broken()) return damaged();
        continue;
      }
      const Decoded what = general(static_cast<RecordKind>(tag), fields, record);
      return fields.broken() ? damaged() : what;
    }
    return Decoded::End;
  }

  /// Bytes not decoded yet; after Damaged, the bytes lost.
  std::size_t remaining() const { return static_cast<std::size_t>(end_ - in_); }

 private:
  Decoded damaged() { return Decoded::Damaged; }

  bool fast(std::uint8_t tag, Event& e) {
    const bool is_free = (tag & kFastFree) != 0;
    const std::size_t floor = (tag >> kFastFloorShift) & 3;
    if (floor == 0) return false;
    ChunkDeltas::PerFloor& state = deltas_.floor[floor];
    std::uint64_t dt = 0, folded = 0, size = is_free ? 0 : state.size, site = state.site[is_free ? 1 : 0];
    const std::uint8_t* in = decode_varint(in_ + 1, end_, &dt);
    if (in != nullptr) in = decode_varint(in, end_, &folded);
    if (in != nullptr && !is_free && (tag & kFastSameSize) == 0) in = decode_varint(in, end_, &size);
    if (in != nullptr && (tag & kFastNewSite) != 0) in = decode_varint(in, end_, &site);
    if (in == nullptr || site > 0xffffffffu) return false;
    in_ = in;
    const std::uint64_t difference = static_cast<std::uint64_t>(unfold_sign(folded)) * ((tag & kFastAligned) != 0 ? 512 : 1);
    deltas_.time_ns += dt;
    state.address += difference;
    if (!is_free) state.size = size;
    state.site[is_free ? 1 : 0] = static_cast<SiteId>(site);
    e = Event{};
    e.time_ns = deltas_.time_ns;
    e.address = state.address;
    e.size = size;
    e.stream = state.stream;
    e.context = state.context;
    e.site = static_cast<SiteId>(site);
    e.phase = state.phase;
    e.thread = thread_;
    e.device = state.device;
    e.kind = is_free ? EventKind::Free : EventKind::Allocate;
    e.floor = static_cast<Floor>(floor);
    e.family = state.family;
    e.flags = state.flags;
    return true;
  }

  bool state(codec::FieldReader& fields) {
    const std::uint64_t floor = fields.number();
    if (floor == 0 || floor >= kFloors) return false;
    ChunkDeltas::PerFloor& state = deltas_.floor[floor];
    state.family = static_cast<Family>(fields.narrow<std::uint8_t>(fields.number()));
    state.device = static_cast<std::int16_t>(unfold_sign(fields.number()));
    state.stream = fields.number();
    state.context = fields.number();
    state.phase = fields.number32();
    state.flags = fields.narrow<std::uint8_t>(fields.number());
    return !fields.broken();
  }

  Decoded general(RecordKind kind, codec::FieldReader& fields, Record& record) {
    switch (kind) {
      case RecordKind::Event: return event(fields, record.event);
      case RecordKind::SiteNode: {
        SiteNode& d = record.site_node;
        d.id = fields.number32(); d.parent = fields.number32();
        d.kind = static_cast<FrameKind>(fields.narrow<std::uint8_t>(fields.number()));
        d.a = fields.number(); d.b = fields.number();
        return Decoded::SiteNode;
      }
      case RecordKind::Module: {
        ModuleRecord& d = record.module;
        d.id = fields.number32(); d.base = fields.number(); d.size = fields.number();
        d.path = fields.string(); d.build_id = fields.string();
        return Decoded::Module;
      }
      case RecordKind::Code: {
        CodeRecord& d = record.code;
        d.id = fields.number32(); d.language = static_cast<Language>(fields.narrow<std::uint8_t>(fields.number()));
        d.first_line = fields.number32(); d.function = fields.string(); d.file = fields.string();
        return Decoded::Code;
      }
      case RecordKind::Name:
        record.name.id = fields.number32(); record.name.text = fields.string();
        return Decoded::Name;
      case RecordKind::Meta:
        record.meta.key = fields.string(); record.meta.value = fields.string();
        return Decoded::Meta;
      case RecordKind::Device: {
        DeviceRecord& d = record.device;
        d.ordinal = fields.number32(); d.total_bytes = fields.number(); d.major = fields.number32();
        d.minor = fields.number32(); d.multiprocessors = fields.number32(); d.name = fields.string(); d.uuid = fields.string();
        return Decoded::Device;
      }
      default: return Decoded::Unknown;
    }
  }

  Decoded event(codec::FieldReader& fields, Event& e) {
    e = Event{};
    e.kind = static_cast<EventKind>(fields.narrow<std::uint8_t>(fields.number()));
    e.floor = static_cast<Floor>(fields.narrow<std::uint8_t>(fields.number()));
    e.family = static_cast<Family>(fields.narrow<std::uint8_t>(fields.number()));
    e.flags = fields.narrow<std::uint8_t>(fields.number());
    e.device = static_cast<std::int16_t>(unfold_sign(fields.number()));
    deltas_.time_ns += fields.number();
    e.time_ns = deltas_.time_ns;
    e.address = fields.number();
    e.size = fields.number();
    e.stream = fields.number();
    e.context = fields.number();
    e.extra0 = fields.number();
    e.extra1 = fields.number();
    e.site = fields.number32();
    e.phase = fields.number32();
    e.thread = thread_;
    if (static_cast<std::size_t>(e.floor) >= kFloors) return Decoded::Unknown;
    return Decoded::Event;
  }

  const std::uint8_t* in_;
  const std::uint8_t* end_;
  ChunkDeltas deltas_;
  std::uint32_t thread_;
};

}  // namespace cuheap
