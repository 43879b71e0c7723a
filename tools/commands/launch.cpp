#include "tools/commands/launch.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>

#include "tools/commands/child_process.h"
#include "tools/commands/install.h"
#include "tools/commands/staging.h"
#include "tools/commands/trim.h"
#include "tools/reader/trace_reader.h"

namespace cuheap {
namespace {

namespace fs = std::filesystem;

// ---- directory
// --------------------------------------------------------------------------------------------------------

/// The script rather than the interpreter gives a run its name.
std::string name_of(const std::vector<std::string>& command) {
  const std::string program = fs::path(command[0]).filename().string();
  if (program.starts_with("python") && command.size() > 1 && !command[1].starts_with("-"))
    return fs::path(command[1]).stem().string();
  return program.empty() ? "run" : program;
}

bool holds_traces(const fs::path& directory) {
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == kTraceExtension) return true;
  }
  return false;
}

/// A directory of its own for every run: two runs in one would read as one program.
fs::path unused(const fs::path& wanted) {
  fs::path path = wanted;
  for (int n = 2; holds_traces(path); ++n) path = wanted.string() + "-" + std::to_string(n);
  if (path != wanted)
    tell(fmt::format("{} holds the traces of an earlier run; recording into {}", wanted.string(), path.string()));
  return path;
}

std::optional<std::string> make_directory(const LaunchOptions& options, std::string& problem) {
  const std::time_t now = std::time(nullptr);
  const std::string name =
      !options.directory.empty()
          ? options.directory
          : fmt::format("cuheap-{}-{:%Y%m%d-%H%M%S}-{}", name_of(options.command), fmt::localtime(now), ::getpid());
  std::error_code error;
  const fs::path path = unused(fs::absolute(name, error));
  fs::create_directories(path, error);
  if (error) {
    problem = fmt::format("cannot make {}: {}; name another directory with -o", path.string(), error.message());
    return std::nullopt;
  }
  const std::string probe = (path / fmt::format(".cuheap-{}", ::getpid())).string();
  const int fd = ::open(probe.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) {
    problem = fmt::format("cannot write into {}: {}; name another directory with -o", path.string(), std::strerror(errno));
    return std::nullopt;
  }
  ::close(fd);
  ::unlink(probe.c_str());
  return path.string();
}

// ---- environment
// ------------------------------------------------------------------------------------------------------

void prepend(const char* name, const std::string& value, char separator) {
  const char* const old = std::getenv(name);
  const std::string text = old != nullptr && *old != '\0' ? value + separator + old : value;
  ::setenv(name, text.c_str(), 1);
}

/// The environment is ours until exec: the child inherits what is set here.
void set_environment(const LaunchOptions& options, const std::string& library, const std::string& directory) {
  std::string preload = library;
  if (!options.simgpu.empty()) {
    const SimulatedGpu gpu = find_simulated_gpu();
    for (const std::string& path : gpu.libraries) preload += (preload.empty() ? "" : ":") + path;
    prepend("LD_LIBRARY_PATH", gpu.directory, ':');
    ::setenv("SIMGPU_DEVICES", options.simgpu.c_str(), 1);
    ::setenv("CUHEAP_SIMGPU", options.simgpu.c_str(), 1);
  }
  if (!preload.empty()) prepend("LD_PRELOAD", preload, ':');
  if (library.empty()) return;
  // A program built with AddressSanitizer ends at once if another library is loaded before its runtime. What the user says wins.
  prepend("ASAN_OPTIONS", "verify_asan_link_order=0", ':');
  ::setenv("CUHEAP_DIR", directory.c_str(), 1);
  if (!options.pool.empty()) ::setenv("CUHEAP_POOL", options.pool.c_str(), 1);
  if (!options.stacks) ::setenv("CUHEAP_STACKS", "off", 1);
}

// ---- process
// ----------------------------------------------------------------------------------------------------------

/// Why the program could not be started, and what to do.
std::string exec_problem(const std::string& program, int error) {
  std::error_code ignored;
  const fs::path path(program);
  if (fs::is_directory(path, ignored)) return "is a directory; name a program in it";
  if (!fs::is_regular_file(path, ignored)) return error == ENOENT ? "command not found" : std::strerror(error);
  if (::access(program.c_str(), X_OK) != 0)
    return "exists but is not executable; " +
           (path.extension() == ".py" ? "python " + program + "?" : "chmod +x " + program + "?");
  if (path.has_parent_path()) return std::strerror(error);
  return "command not found; ./" + program + " is here, did you mean that?";
}

}  // namespace

void tell(const std::string& line) {
  fmt::print(stderr, "cuheap: {}\n", line);
}

LaunchResult launch(const LaunchOptions& options) {
  LaunchResult result;
  if (!options.simgpu.empty()) static_cast<void>(find_simulated_gpu());  // before anything is made that would stay behind
  std::string problem;
  std::string library;
  std::optional<std::string> directory;
  if (const auto found = find_preload_library(problem)) {
    directory = make_directory(options, problem);
    if (directory) library = *found;
  }
  if (!directory) {
    tell(fmt::format("not recording, and the program runs as without cuheap: {}", problem));
    result.not_recorded = problem;
  }
  const std::optional<std::string> staging =
      directory ? make_staging_folder(*directory, options.stage) : std::nullopt;
  set_environment(options, library, staging ? *staging : directory.value_or(""));
  const ChildEnd end = run_child(options.command, options.stdout_to_stderr);
  result.status = end.status;
  result.signal = end.signal;
  result.started = end.exec_error == 0;
  if (directory) trim_traces(staging.value_or(*directory));
  if (staging) move_traces(*staging, *directory);
  if (!result.started) {
    tell(fmt::format("{}: {}", options.command[0], exec_problem(options.command[0], end.exec_error)));
    result.status = end.exec_error == EACCES ? 126 : 127;
    std::error_code ignored;
    if (directory) fs::remove(*directory, ignored);  // only if it is empty
  }
  result.directory = staging && holds_traces(*staging) ? *staging : directory.value_or("");
  return result;
}

}  // namespace cuheap
