// The devices that simgpu knows, as the tools see them: names, memory, and what a context takes of it.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace cuheap {

struct KnownDevice {
  const char* key;  // as on the command line
  const char* name;
  std::uint64_t total_bytes;
  const char* capability;  // "9.0"
  int multiprocessors;
  std::uint64_t context_bytes;  // what the driver takes for a context; an estimate, see simgpu/devices
};

std::span<const KnownDevice> known_devices();

/// Changes whenever a row changes: two rehearsals with one version had the same table.
std::string device_table_version();

/// Throws Error with the names for a SPEC that simgpu would refuse: `h200`, `24GiB`, `2x80GiB`, `2xh100-80g,t4`.
void check_device_spec(const std::string& spec, const char* flag);

}  // namespace cuheap
