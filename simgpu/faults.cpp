#include "simgpu/faults.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "simgpu/device_spec.h"

namespace cuheap::sim {
namespace {

bool parse_number(const std::string& text, int64_t& out) {
  char* end = nullptr;
  out = std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == 0;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (size_t start = 0;;) {
    const size_t end = std::min(text.find(at, start), text.size());
    parts.push_back(text.substr(start, end - start));
    if (end == text.size()) return parts;
    start = end + 1;
  }
}

bool set_code(Fault& fault, int64_t code) {
  if (code < -1 || code > 999) return false;
  fault.hangs = code == -1;
  fault.code = fault.hangs ? 0 : static_cast<int>(code);
  return true;
}

bool set_field(Fault& fault, const std::string& field) {
  if (field == "hang") return fault.hangs = true;
  const size_t equals = std::min(field.find('='), field.size());
  const std::string key = field.substr(0, equals), value = field.substr(std::min(equals + 1, field.size()));
  if (key == "capacity") return (fault.capacity = parse_size(value)) > 0;
  int64_t number = 0;
  if (!parse_number(value, number)) return false;
  if (key == "code") return set_code(fault, number);
  if (number < 0) return false;
  if (key == "nth") return (fault.nth = static_cast<uint64_t>(number)) > 0;
  if (key == "every") return (fault.every = static_cast<uint64_t>(number)) > 0;
  if (key == "device") return fault.device = static_cast<int>(number), number < kMaxDevices;
  return false;
}

bool set_short_form(Fault& fault, const std::string& nth, const std::string& code) {
  int64_t count = 0, answer = 0;
  if (!parse_number(nth, count) || !parse_number(code, answer) || count < 0) return false;
  fault.nth = static_cast<uint64_t>(count);
  return set_code(fault, answer);
}

bool parse_one(const std::string& item, Fault& fault) {
  const auto parts = split(item, ':');
  fault.name = parts[0];
  if (parts.size() == 3 && set_short_form(fault, parts[1], parts[2])) return true;
  for (size_t i = 1; i < parts.size(); ++i)
    if (!set_field(fault, parts[i])) return false;
  return fault.code != 0 || fault.hangs || fault.capacity != 0;
}

}  // namespace

bool Fault::is_due() {
  ++seen;
  return nth != 0 ? seen == nth : seen % every == 0;
}

bool parse_faults(const std::string& text, std::vector<Fault>& out, std::string& error) {
  std::vector<Fault> faults;
  for (std::string item : split(text, ',')) {
    std::erase_if(item, [](unsigned char c) { return std::isspace(c); });
    if (item.empty()) continue;
    Fault fault;
    if (!parse_one(item, fault))
      return error = "wants NAME:nth=N or every=N:code=N, hang or capacity=SIZE[:device=N], or NAME:NTH:CODE, not '" + item + "'", false;
    if (!is_function(fault.name)) return error = "names no function of the driver: '" + fault.name + "'", false;
    faults.push_back(std::move(fault));
  }
  out.insert(out.end(), faults.begin(), faults.end());
  return true;
}

bool names_function(const std::string& wanted, const char* symbol) {
  if (wanted == symbol) return true;
  const size_t n = wanted.size();
  return std::strncmp(symbol, wanted.c_str(), n) == 0 && symbol[n] == '_' && symbol[n + 1] == 'v' && std::strlen(symbol) == n + 3;
}

}  // namespace cuheap::sim
