// Runs a program in a process of its own, with or without the preload library, and hands back what it printed, how it
// ended and what was recorded. For e2e tests.
#pragma once
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace cuheap::testing {

/// A folder that goes away with its object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "cuheap-test-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct RunRequest {
  std::vector<std::string> command;                // program and arguments
  std::map<std::string, std::string> environment;  // added to ours; LD_PRELOAD and CUHEAP_* of ours are not inherited
  unsigned timeout_seconds = 60;
};

struct RunResult {
  std::string output;  // stdout
  std::string errors;  // stderr
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline RunResult run_program(const RunRequest& request) {
  const TemporaryFolder folder;
  const std::string output = folder.path() / "output", errors = folder.path() / "errors";
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(output.c_str(), O_CREAT | O_WRONLY, 0600), 1);
    dup2(open(errors.c_str(), O_CREAT | O_WRONLY, 0600), 2);
    for (const char* name : {"LD_PRELOAD", "CUHEAP_DIR", "CUHEAP_POOL", "CUHEAP_STACKS"}) unsetenv(name);
    for (const auto& [name, value] : request.environment) setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> arguments;
    for (const std::string& argument : request.command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    alarm(request.timeout_seconds);  // survives exec: a host that hangs is killed, and the test sees SIGALRM
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  RunResult result;
  result.output = read_text(output);
  result.errors = read_text(errors);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return result;
}

}  // namespace cuheap::testing
