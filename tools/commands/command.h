// Command: one subcommand of `cuheap`: its words on the command line and what they start. One file each; main.cpp has
// the table. A command parses, calls reader and analysis, prints; it computes nothing itself.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace cuheap {

/// The words behind `--`: a program and its arguments. Never parsed by us.
using Program = std::vector<std::string>;

/// Does the work, returns the exit code (0 fine, 1 findings). Throws Error for what a person has to put right.
using Action = std::function<int(const Program&)>;

struct Command {
  const char* name;
  const char* help;
  bool takes_program;  // CMD behind --
  /// Adds the flags to the subcommand and answers what to do once they are parsed.
  Action (*define)(CLI::App& app);
};

Action define_run(CLI::App& app);
Action define_rehearse(CLI::App& app);
Action define_report(CLI::App& app);
Action define_summary(CLI::App& app);
Action define_flame(CLI::App& app);
Action define_leaks(CLI::App& app);
Action define_frag(CLI::App& app);
Action define_oom(CLI::App& app);
Action define_timeline(CLI::App& app);
Action define_import(CLI::App& app);
Action define_export(CLI::App& app);
Action define_dump(CLI::App& app);

}  // namespace cuheap
