// cuheap import FILE -o DIR: turns a recording of another tool into an ordinary trace, and proves it where the
// recording says itself what must come out.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "tools/commands/arguments.h"
#include "tools/commands/command.h"
#include "tools/commands/output.h"
#include "tools/commands/progress.h"
#include "tools/importers/pytorch_snapshot.h"
#include "tools/model/error.h"
#include "tools/reader/trace_reader.h"

namespace cuheap {
namespace {

namespace fs = std::filesystem;

struct ImportArguments {
  std::string file, directory;
  bool json = false;
};

/// Says what a file is that the pickle reader could only call damaged.
void refuse_other_kinds(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  char first[6] = {};
  in.read(first, sizeof first);
  const std::string_view head(first, static_cast<std::size_t>(in.gcount()));
  const auto refuse = [&](const char* what) { throw Error(fmt::format("{}: {}", path, what)); };
  if (head.starts_with("cuheap")) refuse("already a cuheap trace; read it directly, e.g. `cuheap summary`");
  if (head.starts_with("\x1f\x8b")) refuse("gzip; unpack it first (gunzip), then import the pickle");
  if (head.starts_with("PK\x03\x04"))
    refuse("a zip archive (torch.save?); snapshots come from torch.cuda.memory._dump_snapshot()");
  if (head.starts_with("{") || head.starts_with("["))
    refuse("JSON; import the pickle that torch.cuda.memory._dump_snapshot() wrote");
}

std::string output_path(const ImportArguments& arguments) {
  std::error_code error;
  fs::create_directories(arguments.directory, error);
  if (error)
    throw Error(
        fmt::format("{}: cannot make the directory: {}; name another with -o", arguments.directory, error.message()));
  const fs::path path = fs::path(arguments.directory) / (fs::path(arguments.file).stem().string() + kTraceExtension);
  if (fs::exists(path, error))
    throw Error(fmt::format("{}: already there; remove it, or name another directory with -o", path.string()));
  return path.string();
}

Json check_json(const ImportCheck& check) {
  return {{"passed", check.passed()},
          {"blocks", check.blocks},
          {"block_bytes", check.block_bytes},
          {"segments", check.segments},
          {"segment_bytes", check.segment_bytes},
          {"differences", check.differences}};
}

void print_import(const Trace& trace, const ImportReport& report, const ImportCheck& check) {
  fmt::print("{}: {} events, {} sites; {} blocks and {} segments were alive before the recording\n",
             printable(trace.path), count_text(trace.event_count), count_text(trace.sites.size() - 1),
             count_text(report.initial_blocks), count_text(report.initial_segments));
  if (report.unmatched_frees != 0)
    fmt::print("{} frees of blocks that nothing had allocated: left out\n", count_text(report.unmatched_frees));
  if (report.unknown_actions != 0)
    fmt::print("{} entries of a kind that this cuheap does not know: left out\n", count_text(report.unknown_actions));
  fmt::print("check: replaying the events ends {} the snapshot's own segments ({} blocks of {}, {} segments of {})\n",
             check.passed() ? "exactly in" : "NOT in", count_text(check.blocks), size_text(check.block_bytes),
             count_text(check.segments), size_text(check.segment_bytes));
  for (const std::string& difference : check.differences) fmt::print("  {}\n", difference);
}

int import(const ImportArguments& arguments) {
  refuse_other_kinds(arguments.file);
  Progress progress;
  progress.doing("reading the snapshot");
  const PytorchSnapshot snapshot = read_pytorch_snapshot(arguments.file);
  progress.doing("writing the trace");
  const std::string path = output_path(arguments);
  ImportReport report;
  try {
    report = write_as_trace(snapshot, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(path, ignored);
    throw;
  }
  const Trace trace = progress.open(path);
  const ImportCheck check = check_import(snapshot, trace);
  progress.end();
  if (arguments.json) {
    Json json = json_head(trace);
    json.update(Json{{"source", printable(arguments.file)},
                     {"events", trace.event_count},
                     {"initial_blocks", report.initial_blocks},
                     {"initial_segments", report.initial_segments},
                     {"unmatched_frees", report.unmatched_frees},
                     {"unknown_actions", report.unknown_actions},
                     {"check", check_json(check)}});
    print_json(json);
  } else {
    print_import(trace, report, check);
  }
  return check.passed() ? 0 : 1;
}

}  // namespace

Action define_import(CLI::App& app) {
  const auto arguments = std::make_shared<ImportArguments>();
  app.add_option("FILE", arguments->file, "snapshot of torch.cuda.memory._dump_snapshot()")->required();
  app.add_option("-o,--output", arguments->directory, "run directory to write the trace into; made if it is not there")
      ->required();
  app.add_flag("--json", arguments->json, "print JSON (docs/json.md)");
  return [arguments](const Program&) { return import(*arguments); };
}

}  // namespace cuheap
