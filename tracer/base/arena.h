// Arena: bump memory straight from mmap, the only allocator in the host. Nothing is given back one by one. Not locked: its
// owner has a lock.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cuheap {

/// Zeroed pages from the kernel, or null. Never from the host's heap.
[[nodiscard]] void* map_pages(std::size_t bytes);
void unmap_pages(void* pages, std::size_t bytes);
/// Pages for reading and writing, of a file or not, that are never locked into memory and never count as such; null with
/// errno if the system has none. `flags` as for mmap; `bytes` is a multiple of the page.
[[nodiscard]] void* map_unlocked(std::size_t bytes, int flags, int file, std::uint64_t offset);

class Arena {
 public:
  /// Zeroed memory that stays until reset, aligned to 16; null if the system has none.
  [[nodiscard]] void* allocate(std::size_t bytes);
  template <typename T>
  [[nodiscard]] T* allocate_array(std::size_t count) {
    return static_cast<T*>(allocate(count * sizeof(T)));
  }
  /// Bytes taken from the system.
  std::size_t footprint() const { return footprint_; }
  /// Gives everything back.
  void reset();

 private:
  struct Block {
    Block* previous;
    std::size_t bytes;
  };

  std::byte* at_ = nullptr;
  std::byte* end_ = nullptr;
  Block* last_ = nullptr;
  std::size_t footprint_ = 0;
};

}  // namespace cuheap
