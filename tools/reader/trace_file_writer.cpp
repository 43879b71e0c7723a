#include "tools/reader/trace_file_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/model/error.h"

namespace cuheap {
namespace {

Bytes bytes(std::string_view text) {
  return {text.data(), text.size()};
}

// What a definition takes at most: its numbers and its strings.
constexpr std::size_t kNumbers = 128;
std::size_t stored(const Bytes& text) {
  return std::min(text.size, kMaxStringBytes);
}
std::size_t room_of(const SiteNode&) {
  return kNumbers;
}
std::size_t room_of(const ModuleRecord& d) {
  return kNumbers + stored(d.path) + stored(d.build_id);
}
std::size_t room_of(const CodeRecord& d) {
  return kNumbers + stored(d.function) + stored(d.file);
}
std::size_t room_of(const NameRecord& d) {
  return kNumbers + stored(d.text);
}
std::size_t room_of(const MetaRecord& d) {
  return kNumbers + stored(d.key) + stored(d.value);
}
std::size_t room_of(const DeviceRecord& d) {
  return kNumbers + stored(d.name) + stored(d.uuid);
}

}  // namespace

struct TraceFileWriter::OpenChunk {
  ChunkHeader header{};
  std::uint64_t offset = 0;
  ChunkDeltas deltas;
  std::vector<std::uint8_t> bytes;  // as long as a chunk; `used` of them are records
  std::size_t used = 0;
};

TraceFileWriter::TraceFileWriter(const std::string& path, const Options& options) : path_(path) {
  file_ = std::fopen(path.c_str(), "wb");
  if (file_ == nullptr) throw Error(fmt::format("{}: cannot create: {}", path, std::strerror(errno)));
  std::memcpy(header_.magic, kTraceMagic, sizeof kTraceMagic);
  header_.version = kTraceVersion;
  header_.header_bytes = kHeaderBytes;
  header_.chunk_bytes = options.chunk_bytes;
  header_.pid = options.pid;
  header_.parent_pid = options.parent_pid;
  header_.rank = options.rank;
  header_.start_ns = options.start_ns;
  header_.start_wall_ns = options.start_wall_ns;
}

TraceFileWriter::~TraceFileWriter() {
  if (file_ != nullptr) std::fclose(file_);
}

NameId TraceFileWriter::define_name(std::string_view text) {
  if (const auto known = names_.find(text); known != names_.end()) return known->second;
  const NameId id = static_cast<NameId>(names_.size() + 1);
  names_.emplace(std::string(text), id);
  put_definition(NameRecord{id, bytes(text)});
  return id;
}

std::uint32_t TraceFileWriter::define_code(Language language, std::string_view function, std::string_view file) {
  std::string key(function);
  key += '\0';
  key += file;
  const auto [at, is_new] = codes_.emplace(std::move(key), static_cast<std::uint32_t>(codes_.size() + 1));
  if (is_new) put_definition(CodeRecord{at->second, language, 0, bytes(function), bytes(file)});
  return at->second;
}

SiteId TraceFileWriter::define_source_site(SiteId parent, std::uint32_t code, std::uint32_t line) {
  const auto [at, is_new] = sites_.emplace(std::tuple(parent, code, line), last_site_ + 1);
  if (is_new) define(SiteNode{at->second, parent, FrameKind::Source, code, line});
  return at->second;
}

void TraceFileWriter::define(const SiteNode& node) {
  last_site_ = std::max(last_site_, node.id);
  put_definition(node);
}
void TraceFileWriter::define(const ModuleRecord& module) {
  put_definition(module);
}
void TraceFileWriter::define_meta(std::string_view key, std::string_view value) {
  put_definition(MetaRecord{bytes(key), bytes(value)});
}
void TraceFileWriter::define_device(std::uint32_t ordinal, std::string_view name, std::uint64_t total_bytes,
                                    std::string_view uuid) {
  DeviceRecord device;
  device.uuid = bytes(uuid);
  device.ordinal = ordinal;
  device.name = bytes(name);
  device.total_bytes = total_bytes;
  put_definition(device);
}

template <typename Definition>
void TraceFileWriter::put_definition(const Definition& definition) {
  OpenChunk& chunk = chunk_with_room(definitions_, 0, header_.start_ns, room_of(definition));
  std::uint8_t* const at = chunk.bytes.data() + chunk.used;
  chunk.used += static_cast<std::size_t>(encode_definition(definition, at) - at);
  chunk.header.flags |= kChunkHoldsDefinitions;
}

void TraceFileWriter::write(const Event& event) {
  OpenChunk& chunk = chunk_with_room(threads_[event.thread], event.thread, event.time_ns, kMaxEventBytes);
  std::uint8_t* const at = chunk.bytes.data() + chunk.used;
  chunk.used += static_cast<std::size_t>(encode_event(chunk.deltas, event, at) - at);
  chunk.header.flags |= kChunkHoldsEvents;
  chunk.header.last_ns = chunk.deltas.time_ns;
  ++chunk.header.events;
}

void TraceFileWriter::count_loss(LossReason reason, std::uint64_t events) {
  header_.lost_events[static_cast<std::size_t>(reason)] += events;
}

TraceFileWriter::OpenChunk& TraceFileWriter::chunk_with_room(std::unique_ptr<OpenChunk>& slot, std::uint32_t thread,
                                                             std::uint64_t time_ns, std::size_t room) {
  const std::size_t size = header_.chunk_bytes - sizeof(ChunkHeader);
  if (slot != nullptr && slot->used + room > size) {
    store(*slot);
    slot.reset();
  }
  if (slot == nullptr) {
    slot = std::make_unique<OpenChunk>();
    slot->offset = header_.header_bytes + header_.chunks++ * header_.chunk_bytes;
    if (room > size) throw Error(fmt::format("{}: a record of {} bytes in chunks of {}", path_, room, size));
    slot->bytes.resize(size);
    slot->header.magic = kChunkMagic;
    slot->header.state = ChunkState::Closed;
    slot->header.thread = thread;
    slot->header.sequence = sequences_[thread]++;
    slot->header.first_ns = slot->header.last_ns = slot->deltas.time_ns = time_ns;
  }
  return *slot;
}

void TraceFileWriter::store(OpenChunk& chunk) {
  chunk.header.committed = static_cast<std::uint32_t>(chunk.used);
  put(chunk.offset, &chunk.header, sizeof chunk.header);
  put(chunk.offset + sizeof chunk.header, chunk.bytes.data(), chunk.used);
}

void TraceFileWriter::finish(std::uint64_t end_ns) {
  if (definitions_ != nullptr) store(*definitions_);
  for (auto& [thread, chunk] : threads_) {
    if (chunk != nullptr) store(*chunk);
  }
  header_.end_ns = end_ns;
  std::vector<std::uint8_t> page(header_.header_bytes);
  std::memcpy(page.data(), &header_, sizeof header_);
  put(0, page.data(), page.size());
  std::FILE* const file = file_;
  file_ = nullptr;
  if (std::fclose(file) != 0) throw Error(fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
}

void TraceFileWriter::put(std::uint64_t offset, const void* data, std::size_t size) {
  if (std::fseek(file_, static_cast<long>(offset), SEEK_SET) != 0 || std::fwrite(data, 1, size, file_) != size) {
    throw Error(fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
  }
}

}  // namespace cuheap
