// cuheap: the command line. A table of subcommands, the dispatch, and the only catch of the desk.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "tools/commands/command.h"
#include "tools/model/error.h"

namespace cuheap {
namespace {

constexpr int kUsage = 2;

const Command kCommands[] = {
    {"run", "record a program: cuheap run -- CMD", true, define_run},
    {"rehearse", "run a program on the make-believe GPU: what will it take, does it fit", true, define_rehearse},
    {"report", "write one self-contained page", false, define_report},
    {"summary", "floors and their peaks, and who made them", false, define_summary},
    {"flame", "live bytes of a moment by call stack", false, define_flame},
    {"leaks", "a verdict for every site: does it leak, how fast", false, define_leaks},
    {"frag", "idle memory at a moment, and who pins it", false, define_frag},
    {"oom", "every out-of-memory: who held the memory, what helps", false, define_oom},
    {"timeline", "the floors over time", false, define_timeline},
    {"import", "turn a PyTorch memory snapshot into a trace", false, define_import},
    {"export", "write folded stacks, speedscope or CSV", false, define_export},
    {"dump", "print a trace, one line a record", false, define_dump},
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

/// Words that nothing takes, in the order in which they were written. Before a program they mean that its `--` is missing.
int complain_of_extras(const CLI::App& sub, const Command& command, const Program& program) {
  std::string words;
  const std::vector<std::string> extras = sub.remaining();
  for (const std::string& word : extras) words += (words.empty() ? "" : " ") + word;
  if (command.takes_program && program.empty() && !extras.empty() && !extras[0].starts_with("-"))
    return complain(fmt::format("put -- before the program: cuheap {} -- {}", command.name, words));
  return complain(fmt::format("not expected: {} (see `cuheap {} --help`)", words, command.name));
}

/// Cuts CMD off at the first `--`, so that nothing in it can be taken for ours.
Program cut_program(std::vector<std::string>& words) {
  const auto cut = std::find(words.begin(), words.end(), "--");
  Program program(cut == words.end() ? cut : cut + 1, words.end());
  words.erase(cut, words.end());
  return program;
}

int run(std::vector<std::string> words) {
  CLI::App app("cuheap: the heap profiler and the defragmenting allocator for CUDA processes", "cuheap");
  app.set_version_flag("--version", std::string("cuheap ") + CUHEAP_VERSION);
  app.require_subcommand(1);
  std::vector<Action> actions;
  std::vector<CLI::App*> subs;
  for (const Command& command : kCommands) {
    subs.push_back(app.add_subcommand(command.name, command.help));
    actions.push_back(command.define(*subs.back()));
  }
  const std::string word = words.empty() ? "" : words[0];
  if (word.empty()) return complain("no command; `cuheap --help` lists them");
  if (word[0] != '-' && !is_command(word))
    return complain(fmt::format("{}: no such command; `cuheap --help` lists them", word));
  const Program program = cut_program(words);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::Success& help) { return app.exit(help); } catch (const CLI::ExtrasError& error) {
    for (std::size_t i = 0; i < subs.size(); ++i) {
      if (word == kCommands[i].name) return complain_of_extras(*subs[i], kCommands[i], program);
    }
    return complain_of(error, "");
  } catch (const CLI::ParseError& error) {
    return complain_of(error, is_command(word) ? word : "");
  }
  for (std::size_t i = 0; i < subs.size(); ++i) {
    if (!subs[i]->parsed()) continue;
    const bool takes_program = kCommands[i].takes_program;
    if (takes_program && program.empty())
      return complain(fmt::format("{0}: no program; write it behind --, as in `cuheap {0} -- python train.py`", word));
    if (!takes_program && !program.empty()) return complain(fmt::format("{}: takes no program behind --", word));
    return actions[i](program);
  }
  return kUsage;
}

}  // namespace
}  // namespace cuheap

int main(int argc, char** argv) {
  try {
    return cuheap::run({argv + 1, argv + argc});
  } catch (const cuheap::Error& error) { return cuheap::complain(error.what()); } catch (const std::exception& error) {
    return cuheap::complain(fmt::format("unexpected: {}", error.what()));
  }
}
