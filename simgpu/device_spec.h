// What a simulated device is: the properties of one row of simgpu/devices/, or of a generic device ("24GiB").
// SIMGPU_DEVICES is parsed here. Nothing here knows the CUDA API.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cuheap::sim {

inline constexpr int kMaxDevices = 16;

/// One field per key of a `.device` file; units in the names. See simgpu/devices/README.md.
struct DeviceSpec {
  const char* key;
  const char* name;
  uint64_t total_memory;
  uint64_t context_bytes;
  int capability_major;
  int capability_minor;
  int multiprocessors;
  int max_threads_per_multiprocessor;
  int max_blocks_per_multiprocessor;
  int shared_memory_per_block;
  int shared_memory_per_block_optin;
  int shared_memory_per_multiprocessor;
  int l2_cache_bytes;
  int persisting_l2_bytes;
  int clock_khz;
  int memory_clock_khz;
  int memory_bus_bits;
  int copy_engines;
  int ecc;
  int pci_device_id;
  int nvlink;
};

/// A device of this run: the spec, with the memory the user asked for.
struct DeviceChoice {
  DeviceSpec spec;
  std::string name;
};

const std::vector<DeviceSpec>& known_devices();

/// "24GiB", "512MiB", "24g", "1024" (bytes); 0 if it is not a size.
uint64_t parse_size(const std::string& text);

/// "h100-80g", "24GiB", "2x80GiB", "2xh100-80g,t4". False with a reason that names the remedy.
bool parse_devices(const std::string& text, std::vector<DeviceChoice>& out, std::string& error);

}  // namespace cuheap::sim
