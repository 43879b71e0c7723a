// The CUHEAP_ options, read once from the environment block itself: getenv may be the host's, and may be called while
// another thread changes the environment. A copy from load stands in for what the program has cleared since, or written over
// (setproctitle). The list is options.inc.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cuheap {

enum class Stacks : std::uint8_t { Native, Off };
enum class PoolMode : std::uint8_t { Auto, On, Off };
enum class PoolFree : std::uint8_t { Sync, Ordered };

/// Longest value of a Text option; longer ones are refused.
constexpr std::size_t kMaxOptionText = 1024;

namespace option_type {
struct Text {
  char value[kMaxOptionText];
};
using Flag = bool;
using Number = std::uint64_t;
using Size = std::uint64_t;
using cuheap::PoolFree;
using cuheap::PoolMode;
using cuheap::Stacks;
}  // namespace option_type

struct Options {
#define CUHEAP_OPTION(type, member, name, default_value, takes, help) option_type::type member = {default_value};
#include "tracer/base/options.inc"
#undef CUHEAP_OPTION
};

/// Fills `options` from an environment block ("NAME=value", ended by null), and from `earlier` what is not in it. A wrong
/// value: one line and the default.
void read_options(Options& options, const char* const* environment, const char* const* earlier = nullptr);

/// Copies the CUHEAP_ variables. At load, where only one thread runs.
void remember_environment(const char* const* environment);

/// The process's options, read at the first call. Call it first where only one thread runs.
const Options& options();

/// Calls visit(name, text of the value) for every option that is not at its default.
void for_each_set_option(const Options& options, void (*visit)(const char* name, const char* value, void* state), void* state);

/// The value of a variable in an environment block, or null.
const char* find_variable(const char* const* environment, const char* name);
/// The process's environment block.
const char* const* environment_block();
/// A whole decimal number, or false.
bool parse_number(const char* text, std::uint64_t* value);
/// A size: a number and an optional unit (KiB, K, KB: all 1024), or false.
bool parse_size(const char* text, std::uint64_t* value);

}  // namespace cuheap
