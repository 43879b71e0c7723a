// Runs a person's program under cuheap: the environment that loads the recorder, the directory it writes to; the
// process itself is child_process's. What cannot be recorded runs all the same.
#pragma once
#include <string>
#include <vector>

namespace cuheap {

struct LaunchOptions {
  std::vector<std::string> command;
  std::string directory;  // empty: cuheap-<command>-<date>-<pid>
  std::string pool;       // auto, on, off; empty: as the environment says
  std::string simgpu;     // SPEC; empty: the machine's own GPU
  bool stacks = true;
  bool stage = false;             // record into a local folder and move it, whatever the directory is on
  bool stdout_to_stderr = false;  // where our own stdout is for somebody else
};

struct LaunchResult {
  int status = 0;  // as a shell would have it: the program's, 128 + signal, 127 not found
  int signal = 0;  // that ended the program
  bool started = false;
  std::string directory;  // where the traces are; empty if nothing was recorded
  std::string not_recorded;  // why not, and what to do; empty if it was
};

/// Throws Error only for what makes the wish itself impossible: a simulated GPU that is not there.
LaunchResult launch(const LaunchOptions& options);

/// One line on stderr, with our name in front.
void tell(const std::string& line);

}  // namespace cuheap
