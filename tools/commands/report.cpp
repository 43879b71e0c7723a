// cuheap report TRACE: one self-contained page that opens from the disk, without a network.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "tools/commands/arguments.h"
#include "tools/commands/command.h"
#include "tools/commands/output.h"
#include "tools/commands/progress.h"
#include "tools/model/error.h"
#include "tools/report/html.h"

namespace cuheap {
namespace {

namespace fs = std::filesystem;

/// Beside the trace and named after it, so that two runs do not overwrite each other.
std::string default_page(const std::string& trace) {
  const fs::path path = fs::path(trace).lexically_normal();
  const fs::path name = path.has_filename() ? path.filename() : path.parent_path().filename();
  return (name.empty() || name == "." ? fs::path("report") : name.stem()).string() + ".html";
}

int report(const TraceArguments& arguments, const std::string& output) {
  Progress progress;
  const Trace trace = progress.open(arguments.trace);
  const std::string path = output.empty() ? default_page(arguments.trace) : output;
  if (fs::is_directory(path))
    throw Error(fmt::format("{}: is a directory; name the page with -o, as in -o {}", path,
                            (fs::path(path) / default_page(arguments.trace)).string()));
  // Written whole or not at all: a half page that opens and lies is worse than none.
  const std::string unfinished = path + ".part";
  std::ofstream out(unfinished, std::ios::binary);
  if (!out) throw Error(fmt::format("{}: cannot write; name another file with -o", path));
  write_report(trace, out);
  out.close();
  progress.end();
  std::error_code error;
  if (out) fs::rename(unfinished, path, error);
  if (!out || error) {
    fs::remove(unfinished, error);
    throw Error(fmt::format("{}: cannot write it all (disk full?); name another file with -o", path));
  }
  print_losses(trace);
  fmt::print("{}\n", fs::absolute(path, error).string());
  return 0;
}

}  // namespace

Action define_report(CLI::App& app) {
  const auto arguments = std::make_shared<TraceArguments>();
  const auto output = std::make_shared<std::string>();
  arguments->add_trace(app);
  app.add_option("-o,--output", *output, "the page to write; default: the trace's name with .html");
  return [arguments, output](const Program&) { return report(*arguments, *output); };
}

}  // namespace cuheap
