#include "simgpu/device_spec.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace cuheap::sim {
namespace {

// A device given only by its size answers like this one.
constexpr const char* kGenericModel = "a100-80g";

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool find_device(const std::string& key, DeviceChoice& out) {
  for (const DeviceSpec& spec : known_devices()) {
    if (key != spec.key) continue;
    out = {spec, spec.name};
    return true;
  }
  return false;
}

bool parse_one(const std::string& text, DeviceChoice& out, std::string& error) {
  if (find_device(lower(text), out)) return true;
  const uint64_t bytes = parse_size(text);
  // Below one granule nothing could ever be allocated.
  if (bytes >= (uint64_t{2} << 20)) {
    find_device(kGenericModel, out);
    out.spec.total_memory = bytes;
    out.spec.context_bytes = std::min(out.spec.context_bytes, bytes / 32);
    out.spec.key = "generic";
    out.name = "Simulated GPU " + text;
    return true;
  }
  error = "simgpu: unknown device '" + text + "'; use a size such as 24GiB or one of:";
  for (const DeviceSpec& spec : known_devices()) error += std::string(" ") + spec.key;
  return false;
}

/// Splits "3xREST": a repeat count is digits followed by x and something more.
size_t take_count(std::string& item) {
  size_t digits = 0;
  while (digits < item.size() && std::isdigit(static_cast<unsigned char>(item[digits]))) ++digits;
  if (digits == 0 || digits + 1 >= item.size() || std::tolower(static_cast<unsigned char>(item[digits])) != 'x') return 1;
  const size_t count = std::strtoul(item.c_str(), nullptr, 10);
  item = item.substr(digits + 1);
  return count;
}

}  // namespace

uint64_t parse_size(const std::string& text) {
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0]))) return 0;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = lower(end);
  double factor = 0;
  if (unit.empty() || unit == "b") factor = 1;
  if (unit == "k" || unit == "kib") factor = 1024.0;
  if (unit == "m" || unit == "mib") factor = 1024.0 * 1024;
  if (unit == "g" || unit == "gib") factor = 1024.0 * 1024 * 1024;
  if (unit == "t" || unit == "tib") factor = 1024.0 * 1024 * 1024 * 1024;
  return static_cast<uint64_t>(number * factor);
}

const std::vector<DeviceSpec>& known_devices() {
  static const auto& table = *new std::vector<DeviceSpec>{
#include <devices_table.inc>
  };
  return table;
}

bool parse_devices(const std::string& text, std::vector<DeviceChoice>& out, std::string& error) {
  out.clear();
  size_t start = 0;
  while (start <= text.size()) {
    const size_t comma = std::min(text.find(',', start), text.size());
    std::string item = text.substr(start, comma - start);
    item.erase(std::remove_if(item.begin(), item.end(), [](unsigned char c) { return std::isspace(c); }), item.end());
    const size_t count = take_count(item);
    DeviceChoice choice;
    if (!parse_one(item, choice, error)) return false;
    for (size_t i = 0; i < count; ++i) out.push_back(choice);
    if (out.empty() || out.size() > static_cast<size_t>(kMaxDevices)) {
      error = "simgpu: '" + text + "' asks for no device or for more than " + std::to_string(kMaxDevices);
      return false;
    }
    start = comma + 1;
  }
  return true;
}

}  // namespace cuheap::sim
