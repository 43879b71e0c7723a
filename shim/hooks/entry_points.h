// The hook table as data: which names are hooked, by what, and what was looked at and left alone.
#pragma once
#include <cstddef>
#include <cstdint>

#include "shim/driver/driver.h"

namespace cuheap {

enum class Need : std::uint8_t { Required, Optional };
enum class Action : std::uint8_t { Serve, Trace, Watch, Lookup };

struct EntryPoint {
  const char* name;
  void* hook;        // our function of that name
  DriverSlot slot;   // where the real one is kept
  Need need;
  Action action;
};
extern const EntryPoint kEntryPoints[];
extern const std::size_t kEntryPointCount;

/// The hooked entry of exactly this name, or null. No allocation, no lock.
const EntryPoint* find_entry_point(const char* name);

/// What a look-up of the base name `symbol` that found `real` shall give: our hook if `real` is a hooked function of the
/// loaded driver, else `real`. The address decides. The name only keeps apart functions that share one (a driver may
/// have one body for all that it does not support): a hook's name begins with the base name.
void* substitute(const char* symbol, void* real);

}  // namespace cuheap
