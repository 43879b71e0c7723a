// cuheap run -- CMD: records a program. Everything we say goes to stderr; stdout is the program's own.
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "tools/analysis/summary.h"
#include "tools/commands/answers.h"
#include "tools/commands/child_process.h"
#include "tools/commands/command.h"
#include "tools/commands/device_table.h"
#include "tools/commands/launch.h"
#include "tools/model/error.h"
#include "tools/reader/trace_reader.h"

namespace cuheap {
namespace {

constexpr std::size_t kSitesShown = 3;
constexpr const char* kDefaultDevice = "24GiB";

struct RunArguments {
  LaunchOptions launch;
  bool no_stacks = false;
  bool quiet = false;
};

bool has_traces(const std::string& directory) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == kTraceExtension) return true;
  }
  return false;
}

/// The shortest answer, and where the long ones are. The program's exit status never depends on it.
void sum_up(const LaunchResult& result) {
  try {
    const Trace trace = open_trace(result.directory);
    print_losses(trace, stderr);
    print_processes(trace, stderr);
    print_summary(trace, summarize(trace), kSitesShown, stderr);
  } catch (const std::exception& error) { tell(error.what()); }
  tell(fmt::format("recorded into {}; next: cuheap report {}", result.directory, result.directory));
}

/// Never initialised anywhere, so that it is no more than a question to the loader.
bool has_driver() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) ::dlclose(driver);
  return driver != nullptr;
}

std::string why_no_trace(const LaunchResult& result, bool is_simulated) {
  std::error_code ignored;
  if (!std::filesystem::exists(result.directory, ignored)) return result.directory + " was removed during the run";
  std::string why = "the program never initialised CUDA, or CUDA found no GPU";
  if (result.signal != 0) why = fmt::format("the program was ended by signal {} before it initialised CUDA", result.signal);
  else if (result.status != 0) why = fmt::format("the program ended with {} before it initialised CUDA", result.status);
  return is_simulated || has_driver() ? why : why + fmt::format("; no NVIDIA driver here: add --simgpu={}", kDefaultDevice);
}

void conclude(const LaunchResult& result, bool is_simulated) {
  if (result.directory.empty()) {
    tell(fmt::format("nothing was recorded: {}", result.not_recorded));
  } else if (has_traces(result.directory)) {
    sum_up(result);
  } else {
    tell("no trace: " + why_no_trace(result, is_simulated));
  }
}

int run(const RunArguments& arguments) {
  const LaunchResult result = launch(arguments.launch);
  if (result.started && !arguments.quiet) conclude(result, !arguments.launch.simgpu.empty());
  std::error_code ignored;
  if (!result.directory.empty() && !has_traces(result.directory)) std::filesystem::remove(result.directory, ignored);  // if empty
  if (result.signal != 0) die_by(result.signal);
  return result.status;
}

}  // namespace

Action define_run(CLI::App& app) {
  const auto arguments = std::make_shared<RunArguments>();
  app.add_option("-o,--output", arguments->launch.directory, "run directory; default: cuheap-<command>-<date>-<pid>");
  app.add_option("--pool", arguments->launch.pool, "serve allocations from cuheap's own pool: auto, on or off")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  CLI::Option* const simgpu =
      app.add_option("--simgpu", arguments->launch.simgpu,
                     "run on the make-believe GPU: a device such as h100-80g, or 24GiB, 2x80GiB");
  simgpu->expected(0, 1);
  app.add_flag("--stage", arguments->launch.stage,
               "record into a folder below TMPDIR and move it to the run directory at the end; network file systems get this unasked");
  app.add_flag("--no-stacks", arguments->no_stacks, "record no call stacks");
  app.add_flag("-q,--quiet", arguments->quiet, "no summary at the end");
  return [arguments, simgpu](const Program& program) {
    LaunchOptions& options = arguments->launch;
    if (simgpu->count() != 0 && options.simgpu.empty()) options.simgpu = kDefaultDevice;
    if (!options.simgpu.empty()) check_device_spec(options.simgpu, "--simgpu");
    options.command = program;
    options.stacks = !arguments->no_stacks;
    return run(*arguments);
  };
}

}  // namespace cuheap
