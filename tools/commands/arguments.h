// Words on the command line that several commands understand: which trace, which moment, floor and device.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/model/trace.h"

namespace cuheap {

struct TraceArguments {
  std::string trace;
  bool json = false;
  std::string at = "peak";
  std::string from, to;
  std::string floor;
  std::optional<int> device;

  void add_trace(CLI::App& app);
  void add_json(CLI::App& app);
  void add_at(CLI::App& app);
  void add_window(CLI::App& app);
  void add_selection(CLI::App& app);  // --floor and --device

  /// Floor::None if not given; throws Error for a name that is none.
  Floor wanted_floor() const;
  /// As given; throws Error if the trace has devices and this is none of them.
  std::optional<std::int16_t> wanted_device(const Trace& of) const;
};

/// `1.5s`, `300ms`, `2m`, `1h`, `250us`, `17ns`, bare seconds: time since the start of the recording. Throws Error.
std::uint64_t parse_time_ns(std::string_view text, const char* flag);

}  // namespace cuheap
