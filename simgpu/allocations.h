// Every address range that somebody was given: device blocks, pinned, registered and managed host memory, pool blocks, imports.
// One ordered map, so that any pointer inside finds its block. Small device blocks share 2 MiB slabs, as on a device.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "simgpu/memory.h"

namespace cuheap::sim {

class Pool;

enum class Kind { Device, Managed, PinnedHost, RegisteredHost, Pooled, Imported, Graph };

struct Slab;

struct Allocation {
  uint64_t base = 0;
  uint64_t size = 0;               // as asked for
  uint64_t reserved = 0;           // address bytes held for it (0: lies in a slab, a pool, or is host memory)
  Kind kind = Kind::Device;
  int device = 0;
  uint64_t context_id = 0;         // 0: belongs to no context
  uint64_t buffer_id = 0;          // never reused
  unsigned flags = 0;              // of the call that made it
  bool sync_memops = false;
  int imports = 0;                 // how often an import was opened
  PhysicalRef physical;
  std::shared_ptr<Slab> slab;
  std::shared_ptr<Pool> pool;
};

/// 2 MiB of which small blocks are cut.
struct Slab {
  uint64_t address;
  PhysicalRef physical;
  uint64_t context_id;
  std::map<uint64_t, uint64_t> holes;  // offset -> bytes
};

class Allocations {
 public:
  // Device memory. 0: the device is full. `alignment` at least 512.
  uint64_t allocate_device(int device, uint64_t context_id, uint64_t bytes);
  uint64_t allocate_host(uint64_t bytes, Kind kind, int device, uint64_t context_id, unsigned flags);
  void add(Allocation allocation);

  /// The block that holds the address; a copy, so that no lock is held by the caller.
  [[nodiscard]] std::optional<Allocation> find(uint64_t address) const;
  [[nodiscard]] std::optional<Allocation> find_base(uint64_t base) const;
  bool update(uint64_t base, const std::function<void(Allocation&)>& change);
  /// Takes the block out of the map; its bytes live until `release`.
  std::optional<Allocation> take(uint64_t base);
  void release(Allocation& allocation);
  [[nodiscard]] std::vector<uint64_t> bases_of(uint64_t context_id) const;
  [[nodiscard]] bool overlaps(uint64_t address, uint64_t bytes) const;

 private:
  uint64_t allocate_small(int device, uint64_t context_id, uint64_t bytes);
  uint64_t add_locked(Allocation allocation);

  mutable std::mutex lock_;
  std::map<uint64_t, Allocation> blocks_;
  std::vector<std::shared_ptr<Slab>> slabs_;
  uint64_t next_buffer_id_ = 1;
};

}  // namespace cuheap::sim
