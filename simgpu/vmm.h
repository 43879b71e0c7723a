// Virtual memory management: address reservations, physical handles with reference counts, and which handle is mapped where.
// Mappings are made and removed whole.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "simgpu/memory.h"

namespace cuheap::sim {

struct Mapping {
  uint64_t address;
  uint64_t bytes;
  uint64_t physical_offset;
  PhysicalRef physical;
};

class Vmm {
 public:
  uint64_t reserve(uint64_t bytes, uint64_t alignment, uint64_t hint);
  /// Only a whole reservation in which nothing is mapped.
  bool unreserve(uint64_t address, uint64_t bytes);
  [[nodiscard]] std::optional<std::pair<uint64_t, uint64_t>> reservation_of(uint64_t address) const;

  Physical* add_handle(PhysicalRef physical);
  [[nodiscard]] PhysicalRef find_handle(const void* handle) const;
  bool retain_handle(const void* handle);
  bool release_handle(const void* handle);

  /// Inside one reservation, over nothing mapped.
  bool map(uint64_t address, uint64_t bytes, uint64_t physical_offset, PhysicalRef physical);
  /// Exactly one or several whole mappings.
  bool unmap(uint64_t address, uint64_t bytes);
  /// The range is covered by whole mappings.
  bool set_access(uint64_t address, uint64_t bytes, int device, uint32_t right);
  [[nodiscard]] std::optional<Mapping> mapping_of(uint64_t address) const;
  [[nodiscard]] std::optional<uint32_t> access_of(uint64_t address, int device) const;

 private:
  struct Handle {
    PhysicalRef physical;
    int references;
  };
  /// From the first to the last byte of the range whole mappings follow each other; else the range is empty.
  using Mappings = std::map<uint64_t, Mapping>;
  std::pair<Mappings::iterator, Mappings::iterator> whole_mappings(uint64_t address, uint64_t bytes);

  mutable std::mutex lock_;
  std::map<uint64_t, uint64_t> reservations_;
  std::map<uint64_t, Mapping> mappings_;
  std::map<uint64_t, uint32_t> access_;         // by mapping address: two bits a device
  std::map<const void*, Handle> handles_;
};

}  // namespace cuheap::sim
