#include "tools/commands/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "tools/commands/notes.h"

namespace cuheap {
namespace {

constexpr std::size_t kMaxLossLines = 10;

/// Length of the UTF-8 character at `at`; 0 if there is none.
std::size_t utf8_length(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at), second = byte(at + 1);
  std::size_t length = 0;
  if (first < 0x80) length = 1;
  if (first >= 0xc2 && first < 0xe0) length = 2;
  if (first >= 0xe0 && first < 0xf0) length = 3;
  if (first >= 0xf0 && first < 0xf5) length = 4;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool too_large = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

std::string size_text(std::uint64_t bytes) {
  static const std::array<const char*, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); value /= 1024) ++unit;
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, kUnits[unit]);
}

std::string duration_text(std::uint64_t ns) {
  const double seconds = static_cast<double>(ns) / 1e9;
  if (seconds >= 5400) return fmt::format("{:.1f} h", seconds / 3600);
  if (seconds >= 120) return fmt::format("{:.1f} min", seconds / 60);
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string count_text(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string percent_text(double share) {
  return fmt::format("{:.1f} %", share * 100);
}

std::uint64_t since_start(const Trace& trace, std::uint64_t time_ns) {
  const std::uint64_t time = std::min(time_ns, std::max(trace.end_ns, trace.start_ns));
  return time > trace.start_ns ? time - trace.start_ns : 0;
}

std::string when_text(const Trace& trace, std::uint64_t time_ns) {
  return duration_text(since_start(trace, time_ns));
}

Json json_head(const Trace& trace) {
  Json reasons = Json::array();
  for (const std::string& reason : trace.loss_reasons()) reasons.push_back(printable(reason));
  Json notes = Json::array();
  for (const std::string& note : trace.notes) notes.push_back(printable(note));
  return {{"cuheap", CUHEAP_VERSION},
          {"trace", printable(trace.path)},
          {"ground", ground_name(trace.ground)},
          {"loss", {{"events", trace.lost_events()}, {"reasons", std::move(reasons)}}},
          {"notes", std::move(notes)}};
}

Json site_json(const Trace& trace, SiteId site) {
  Json frames = Json::array();
  for (const Frame& frame : trace.stack(site)) {
    frames.push_back({{"function", printable(frame.function)},
                      {"file", printable(frame.file)},
                      {"line", frame.line},
                      {"module", printable(frame.module)},
                      {"language", frame.language == FrameLanguage::Python ? "python" : "native"}});
  }
  return {{"frames", std::move(frames)}};
}

void print_json(const Json& json) {
  fmt::print("{}\n", json.dump());
}

void print_losses(const Trace& trace, std::FILE* out) {
  const std::vector<std::string> reasons = trace.loss_reasons();
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (i == kMaxLossLines) {
      fmt::print(out, "LOST: {} more lines; --json has all\n", reasons.size() - i);
      break;
    }
    fmt::print(out, "LOST: {}\n", printable(reasons[i]));
  }
  print_notes(trace);
}

void print_notes(const Trace& trace) {
  if (!trace.notes.empty()) fmt::print(stderr, "note: {}\n", printable(trace.notes.front()));
  if (trace.notes.size() > 1)
    fmt::print(stderr, "note: {} more of that kind; --json has all\n", trace.notes.size() - 1);
}

std::string uuid_text(const TraceDevice& device) {
  if (device.uuid.size() != 16) return {};
  std::string text = "GPU-";
  for (std::size_t i = 0; i < device.uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(device.uuid[i]));
  }
  return text;
}

std::string other_numbers_text(const Trace& trace, std::int16_t device) {
  std::string text;
  for (const TraceDevice& d : trace.devices) {
    if (d.ordinal != device || d.seen_as == device || d.process >= trace.processes.size()) continue;
    const Process& process = trace.processes[d.process];
    const std::string who = process.rank >= 0 ? fmt::format("rank {}", process.rank) : fmt::format("pid {}", process.pid);
    text += fmt::format("{}{} sees it as {}", text.empty() ? "" : ", ", who, d.seen_as);
  }
  return text;
}

std::string ground_text(const Trace& trace) {
  std::string devices;
  std::vector<std::string> names;
  for (const TraceDevice& device : trace.devices) {
    if (!device.name.empty() && std::find(names.begin(), names.end(), device.name) == names.end())
      names.push_back(device.name);
  }
  for (const std::string& name : names) devices += (devices.empty() ? " " : ", ") + printable(name);
  switch (trace.ground) {
    case Ground::Simulated:
      return devices.empty() ? "simulated" : "simulated on" + devices;
    case Ground::Imported:
      return devices.empty() ? "imported" : "imported," + devices;
    case Ground::Gpu:
      break;
  }
  return "real GPU" + devices;
}

void print_processes(const Trace& trace, std::FILE* out) {
  for (const Process& process : trace.processes) {
    const auto command = process.meta.find("command");
    std::string line = command != process.meta.end() ? printable(command->second) : process.file;
    if (line.size() > 100) line = line.substr(0, 97) + "...";
    line += process.pid != 0 ? fmt::format("  pid {}", process.pid) : "";
    if (process.rank >= 0) line += fmt::format("  rank {}", process.rank);
    if (!process.ended_orderly) line += "  (no orderly end: killed, or still running)";
    fmt::print(out, "{}\n", line);
  }
  fmt::print(out, "{}, {}, {} events\n", ground_text(trace), duration_text(trace.end_ns - trace.start_ns),
             count_text(trace.event_count));
}

std::string printable(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    const unsigned char byte = static_cast<unsigned char>(text[at]);
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
      ++at;
    } else {
      result.append(text, at, length);
      at += length;
    }
  }
  return result;
}

}  // namespace cuheap
