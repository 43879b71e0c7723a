#include "tools/commands/device_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "tools/model/error.h"

namespace cuheap {
namespace {

constexpr KnownDevice kDevices[] = {
#define SIMGPU_DEVICE(key, name, total, capability, multiprocessors, context) \
  {key, name, total, capability, multiprocessors, context},
#include <device_names.inc>
#undef SIMGPU_DEVICE
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_size(const std::string& text) {
  std::size_t at = 0;
  while (at < text.size() && (std::isdigit(static_cast<unsigned char>(text[at])) != 0 || text[at] == '.')) ++at;
  static const std::array<const char*, 10> kUnits{"", "b", "k", "kib", "m", "mib", "g", "gib", "t", "tib"};
  return at > 0 && text[0] != '.' && std::find(kUnits.begin(), kUnits.end(), text.substr(at)) != kUnits.end();
}

std::string without_count(const std::string& text) {
  std::size_t at = 0;
  while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) ++at;
  return at > 0 && at + 1 < text.size() && text[at] == 'x' ? text.substr(at + 1) : text;
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
  std::size_t start = 0;
  while (start <= spec.size()) {
    const std::size_t comma = std::min(spec.find(',', start), spec.size());
    const std::string item = without_count(lower(spec.substr(start, comma - start)));
    const bool known =
        std::any_of(std::begin(kDevices), std::end(kDevices), [&](const KnownDevice& d) { return item == d.key; });
    if (!known && !is_size(item)) {
      std::string names;
      for (const KnownDevice& device : kDevices) names += std::string(" ") + device.key;
      throw Error(fmt::format("{} {}: no such device; use a size such as 24GiB, or one of:{}", flag, spec, names));
    }
    start = comma + 1;
  }
}

}  // namespace cuheap
