// Trace files for the desk's tests: a folder that goes away, a small trace with known contents.
#pragma once
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tools/model/trace.h"
#include "tools/reader/trace_file_writer.h"

namespace cuheap {

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "cuheap_test_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline std::vector<char> bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void store_bytes(const std::string& path, const std::vector<char>& bytes, std::size_t size = ~std::size_t{0}) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(std::min(size, bytes.size())));
}

inline Event event_of(EventKind kind, std::uint64_t time_ns, std::uint64_t address, std::uint64_t size, SiteId site = 0,
                      std::uint32_t thread = 1) {
  Event e;
  e.time_ns = time_ns;
  e.address = address;
  e.size = size;
  e.site = site;
  e.thread = thread;
  e.kind = kind;
  e.floor = Floor::Framework;
  e.family = Family::Tensor;
  return e;
}

inline std::vector<Event> events_of(const Trace& trace) {
  std::vector<Event> events;
  trace.events->for_each(
      [&](std::span<const Event> batch) { events.insert(events.end(), batch.begin(), batch.end()); });
  return events;
}

constexpr std::uint64_t kStart = 1'000'000'000;

/// Two threads, one site of two frames, four events in this order of time: 20001 and 20002 bytes, then both freed.
inline void write_small_trace(const std::string& path, std::uint32_t chunk_bytes = kChunkBytes) {
  TraceFileWriter::Options options;
  options.pid = 42;
  options.rank = 3;
  options.start_ns = kStart;
  options.start_wall_ns = 1'700'000'000'000'000'000;
  options.chunk_bytes = chunk_bytes;
  TraceFileWriter writer(path, options);
  writer.define_meta("command", "python train.py");
  writer.define_device(0, "h100-80g", 80ull << 30);
  const SiteId outer = writer.define_source_site(0, writer.define_code(Language::Python, "<module>", "train.py"), 9);
  const SiteId inner = writer.define_source_site(outer, writer.define_code(Language::Python, "step", "train.py"), 4);
  writer.write(event_of(EventKind::Allocate, kStart + 100, 0x7000, 20001, inner, 1));
  writer.write(event_of(EventKind::Allocate, kStart + 200, 0x9000, 20002, outer, 2));
  writer.write(event_of(EventKind::Free, kStart + 300, 0x7000, 0, inner, 2));
  writer.write(event_of(EventKind::Free, kStart + 400, 0x9000, 0, 0, 1));
  writer.finish(kStart + 500);
}

}  // namespace cuheap
