// Chunks: the trace file as mapped pieces of 64 KiB. The helper prepares a stock of them (space reserved on the disk,
// mapped, touched); a thread in a hook only pops one, so a hook makes no system call and a full disk is never a SIGBUS.
// An empty stock is the caller's counted loss. Knows no records: trace_writer.h fills chunks, recorder.h decides.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/format/trace_format.h"

namespace cuheap {

constexpr std::size_t kExtentBytes = std::size_t{1} << 20;  // the file grows by this (redteam A6: 8-9 us on ext4, 166 us on tmpfs)
constexpr std::size_t kChunksPerExtent = kExtentBytes / kChunkBytes;
constexpr std::size_t kMaxPath = 4096;

/// Chunks that are ready, handed from the helper to the threads. One producer, many consumers, no lock.
class ChunkStock {
 public:
  static constexpr std::size_t kCapacity = 2048;

  [[nodiscard]] bool push(ChunkHeader* chunk);
  [[nodiscard]] ChunkHeader* pop();
  std::size_t size() const;
  void reset();

 private:
  std::atomic<ChunkHeader*> slots_[kCapacity] = {};
  alignas(64) std::atomic<std::uint64_t> popped_{0};
  alignas(64) std::atomic<std::uint64_t> pushed_{0};
};

/// Why the file cannot grow any more.
struct Growth {
  int error = 0;                 // errno; 0: it can
  bool reached_max_size = false; // CUHEAP_MAX_SIZE
};

class ChunkFile {
 public:
  struct Settings {
    const char* directory;
    std::uint32_t pid;
    std::uint64_t max_bytes;  // 0: no limit
  };

  /// Makes the directory and the file, maps its header page, lays in the first chunks. 0 or errno.
  /// `directory_failed` tells which of the two path() and directory the error is about.
  [[nodiscard]] int open(const Settings& settings, bool* directory_failed);

  /// The header page; mapped until close().
  FileHeader* header() const { return header_; }
  const char* path() const { return path_; }

  /// Any thread: a chunk of state Stock, now the caller's, or null.
  [[nodiscard]] ChunkHeader* pop() { return stock_.pop(); }
  /// Then the helper should not sleep on.
  static constexpr std::size_t kLowStock = 128;
  bool is_low() const { return stock_.size() < kLowStock && !growth_failed_.load(std::memory_order_relaxed); }
  /// True once the file has refused to grow and the stock is used up.
  bool is_exhausted() const { return growth_failed_.load(std::memory_order_acquire) && stock_.size() == 0; }
  Growth growth() const { return growth_; }

  // Helper (or start, before there is one).

  /// Adds extents until `chunks` are in stock or the file cannot grow; returns how many were added.
  std::size_t fill_stock(std::size_t chunks);
  std::size_t stock_size() const { return stock_.size(); }
  /// Gives the unused ends of up to `releases` closed chunks back to the disk (milliseconds each on a busy one; the stock must
  /// not wait for it) and unmaps extents that nobody writes any more.
  void sweep(std::size_t releases = ~std::size_t{0});
  /// Orderly end: takes the stock back and cuts it off the file's tail. Chunks in use stay mapped: a thread may be inside.
  /// Their unused ends are left to `cuheap run`: ext4 writes them out before it lets go of them (4 ms each), and the host's
  /// exit would wait for it.
  void close();

  /// In a fork child: forgets everything without a system call.
  void forget();
  /// Mapped extents, for tests.
  std::size_t mapped_extents() const { return extent_count_; }

 private:
  struct Extent {
    std::byte* base;
    std::uint64_t offset;
    std::uint32_t done;  // bit i: chunk i is closed and its unused end is given back
  };
  static constexpr std::size_t kMaxExtents = 16384;  // 16 GiB mapped at once; more is lost, and counted

  [[nodiscard]] int create_file(const Settings& settings);
  [[nodiscard]] bool add_extent();
  [[nodiscard]] int reserve(std::uint64_t offset, std::uint64_t bytes);
  [[nodiscard]] bool is_our_file(int descriptor) const;
  [[nodiscard]] int recover_descriptor();
  bool stop_growing(int error, bool reached_max_size);
  void release_tail(const Extent& extent, std::size_t index, std::size_t used);

  ChunkStock stock_;
  Extent* extents_ = nullptr;  // kMaxExtents
  std::size_t extent_count_ = 0;
  FileHeader* header_ = nullptr;
  std::uint64_t end_ = 0;        // file bytes in use by header and extents
  std::uint64_t max_bytes_ = 0;
  std::uint64_t file_size_limit_ = UINT64_MAX;  // RLIMIT_FSIZE
  std::uint64_t device_ = 0;     // of the file, to know it again
  std::uint64_t inode_ = 0;
  int descriptor_ = -1;
  std::atomic<bool> growth_failed_{false};
  Growth growth_;
  char path_[kMaxPath] = {};
};

}  // namespace cuheap
