// The names of the hook table, without the hooks: what is hooked, what was left alone, what must be one of the two.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cuheap {

/// The number of exactly this name in the hook table, or -1. No allocation, no lock.
int find_entry_number(const char* name);

/// True if the name belongs to a family whose functions move memory and must be classified.
bool is_memory_name(const char* name);
/// True if the name is hooked or passed on purpose.
bool is_classified(const char* name);

}  // namespace cuheap
