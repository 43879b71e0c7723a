// The software MMU: physical bytes live in a sparse memfd; device addresses are one PROT_NONE reservation of this process;
// a page table says which granule of the reservation shows which bytes. A host that dereferences a device address faults.
// Copies go by pread and pwrite, clearing punches holes, so memory that is never written costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace cuheap::sim {

inline constexpr uint64_t kGranule = uint64_t{2} << 20;

constexpr uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// Bytes of one device. Given back to the device and to the store when the last holder lets go.
struct Physical {
  int device = 0;           // -1: host memory, counted on no device
  uint64_t size = 0;        // multiple of kGranule
  int file = 0;             // index into the store's files
  uint64_t offset = 0;
  bool imported = false;    // counted where it was created
  uint64_t generation = 0;  // never reused
  uint64_t shareable = 0;   // handle types it was created with, as the creator says them
  unsigned flags = 0;       // the creator's, e.g. RDMA capable
  ~Physical();
};
using PhysicalRef = std::shared_ptr<Physical>;

/// One access right per device, two bits each: 0 none, 1 read, 3 read and write.
inline constexpr uint32_t kAccessAll = ~uint32_t{0};

struct PageEntry {
  uint64_t offset;
  uint32_t access;
  uint16_t file;
  uint16_t present;
};

enum class Io { Ok, Fault, OutOfHostMemory };

class Memory {
 public:
  /// False only if not even a small reservation could be made.
  bool open();

  // Physical bytes. `new_physical` counts them on the device; null: the device is full.
  PhysicalRef new_physical(int device, uint64_t bytes);
  PhysicalRef import_physical(int fd, uint64_t offset, int device, uint64_t bytes);
  void release_bytes(const Physical& physical);
  /// Moves the bytes into a file of their own and returns a new descriptor of it (for export). -1: no descriptor left.
  int own_file(Physical& physical);
  int file_descriptor(int file);

  // Addresses. Both in multiples of kGranule; 0: none left or the hint's alignment is impossible.
  uint64_t reserve(uint64_t bytes, uint64_t alignment, uint64_t hint);
  void unreserve(uint64_t address, uint64_t bytes);
  [[nodiscard]] bool is_device_address(uint64_t address) const { return address - base_ < size_; }
  [[nodiscard]] uint64_t reservation_bytes() const { return size_; }

  void map(uint64_t address, const Physical& physical, uint64_t physical_offset, uint64_t bytes, uint32_t access);
  void unmap(uint64_t address, uint64_t bytes);
  void set_access(uint64_t address, uint64_t bytes, uint32_t mask, uint32_t access);
  [[nodiscard]] bool is_mapped(uint64_t address) const;

  // Bytes. `device` is who accesses, -1: everything is allowed (the control API, peers by copy engine).
  Io read(int device, uint64_t address, void* out, uint64_t bytes);
  Io write(int device, uint64_t address, const void* data, uint64_t bytes);
  Io fill(int device, uint64_t address, const void* pattern, uint32_t width, uint64_t bytes);
  Io copy(int destination_device, uint64_t destination, int source_device, uint64_t source, uint64_t bytes);

 private:
  struct Span {
    int fd;
    uint64_t offset;
    uint64_t bytes;
  };
  bool translate(int device, uint64_t address, uint64_t bytes, bool for_write, Span& out) const;
  uint64_t take_offset(uint64_t bytes);
  Io zero(const Span& span);
  Io copy_span(const Span& destination, const Span& source);

  uint64_t base_ = 0;
  uint64_t size_ = 0;
  PageEntry* pages_ = nullptr;
  uint64_t used_pages_ = 0;                   // no entry at or above this index was ever set
  mutable std::shared_mutex page_lock_;       // shared: translate and move bytes; exclusive: change the table
  std::mutex lock_;                           // the address and offset lists, the files
  std::map<uint64_t, uint64_t> free_;         // address -> bytes
  std::vector<std::pair<uint64_t, uint64_t>> freed_offsets_;
  size_t next_freed_ = 0;
  uint64_t next_offset_ = 0;
  std::vector<int> files_;                    // descriptors; 0 is the store itself
};

}  // namespace cuheap::sim
