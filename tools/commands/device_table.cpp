#include "tools/commands/device_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "tools/model/error.h"

namespace cuheap {
namespace {

constexpr KnownDevice kDevices[] = {
#define SIMGPU_DEVICE(key, name, total, capability, multiprocessors, context) \
  {key, name, total, capability, multiprocessors, context},
#include <device_names.inc>
#undef SIMGPU_DEVICE
};

// simgpu's own bounds: what it would refuse is refused here, in words about the flag.
constexpr double kSmallestDevice = 2 << 20;
constexpr int kMostDevices = 16;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// As the make-believe GPU reads a size; 0 if it is none.
double size_of(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0) return 0;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  if (unit.empty() || unit == "b") return number;
  static const std::array<std::array<const char*, 2>, 4> kUnits{{{"k", "kib"}, {"m", "mib"}, {"g", "gib"}, {"t", "tib"}}};
  double factor = 1;
  for (const auto& names : kUnits) {
    factor *= 1024;
    if (unit == names[0] || unit == names[1]) return number * factor;
  }
  return 0;
}

/// Why `item` is no device; empty if it is one.
std::string problem_of(const std::string& item) {
  if (std::any_of(std::begin(kDevices), std::end(kDevices), [&](const KnownDevice& d) { return item == d.key; })) return {};
  const double bytes = size_of(item);
  if (bytes >= kSmallestDevice) return {};
  if (bytes > 0 && size_of(item + "gib") >= kSmallestDevice) return fmt::format("no GPU has {} bytes; did you mean {}GiB?", item, item);
  if (bytes > 0) return "a device has at least 2 MiB; use a size such as 24GiB";
  std::string names;
  for (const KnownDevice& device : kDevices) names += std::string(" ") + device.key;
  return "no such device; use a size such as 24GiB, or one of:" + names;
}

/// Takes "2x" from the front of "2xt4".
double take_count(std::string& text) {
  std::size_t at = 0;
  while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) ++at;
  if (at == 0 || at + 1 >= text.size() || text[at] != 'x') return 1;
  const double count = std::strtod(text.substr(0, at).c_str(), nullptr);
  text = text.substr(at + 1);
  return count;
}

}  // namespace

std::span<const KnownDevice> known_devices() {
  return kDevices;
}

std::string device_table_version() {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const KnownDevice& device : kDevices) {
    for (const char c : fmt::format("{} {} {} {} {} {};", device.key, device.name, device.total_bytes,
                                    device.capability, device.multiprocessors, device.context_bytes)) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    }
  }
  return fmt::format("{}-{:08x}", CUHEAP_VERSION, hash);
}

void check_device_spec(const std::string& spec, const char* flag) {
  double devices = 0;
  std::size_t start = 0;
  while (start <= spec.size()) {
    const std::size_t comma = std::min(spec.find(',', start), spec.size());
    std::string item = lower(spec.substr(start, comma - start));
    const double count = take_count(item);
    if (const std::string problem = problem_of(item); !problem.empty())
      throw Error(fmt::format("{} {}: {}", flag, spec, problem));
    devices += count;
    if (count == 0 || devices > kMostDevices)
      throw Error(fmt::format("{} {}: asks for no device, or for more than {}", flag, spec, kMostDevices));
    start = comma + 1;
  }
}

}  // namespace cuheap
