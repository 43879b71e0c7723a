#include "tools/reader/trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "tools/model/error.h"
#include "tools/reader/event_merge.h"

namespace cuheap {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
/// Two files whose clocks tell the wall time this close come from one machine; clocks of others start at another boot.
constexpr std::uint64_t kSameMachineNs = 2 * kNsPerSecond;
/// A time this far from the file's beginning is a damaged number, not a long run.
constexpr std::uint64_t kEarliestNs = 600 * kNsPerSecond;
constexpr std::uint64_t kLatestNs = 10ull * 365 * 24 * 3600 * kNsPerSecond;

std::vector<std::string> traces_in(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == kTraceExtension && !at->is_directory(error)) paths.push_back(at->path().string());
  }
  if (error) throw Error(fmt::format("{}: cannot list the directory: {}", directory, error.message()));
  if (paths.empty()) {
    throw Error(
        fmt::format("{}: no {} file in this directory; name a run directory made by `cuheap run` (a program that "
                    "never uses CUDA leaves no trace)",
                    directory, kTraceExtension));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

struct OpenFile {
  std::shared_ptr<TraceFile> file;
  FileDefinitions definitions;
  std::uint64_t first_ns = 0, last_ns = 0, events = 0;
};

/// One pass over a chunk: its definitions, its exact time span and count, and where it stops making sense.
void scan_chunk(Chunk& chunk, OpenFile& open) {
  const FileHeader& header = open.file->header();
  const std::uint64_t earliest = header.start_ns - std::min(header.start_ns, kEarliestNs);
  const std::uint64_t latest =
      header.start_ns + std::min(kLatestNs, std::numeric_limits<std::uint64_t>::max() - header.start_ns);
  ChunkDecoder decoder(chunk.header, chunk.records.data(), chunk.records.data() + chunk.records.size());
  Record record;
  for (;;) {
    const std::size_t before = decoder.remaining();
    Decoded what = decoder.next(record);
    if (what == Decoded::End) return;
    // Within a chunk time never runs back; a difference that wraps around would land anywhere.
    const std::uint64_t soonest = chunk.events == 0 ? earliest : chunk.last_ns;
    const bool absurd_time =
        what == Decoded::Event && (record.event.time_ns < soonest || record.event.time_ns > latest);
    if (what == Decoded::Damaged || absurd_time) {
      const std::size_t good = chunk.records.size() - before;
      open.file->note_damage(chunk.offset + sizeof(ChunkHeader) + good, before,
                             absurd_time ? "a time that cannot be" : "bytes that are no record");
      chunk.records = chunk.records.first(good);
      return;
    }
    if (what != Decoded::Event) {
      open.definitions.take(what, record);
      continue;
    }
    if (chunk.events++ == 0) chunk.first_ns = record.event.time_ns;
    chunk.last_ns = record.event.time_ns;
  }
}

OpenFile scan_file(const std::string& path) {
  OpenFile open;
  open.file = std::make_shared<TraceFile>(path);
  for (Chunk& chunk : open.file->chunks()) {
    scan_chunk(chunk, open);
    if (chunk.events == 0) continue;
    open.first_ns = open.events == 0 ? chunk.first_ns : std::min(open.first_ns, chunk.first_ns);
    open.last_ns = std::max(open.last_ns, chunk.last_ns);
    open.events += chunk.events;
  }
  return open;
}

Process process_of(const OpenFile& open, std::int64_t shift_ns) {
  const FileHeader& header = open.file->header();
  Process process;
  process.file = open.file->path();
  process.pid = header.pid;
  process.parent_pid = header.parent_pid;
  process.rank = header.rank;
  process.start_wall_ns = header.start_wall_ns;
  process.ended_orderly = header.end_ns != 0;
  std::copy(std::begin(header.lost_events), std::end(header.lost_events), std::begin(process.lost_events));
  process.meta = open.definitions.meta;
  const std::uint64_t start = open.events != 0 ? std::min(header.start_ns, open.first_ns) : header.start_ns;
  const std::uint64_t end = std::max({start, header.end_ns, open.last_ns});
  process.start_ns = start + static_cast<std::uint64_t>(shift_ns);
  process.end_ns = end + static_cast<std::uint64_t>(shift_ns);
  return process;
}

/// What to add to a file's times so that they stand on the clock of the first file.
std::int64_t clock_shift(const FileHeader& first, const FileHeader& other) {
  const std::int64_t shift =
      static_cast<std::int64_t>((other.start_wall_ns - other.start_ns) - (first.start_wall_ns - first.start_ns));
  const std::uint64_t distance = shift < 0 ? 0 - static_cast<std::uint64_t>(shift) : static_cast<std::uint64_t>(shift);
  const bool is_known = first.start_wall_ns != 0 && other.start_wall_ns != 0;
  return !is_known || distance < kSameMachineNs || distance > kLatestNs ? 0 : shift;
}

Ground ground_of(const std::vector<Process>& processes) {
  for (const Process& process : processes) {
    const auto found = process.meta.find("ground");
    if (found == process.meta.end()) continue;
    if (found->second == ground_name(Ground::Simulated)) return Ground::Simulated;
    if (found->second == ground_name(Ground::Imported)) return Ground::Imported;
  }
  return Ground::Gpu;
}

/// Reads the files that can be read. In a directory a foreign file must not hide the others.
std::vector<OpenFile> scan_files(const std::vector<std::string>& paths, std::vector<Damage>& damage) {
  std::vector<OpenFile> files;
  for (const std::string& path : paths) {
    if (paths.size() == 1) {
      files.push_back(scan_file(path));
      break;
    }
    try {
      files.push_back(scan_file(path));
    } catch (const Error& error) {
      const std::string line = error.what();
      damage.push_back({path, 0, 0, line.starts_with(path + ": ") ? line.substr(path.size() + 2) : line});
    }
  }
  if (files.empty()) throw Error(fmt::format("{}: {}", damage.front().file, damage.front().reason));
  return files;
}

}  // namespace

Trace open_trace(const std::string& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  const bool is_directory = type == fs::file_type::directory;
  if (type == fs::file_type::not_found)
    throw Error(path + ": No such file or directory; name a trace file, or a run directory made by `cuheap run`");
  Trace trace;
  trace.path = path;
  std::vector<OpenFile> files = scan_files(is_directory ? traces_in(path) : std::vector{path}, trace.damage);
  std::stable_sort(files.begin(), files.end(), [](const OpenFile& a, const OpenFile& b) {
    return a.file->header().start_wall_ns < b.file->header().start_wall_ns;
  });
  if (files.size() > std::numeric_limits<std::uint16_t>::max()) throw Error(path + ": more than 65535 trace files");

  TraceNumbering numbering(trace);
  std::vector<MergeInput> inputs;
  for (OpenFile& file : files) {
    const std::int64_t shift = clock_shift(files.front().file->header(), file.file->header());
    inputs.push_back({file.file, numbering.add(file.definitions, static_cast<std::uint16_t>(inputs.size())), shift});
    trace.processes.push_back(process_of(file, shift));
    trace.damage.insert(trace.damage.end(), file.file->damage().begin(), file.file->damage().end());
    trace.event_count += file.events;
  }
  trace.notes = numbering.notes();
  trace.ground = ground_of(trace.processes);
  trace.start_ns = trace.processes.front().start_ns;
  for (const Process& process : trace.processes) {
    trace.start_ns = std::min(trace.start_ns, process.start_ns);
    trace.end_ns = std::max(trace.end_ns, process.end_ns);
  }
  trace.events = std::make_shared<EventMerge>(std::move(inputs));
  return trace;
}

}  // namespace cuheap
