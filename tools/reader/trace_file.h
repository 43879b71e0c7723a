// TraceFile: one trace file, its header and the list of its readable chunks. Between the bytes (MappedFile) and the
// definitions and events that the reader makes of them. Damage is noted, never thrown.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/model/trace.h"
#include "tools/reader/mapped_file.h"
#include "tracer/format/codec.h"
#include "tracer/format/trace_format.h"

namespace cuheap {

/// One chunk as far as it was whole when the file was opened. A live writer changes headers under us, so nothing reads
/// them a second time.
struct Chunk {
  ChunkHeader header{};
  std::uint64_t offset = 0;  // of the chunk in the file
  std::span<const std::uint8_t> records;
  std::uint64_t first_ns = 0, last_ns = 0;  // of its events
  std::uint64_t events = 0;
};

class TraceFile {
 public:
  /// Throws Error for a file that is no trace, or one of a future version.
  explicit TraceFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const FileHeader& header() const { return header_; }
  const std::vector<Chunk>& chunks() const { return chunks_; }
  std::vector<Chunk>& chunks() { return chunks_; }
  const std::vector<Damage>& damage() const { return damage_; }
  void note_damage(std::uint64_t offset, std::uint64_t bytes, std::string reason);

 private:
  bool read_header();
  void list_chunks();
  void add_chunk(std::uint64_t offset);

  MappedFile file_;
  FileHeader header_{};
  std::vector<Chunk> chunks_;
  std::vector<Damage> damage_;
};

}  // namespace cuheap
