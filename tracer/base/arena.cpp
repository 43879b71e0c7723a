#include "tracer/base/arena.h"

#include <sys/mman.h>

#include "tracer/base/keep_errno.h"

namespace cuheap {
namespace {

constexpr std::size_t kAlignment = 16;
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void* map_pages(std::size_t bytes) {
  const KeepErrno keep;
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
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
