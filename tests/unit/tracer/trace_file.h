// A reader of traces for the tests of the writer: whole file in memory, checks every chunk, keeps everything. The real one
// (tools/reader) is another reading of docs/trace-format.md; this one must not share code with it.
#pragma once
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tracer/format/codec.h"
#include "tracer/format/trace_format.h"

namespace cuheap::test {

struct ReadTrace {
  FileHeader header{};
  std::vector<ChunkHeader> chunks;                          // used ones, in file order
  std::map<std::uint32_t, std::vector<Event>> events;       // by thread, in the order of its chunks
  std::map<SiteId, SiteNode> sites;
  struct ModuleText {
    std::uint64_t base, size;
    std::string path, build_id;
  };
  std::map<std::uint32_t, ModuleText> modules;
  std::map<NameId, std::string> names;
  std::map<std::string, std::string> meta;
  std::vector<std::string> problems;

  std::size_t event_count() const {
    std::size_t count = 0;
    for (const auto& [thread, list] : events) count += list.size();
    return count;
  }
  std::uint64_t lost() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t lost : header.lost_events) sum += lost;
    return sum;
  }
  /// (module id, offset) innermost first.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> stack(SiteId site) const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> frames;
    while (site != 0) {
      const auto found = sites.find(site);
      if (found == sites.end()) return {};
      frames.emplace_back(found->second.a, found->second.b);
      site = found->second.parent;
    }
    return frames;
  }
};

inline std::string to_string(Bytes text) { return {text.data != nullptr ? text.data : "", text.size}; }

inline void read_chunk(ReadTrace& trace, const ChunkHeader& header, const std::uint8_t* records, std::size_t room) {
  if (header.committed > room) return trace.problems.push_back("committed beyond the chunk");
  ChunkDecoder decoder(header, records, records + header.committed);
  Record record;
  std::uint32_t events = 0;
  for (Decoded what; (what = decoder.next(record)) != Decoded::End;) {
    switch (what) {
      case Decoded::Event: trace.events[record.event.thread].push_back(record.event); ++events; break;
      case Decoded::SiteNode:
        if (record.site_node.parent != 0 && !trace.sites.contains(record.site_node.parent)) trace.problems.push_back("parent after child");
        trace.sites[record.site_node.id] = record.site_node;
        break;
      case Decoded::Module:
        trace.modules[record.module.id] = {record.module.base, record.module.size, to_string(record.module.path),
                                           to_string(record.module.build_id)};
        break;
      case Decoded::Name: trace.names[record.name.id] = to_string(record.name.text); break;
      case Decoded::Meta: trace.meta[to_string(record.meta.key)] = to_string(record.meta.value); break;
      case Decoded::Damaged: return trace.problems.push_back("damaged record");
      default: break;
    }
  }
  // `events` is stored before `committed`, so after a SIGKILL it may be one ahead.
  if (header.events != events && header.events != events + 1) trace.problems.push_back("event count differs");
}

inline ReadTrace read_trace(const std::vector<char>& bytes) {
  ReadTrace trace;
  if (bytes.size() < sizeof(FileHeader)) {
    trace.problems.push_back("no header");
    return trace;
  }
  std::memcpy(&trace.header, bytes.data(), sizeof(FileHeader));
  if (std::memcmp(trace.header.magic, kTraceMagic, 8) != 0) trace.problems.push_back("no magic");
  std::vector<std::size_t> used;
  for (std::size_t at = kHeaderBytes; at + sizeof(ChunkHeader) <= bytes.size(); at += kChunkBytes) {
    ChunkHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof(header));
    if (header.magic == kChunkMagic && header.state != ChunkState::Stock) used.push_back(at);
  }
  const auto header_of = [&](std::size_t at) {
    ChunkHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof(header));
    return header;
  };
  // Chunks of a thread by time and sequence, definitions in file order first.
  std::stable_sort(used.begin(), used.end(), [&](std::size_t a, std::size_t b) {
    const ChunkHeader x = header_of(a), y = header_of(b);
    return std::tuple((x.flags & kChunkHoldsDefinitions) == 0, x.first_ns, x.sequence) <
           std::tuple((y.flags & kChunkHoldsDefinitions) == 0, y.first_ns, y.sequence);
  });
  for (const std::size_t at : used) {
    const ChunkHeader header = header_of(at);
    trace.chunks.push_back(header);
    const std::size_t room = std::min<std::size_t>(kChunkBytes, bytes.size() - at) - sizeof(ChunkHeader);
    read_chunk(trace, header, reinterpret_cast<const std::uint8_t*>(bytes.data() + at + sizeof(ChunkHeader)), room);
  }
  return trace;
}

inline ReadTrace read_trace(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return read_trace(std::vector<char>(std::istreambuf_iterator<char>(file), {}));
}

inline FileHeader read_header(const std::string& path) {
  FileHeader header{};
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof(header));
  return header;
}

/// A folder that goes with its scope.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    char path[] = "/tmp/cuheap-test-XXXXXX";
    path_ = mkdtemp(path);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  /// The only file in it.
  std::string only_file() const {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      found = found.empty() ? entry.path().string() : "more than one file";
    return found;
  }

 private:
  std::string path_;
};

}  // namespace cuheap::test
