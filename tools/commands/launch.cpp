#include "tools/commands/launch.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>

#include "tools/commands/install.h"
#include "tools/model/error.h"
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
    problem = fmt::format("cannot make {}: {}", path.string(), error.message());
    return std::nullopt;
  }
  const std::string probe = (path / fmt::format(".cuheap-{}", ::getpid())).string();
  const int fd = ::open(probe.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) {
    problem = fmt::format("cannot write into {}: {}", path.string(), std::strerror(errno));
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
  if (!fs::is_regular_file(path, ignored)) return error == ENOENT ? "command not found" : std::strerror(error);
  if (::access(program.c_str(), X_OK) != 0)
    return "exists but is not executable; " +
           (path.extension() == ".py" ? "python " + program + "?" : "chmod +x " + program + "?");
  if (path.has_parent_path()) return std::strerror(error);
  return "command not found; ./" + program + " is here, did you mean that?";
}

volatile sig_atomic_t child_pid = 0;

/// A key on the terminal reaches the program by itself, as a member of the foreground group; what another process sent
/// to us was meant for it.
void forward(int signal, siginfo_t* info, void*) {
  const int saved = errno;
  if (child_pid > 0 && info->si_code != SI_KERNEL) ::kill(static_cast<pid_t>(child_pid), signal);
  errno = saved;
}

constexpr int kForwarded[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT};
constexpr std::size_t kForwardedCount = std::size(kForwarded);

/// Our handlers while the program runs; the program itself gets what we were given.
class SignalForwarding {
 public:
  SignalForwarding() {
    struct sigaction action {};
    action.sa_sigaction = forward;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    for (std::size_t i = 0; i < kForwardedCount; ++i) ::sigaction(kForwarded[i], &action, &old_[i]);
    action.sa_handler = SIG_DFL;
    action.sa_flags = 0;
    ::sigaction(SIGCHLD, &action, &old_child_);  // ignored, it would take the exit status away
    ::sigaction(SIGPIPE, &action, &old_pipe_);
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, &old_mask_);  // until the child's number is known
  }
  ~SignalForwarding() {
    for (std::size_t i = 0; i < kForwardedCount; ++i) ::sigaction(kForwarded[i], &old_[i], nullptr);
  }
  void restore_in_child() const {
    for (std::size_t i = 0; i < kForwardedCount; ++i) ::sigaction(kForwarded[i], &old_[i], nullptr);
    ::sigaction(SIGCHLD, &old_child_, nullptr);
    ::sigaction(SIGPIPE, &old_pipe_, nullptr);
    ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }
  void begin(pid_t child) {
    child_pid = child;
    ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }

 private:
  struct sigaction old_[kForwardedCount] {};
  struct sigaction old_child_ {};
  struct sigaction old_pipe_ {};
  sigset_t old_mask_{};
};

[[noreturn]] void become(const LaunchOptions& options, int report_fd) {
  std::vector<char*> arguments;
  for (const std::string& word : options.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // Whoever kills us means the program: it must not stay behind, holding the GPU.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (options.stdout_to_stderr) ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(report_fd, &error, sizeof error);
  ::_exit(127);
}

int status_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 127;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// The program's end as a shell tells it; `exec_error` is set if it never began.
int run_program(const LaunchOptions& options, int& exec_error) {
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot start {}: {}", options.command[0], std::strerror(errno)));
  SignalForwarding signals;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    signals.restore_in_child();
    become(options, report[1]);
  }
  ::close(report[1]);
  signals.begin(child);
  if (child < 0) {
    exec_error = errno;
    ::close(report[0]);
    return 127;
  }
  ssize_t got = 0;
  while ((got = ::read(report[0], &exec_error, sizeof exec_error)) < 0 && errno == EINTR) {}
  if (got <= 0) exec_error = 0;
  ::close(report[0]);
  return status_of(child);
}

}  // namespace

void tell(const std::string& line) {
  fmt::print(stderr, "cuheap: {}\n", line);
}

LaunchResult launch(const LaunchOptions& options) {
  LaunchResult result;
  std::string problem;
  std::string library;
  std::optional<std::string> directory;
  if (const auto found = find_preload_library(problem)) {
    directory = make_directory(options, problem);
    if (directory) library = *found;
  }
  if (!directory) tell(fmt::format("not recording: {}; the program runs as without cuheap", problem));
  set_environment(options, library, directory.value_or(""));
  int exec_error = 0;
  result.status = run_program(options, exec_error);
  result.started = exec_error == 0;
  if (exec_error != 0) {
    tell(fmt::format("{}: {}", options.command[0], exec_problem(options.command[0], exec_error)));
    result.status = exec_error == EACCES ? 126 : 127;
    std::error_code ignored;
    if (directory) fs::remove(*directory, ignored);  // only if it is empty
  }
  result.directory = directory.value_or("");
  return result;
}

}  // namespace cuheap
