// cuheap: the command line. A table of subcommands, the dispatch, and the only catch of the desk.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <string>
#include <vector>

#include "tools/commands/command.h"
#include "tools/model/error.h"

namespace cuheap {
namespace {

constexpr int kUsage = 2;

const Command kCommands[] = {
    {"summary", "floors and their peaks, and who made them", define_summary},
    {"flame", "live bytes of a moment by call stack", define_flame},
    {"frag", "idle memory at a moment, and who pins it", define_frag},
    {"timeline", "the floors over time", define_timeline},
    {"import", "turn a PyTorch memory snapshot into a trace", define_import},
    {"dump", "print a trace, one line a record", define_dump},
};

int complain(const std::string& line) {
  fmt::print(stderr, "cuheap: {}\n", line);
  return kUsage;
}

bool is_command(const std::string& word) {
  return std::any_of(std::begin(kCommands), std::end(kCommands), [&](const Command& c) { return word == c.name; });
}

/// The place and the remedy, in one line; CLI11's own text would be a paragraph.
int complain_of(const CLI::ParseError& error, const std::string& command) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return complain(fmt::format("{} (see `cuheap {}--help`)", text, command.empty() ? "" : command + " "));
}

int run(int argc, char** argv) {
  CLI::App app("cuheap: the heap profiler and the defragmenting allocator for CUDA processes", "cuheap");
  app.set_version_flag("--version", std::string("cuheap ") + CUHEAP_VERSION);
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Command& command : kCommands) {
    CLI::App* const sub = app.add_subcommand(command.name, command.help);
    actions.emplace_back(sub, command.define(*sub));
  }
  const std::string word = argc > 1 ? argv[1] : "";
  if (word.empty()) return complain("no command; `cuheap --help` lists them");
  if (word[0] != '-' && !is_command(word)) return complain(fmt::format("{}: no such command; `cuheap --help` lists them", word));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return complain_of(error, is_command(word) ? word : "");
  }
  for (const auto& [sub, action] : actions) {
    if (sub->parsed()) return action();
  }
  return kUsage;
}

}  // namespace
}  // namespace cuheap

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // `cuheap dump | head` ends quietly
  try {
    return cuheap::run(argc, argv);
  } catch (const cuheap::Error& error) {
    return cuheap::complain(error.what());
  } catch (const std::exception& error) {
    return cuheap::complain(fmt::format("unexpected: {}", error.what()));
  }
}
