#include "tracer/base/options.h"

#include <unistd.h>

#include <atomic>
#include <cstring>

#include "tracer/base/message.h"

namespace cuheap {
namespace {

bool is_word(const char* text, const char* word) { return strcmp(text, word) == 0; }

bool parse(const char* text, option_type::Text& out) {
  const std::size_t size = strlen(text);
  if (size >= sizeof(out.value)) return false;
  memcpy(out.value, text, size + 1);
  return true;
}

bool parse(const char* text, bool& out) {
  if (is_word(text, "1") || is_word(text, "on") || is_word(text, "true") || is_word(text, "yes")) return out = true;
  if (!is_word(text, "0") && !is_word(text, "off") && !is_word(text, "false") && !is_word(text, "no")) return false;
  out = false;
  return true;
}

bool parse(const char* text, std::uint64_t& out) { return parse_size(text, &out); }

bool parse(const char* text, Stacks& out) {
  if (is_word(text, "native")) out = Stacks::Native;
  else if (is_word(text, "off")) out = Stacks::Off;
  else return false;
  return true;
}

bool parse(const char* text, PoolMode& out) {
  if (is_word(text, "auto")) out = PoolMode::Auto;
  else if (is_word(text, "on")) out = PoolMode::On;
  else if (is_word(text, "off")) out = PoolMode::Off;
  else return false;
  return true;
}

bool parse(const char* text, PoolFree& out) {
  if (is_word(text, "sync")) out = PoolFree::Sync;
  else if (is_word(text, "ordered")) out = PoolFree::Ordered;
  else return false;
  return true;
}

// Buffers for numbers: one is in use at a time.
struct Printed {
  char digits[24];
};

const char* print(const option_type::Text& value, Printed&) { return value.value; }
const char* print(bool value, Printed&) { return value ? "1" : "0"; }
const char* print(std::uint64_t value, Printed& printed) {
  char* at = printed.digits + sizeof(printed.digits);
  *--at = '\0';
  do {
    *--at = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  return at;
}
const char* print(Stacks value, Printed&) { return value == Stacks::Native ? "native" : "off"; }
const char* print(PoolMode value, Printed&) {
  return value == PoolMode::Auto ? "auto" : value == PoolMode::On ? "on" : "off";
}
const char* print(PoolFree value, Printed&) { return value == PoolFree::Sync ? "sync" : "ordered"; }

constinit Options process_options;
constinit std::atomic<bool> process_options_read{false};

struct KeptEnvironment {
  static constexpr std::size_t kMaxVariables = 32;
  const char* block[kMaxVariables + 1];
  char text[8192];
};
constinit KeptEnvironment at_load = {};

}  // namespace

const char* find_variable(const char* const* environment, const char* name) {
  const std::size_t length = strlen(name);
  for (; environment != nullptr && *environment != nullptr; ++environment)
    if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') return *environment + length + 1;
  return nullptr;
}

const char* const* environment_block() { return environ; }

bool parse_number(const char* text, std::uint64_t* value) {
  std::uint64_t result = 0;
  if (*text == '\0') return false;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9') return false;
    if (__builtin_mul_overflow(result, std::uint64_t{10}, &result)) return false;
    if (__builtin_add_overflow(result, static_cast<std::uint64_t>(*text - '0'), &result)) return false;
  }
  *value = result;
  return true;
}

bool parse_size(const char* text, std::uint64_t* value) {
  char digits[24];
  std::size_t size = 0;
  while (text[size] >= '0' && text[size] <= '9' && size + 1 < sizeof(digits)) {
    digits[size] = text[size];
    ++size;
  }
  digits[size] = '\0';
  std::uint64_t number = 0;
  if (!parse_number(digits, &number)) return false;
  const char* unit = text + size;
  unsigned shift = 0;
  switch (*unit) {
    case '\0': *value = number; return true;
    case 'K': case 'k': shift = 10; break;
    case 'M': case 'm': shift = 20; break;
    case 'G': case 'g': shift = 30; break;
    case 'T': case 't': shift = 40; break;
    default: return false;
  }
  ++unit;
  if (!is_word(unit, "") && !is_word(unit, "iB") && !is_word(unit, "B")) return false;
  return !__builtin_mul_overflow(number, std::uint64_t{1} << shift, value);
}

void remember_environment(const char* const* environment) {
  constexpr char kOurs[] = "CUHEAP_";
  std::size_t count = 0, used = 0;
  for (; environment != nullptr && *environment != nullptr && count < KeptEnvironment::kMaxVariables; ++environment) {
    if (strncmp(*environment, kOurs, sizeof(kOurs) - 1) != 0) continue;
    const std::size_t size = strlen(*environment) + 1;
    if (size > sizeof(at_load.text) - used) continue;
    memcpy(at_load.text + used, *environment, size);
    at_load.block[count++] = at_load.text + used;
    used += size;
  }
  at_load.block[count] = nullptr;
}

void read_options(Options& options, const char* const* environment, const char* const* earlier) {
  const auto find = [=](const char* name) {
    const char* const now = find_variable(environment, name);
    return now != nullptr ? now : find_variable(earlier, name);
  };
#define CUHEAP_OPTION(type, member, name, default_value, takes, help)  \
  if (const char* const text = find(name); text != nullptr && *text != '\0') \
    if (!parse(text, options.member)) message::option_ignored(name, text, takes);
#include "tracer/base/options.inc"
#undef CUHEAP_OPTION
}

const Options& options() {
  if (!process_options_read.exchange(true, std::memory_order_acq_rel)) read_options(process_options, environment_block(), at_load.block);
  return process_options;
}

void for_each_set_option(const Options& options, void (*visit)(const char*, const char*, void*), void* state) {
  static constexpr Options kDefaults;
  const auto differs = [](const auto& a, const auto& b) { return memcmp(&a, &b, sizeof(a)) != 0; };
  Printed printed;
#define CUHEAP_OPTION(type, member, name, default_value, takes, help) \
  if (differs(options.member, kDefaults.member)) visit(name, print(options.member, printed), state);
#include "tracer/base/options.inc"
#undef CUHEAP_OPTION
}

}  // namespace cuheap
