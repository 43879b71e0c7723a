#include "tracer/base/arena.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/base/keep_errno.h"

namespace cuheap {
namespace {

constexpr std::size_t kAlignment = 16;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

// In a host that called mlockall(MCL_FUTURE) a plain mapping would be locked: it would count against RLIMIT_MEMLOCK, be
// refused where that is small, and fill all of its pages. So one page is mapped, unlocked and grown: growth goes by the
// flags of the mapping.
void* map_unlocked(std::size_t bytes, int flags, int file, std::uint64_t offset) {
  void* const page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, flags, file, static_cast<off_t>(offset));
  if (page == MAP_FAILED) return nullptr;
  syscall(SYS_munlock, page, kPageBytes);
  if (bytes <= kPageBytes) return page;
  const long grown = syscall(SYS_mremap, page, kPageBytes, bytes, MREMAP_MAYMOVE);
  if (grown != -1) return reinterpret_cast<void*>(grown);
  const KeepErrno keep;
  munmap(page, kPageBytes);
  return nullptr;
}

void* map_pages(std::size_t bytes) {
  const KeepErrno keep;
  return map_unlocked(round_up(bytes, kPageBytes), MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void unmap_pages(void* pages, std::size_t bytes) {
  const KeepErrno keep;
  munmap(pages, bytes);
}

void* Arena::allocate(std::size_t bytes) {
  bytes = round_up(bytes, kAlignment);
  if (bytes > static_cast<std::size_t>(end_ - at_)) {
    const std::size_t block_bytes = round_up(bytes + round_up(sizeof(Block), kAlignment), kBlockBytes);
    void* const pages = map_pages(block_bytes);
    if (pages == nullptr) return nullptr;
    Block* const block = static_cast<Block*>(pages);
    block->previous = last_;
    block->bytes = block_bytes;
    last_ = block;
    at_ = static_cast<std::byte*>(pages) + round_up(sizeof(Block), kAlignment);
    end_ = static_cast<std::byte*>(pages) + block_bytes;
    footprint_ += block_bytes;
  }
  void* const result = at_;
  at_ += bytes;
  return result;
}

void Arena::reset() {
  while (last_ != nullptr) {
    Block* const block = last_;
    last_ = block->previous;
    unmap_pages(block, block->bytes);
  }
  at_ = end_ = nullptr;
  footprint_ = 0;
}

}  // namespace cuheap
