// One host of tests/programs: how it is run, and what its trace says.
#pragma once
#include <algorithm>

#include "tests/support/run_program.h"
#include "tools/reader/trace_reader.h"

namespace cuheap::testing {

/// Program and arguments as "name argument"; "@x" is a file x beside the programs.
inline std::vector<std::string> host_command(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> command;
  for (std::string word; words >> word;) {
    const bool file = command.empty() || word[0] == '@';
    command.push_back(file ? std::string(CUHEAP_PROGRAMS "/") + word.substr(word[0] == '@' ? 1 : 0) : word);
  }
  return command;
}

/// Where libcuda.so.1 comes from: simgpu, or the odd driver for programs linked against that.
inline std::map<std::string, std::string> bare_environment(const std::string& line) {
  const bool odd = line.starts_with("sideways");
  if (line.starts_with("reloads")) return {{"LD_LIBRARY_PATH", CUHEAP_PROGRAMS "/no_device"}};
  const bool two = line.starts_with("peers") || line.starts_with("other_");
  return {{"LD_LIBRARY_PATH", odd ? CUHEAP_PROGRAMS "/odd_driver" : CUHEAP_SIMGPU}, {"SIMGPU_DEVICES", two ? "2x8GiB" : "8GiB"}};
}

class Host {
 public:
  /// Runs under the library; recorded into a folder of this object's.
  explicit Host(const std::string& line, std::map<std::string, std::string> environment = {{"CUHEAP_POOL", "off"}}) {
    environment.merge(bare_environment(line));
    environment.insert({"LD_PRELOAD", CUHEAP_LIBRARY});
    environment.insert({"CUHEAP_DIR", directory()});
    result = run_program({.command = host_command(line), .environment = environment});
  }

  std::string directory() const { return folder_.path() / "run"; }

  std::size_t traces() const {
    std::error_code error;
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory(), error)) count += entry.path().extension() == kTraceExtension;
    return count;
  }

  const Trace& trace() {
    if (!trace_.events) trace_ = open_trace(directory());
    return trace_;
  }

  std::vector<Event> events() {
    std::vector<Event> all;
    trace().events->for_each([&all](std::span<const Event> batch) { all.insert(all.end(), batch.begin(), batch.end()); });
    return all;
  }

  std::vector<Event> events(EventKind kind) {
    std::vector<Event> all = events();
    std::erase_if(all, [kind](const Event& event) { return event.kind != kind; });
    return all;
  }

  /// The only Allocate event of this size; a default one if there is none or are several.
  Event allocation(std::uint64_t size) {
    std::vector<Event> all = events(EventKind::Allocate);
    std::erase_if(all, [size](const Event& event) { return event.size != size; });
    return all.size() == 1 ? all[0] : Event{};
  }

  /// The event of that kind which the block met: of its address, after its birth and before the next birth there.
  Event fate(const Event& block, EventKind kind) {
    bool born = false;
    for (const Event& event : events()) {
      if (event.address != block.address || event.process != block.process || event.floor != block.floor) continue;
      if (born && event.kind == EventKind::Allocate) break;
      born |= event == block;
      if (born && event.kind == kind) return event;
    }
    return {};
  }
  bool is_freed(const Event& block) { return fate(block, EventKind::Free).kind == EventKind::Free; }

  bool has_frame(SiteId site, const std::string& function) {
    for (const Frame& frame : trace().stack(site)) {
      if (frame.function.find(function) != std::string::npos) return true;
    }
    return false;
  }

  RunResult result;

 private:
  TemporaryFolder folder_;
  Trace trace_;
};

}  // namespace cuheap::testing
