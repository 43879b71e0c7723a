// Runs a program as a child that nobody can tell from the command itself: signals, stops at the terminal and the end pass
// through. Below launch, which decides what is run and where it is recorded.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace cuheap {

struct ChildEnd {
  pid_t pid = 0;
  int status = 127;    // as a shell has it: the program's, or 128 + signal
  int signal = 0;      // that ended it
  int exec_error = 0;  // errno if it never began
};

/// Returns when the program has ended. Throws Error if the system cannot make another process.
ChildEnd run_child(const std::vector<std::string>& command, bool stdout_to_stderr);

/// Ends this process by that signal, so that whoever waits for us sees what it would have seen of the program. Returns
/// only where a signal cannot end us (the first process of a container).
void die_by(int signal);

}  // namespace cuheap
