#include "tools/commands/arguments.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <set>

#include "tools/model/error.h"

namespace cuheap {

void TraceArguments::add_trace(CLI::App& app) {
  app.add_option("TRACE", trace, "trace file, or the directory of a run")->required();
}
void TraceArguments::add_json(CLI::App& app) {
  app.add_flag("--json", json, "print JSON (docs/json.md)");
}
void TraceArguments::add_at(CLI::App& app) {
  app.add_option("--at", at, "moment: peak, end, oom (the last one), or time since the start (1.5s, 300ms, 2m)")
      ->capture_default_str();
}
void TraceArguments::add_window(CLI::App& app) {
  app.add_option("--from", from, "begin of a window: time since the start");
  app.add_option("--to", to, "end of the window");
}
void TraceArguments::add_selection(CLI::App& app) {
  app.add_option("--floor", floor, "physical, allocation or framework; default: the one closest to the program");
  app.add_option("--device", device, "ordinal of the device, -1 the host; default: all devices");
}

Floor TraceArguments::wanted_floor() const {
  if (floor.empty()) return Floor::None;
  for (const Floor candidate : {Floor::Physical, Floor::Allocation, Floor::Framework}) {
    if (floor == floor_name(candidate)) return candidate;
  }
  throw Error(fmt::format("--floor {}: no such floor; use physical, allocation or framework", floor));
}

std::optional<std::int16_t> TraceArguments::wanted_device(const Trace& of) const {
  if (!device) return std::nullopt;
  std::set<int> known{-1};
  for (const TraceDevice& d : of.devices) known.insert(d.ordinal);
  if (known.size() > 1 && !known.contains(*device)) {
    std::string names;
    for (const int ordinal : known) names += fmt::format("{}{}", names.empty() ? "" : ", ", ordinal);
    throw Error(fmt::format("--device {}: {} has no such device; it has {} (-1 is the host)", *device, of.path, names));
  }
  return static_cast<std::int16_t>(*device);
}

std::uint64_t parse_time_ns(std::string_view text, const char* flag) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const struct {
    std::string_view name;
    double ns;
  } kUnits[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}};
  for (const auto& known : kUnits) {
    if (error == std::errc() && unit == known.name && std::isfinite(value) && value >= 0 && value * known.ns < 9e18) {
      return static_cast<std::uint64_t>(std::llround(value * known.ns));
    }
  }
  throw Error(
      fmt::format("{} {}: not a time; write it as 1.5s, 300ms, 2m, or a word that the flag's help names", flag, text));
}

}  // namespace cuheap
