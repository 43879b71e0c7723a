#include "tools/reader/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tools/model/error.h"

namespace cuheap {
namespace {

constexpr std::size_t kMaxDamageNotes = 1000;  // a shredded file must not make a report of a million lines
constexpr std::uint32_t kMaxChunkBytes = 1u << 30;

}  // namespace

TraceFile::TraceFile(const std::string& path) : file_(path) {
  if (read_header()) list_chunks();
}

void TraceFile::note_damage(std::uint64_t offset, std::uint64_t bytes, std::string reason) {
  if (damage_.size() == kMaxDamageNotes) {
    damage_.push_back({path(), offset, 0, "more damage, not listed"});
  } else if (damage_.size() < kMaxDamageNotes) {
    damage_.push_back({path(), offset, bytes, std::move(reason)});
  }
}

/// False: nothing behind the header can be read.
bool TraceFile::read_header() {
  const auto bytes = file_.bytes();
  const std::size_t known = std::min(bytes.size(), sizeof kTraceMagic);
  if (known != 0 && std::memcmp(bytes.data(), kTraceMagic, known) != 0) {
    throw Error(path() + ": not a cuheap trace (wrong first bytes); PyTorch snapshots are read by `cuheap import`");
  }
  if (known != 0) std::memcpy(&header_, bytes.data(), std::min(bytes.size(), sizeof header_));
  if (bytes.size() < sizeof header_) {
    note_damage(bytes.size(), 0, "the file ends inside its header: recording was cut off as it began");
    return false;
  }
  if (header_.version > kTraceVersion) {
    throw Error(fmt::format("{}: trace format version {}, this cuheap reads up to {}: use a newer cuheap", path(),
                            header_.version, kTraceVersion));
  }
  const bool aligned =
      header_.header_bytes % alignof(ChunkHeader) == 0 && header_.chunk_bytes % alignof(ChunkHeader) == 0;
  if (!aligned || header_.header_bytes < sizeof header_ || header_.chunk_bytes <= sizeof(ChunkHeader) ||
      header_.chunk_bytes > kMaxChunkBytes) {
    note_damage(8, bytes.size() - 8, "the header names impossible sizes");
    return false;
  }
  return true;
}

void TraceFile::list_chunks() {
  const std::uint64_t size = file_.bytes().size();
  std::uint64_t offset = header_.header_bytes;
  for (; offset + sizeof(ChunkHeader) <= size; offset += header_.chunk_bytes) add_chunk(offset);
  if (offset < size) note_damage(offset, size - offset, "the file ends inside the header of a chunk");
  // Only after an orderly end: a running writer counts on while we read.
  const std::uint64_t begun =
      size > header_.header_bytes ? (size - header_.header_bytes - 1) / header_.chunk_bytes + 1 : 0;
  if (header_.end_ns != 0 && header_.chunks > begun) {
    note_damage(size, 0, fmt::format("the header counts {} chunks, the file ends before", header_.chunks));
  }
  if (size < header_.header_bytes)
    note_damage(size, 0, "the file ends inside its header: recording was cut off as it began");
}

void TraceFile::add_chunk(std::uint64_t offset) {
  const std::uint8_t* const at = file_.bytes().data() + offset;
  Chunk chunk;
  chunk.offset = offset;
  // `committed` is stored last, with release order, by a process that may still run: read it first.
  std::uint32_t committed = 0;
  __atomic_load(reinterpret_cast<const std::uint32_t*>(at + offsetof(ChunkHeader, committed)), &committed,
                __ATOMIC_ACQUIRE);
  std::memcpy(&chunk.header, at, sizeof chunk.header);
  if (chunk.header.magic == 0 && committed == 0) return;  // the file grew, the chunk was not prepared yet
  if (chunk.header.magic != kChunkMagic) {
    note_damage(offset, header_.chunk_bytes, "no chunk where one should begin");
    return;
  }
  if (chunk.header.state == ChunkState::Stock || committed == 0) return;
  const std::uint64_t room = header_.chunk_bytes - sizeof(ChunkHeader);
  const std::uint64_t in_file = file_.bytes().size() - offset - sizeof(ChunkHeader);
  if (committed > room) note_damage(offset, committed - room, "the chunk claims more bytes than it can hold");
  const std::uint64_t whole = std::min<std::uint64_t>(committed, room);
  if (whole > in_file)
    note_damage(offset + sizeof(ChunkHeader) + in_file, whole - in_file, "the file ends inside a chunk");
  chunk.records = {at + sizeof(ChunkHeader), static_cast<std::size_t>(std::min(whole, in_file))};
  chunks_.push_back(chunk);
}

}  // namespace cuheap
