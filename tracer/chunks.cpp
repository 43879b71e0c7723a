#include "tracer/chunks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tracer/base/arena.h"

namespace cuheap {
namespace {

constexpr std::size_t kPageBytes = 4096;
// Out of the way of programs that count on low numbers or close them all (daemons).
constexpr int kFirstDescriptor = 700;

// Every path below is built here; cut paths are an error, never a wrong file.
class PathText {
 public:
  PathText(char* out, std::size_t room) : out_(out), room_(room) { *out_ = '\0'; }
  PathText& text(const char* text) {
    const std::size_t length = strlen(text);
    if (size_ + length + 1 > room_) fits_ = false;
    else {
      memcpy(out_ + size_, text, length + 1);
      size_ += length;
    }
    return *this;
  }
  PathText& number(std::uint64_t value) {
    char digits[21];
    char* at = digits + sizeof(digits);
    *--at = '\0';
    do {
      *--at = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    return text(at);
  }
  bool fits() const { return fits_; }

 private:
  char* out_;
  std::size_t room_;
  std::size_t size_ = 0;
  bool fits_ = true;
};

int make_directories(const char* directory) {
  char path[kMaxPath];
  const std::size_t length = strlen(directory);
  if (length == 0) return ENOENT;
  if (length >= sizeof(path)) return ENAMETOOLONG;
  memcpy(path, directory, length + 1);
  for (std::size_t i = 1; i <= length; ++i) {
    if (path[i] != '/' && path[i] != '\0') continue;
    const char kept = path[i];
    path[i] = '\0';
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
      // A parent may be there without our being allowed to make it.
      const int error = errno;
      struct stat status;
      if (stat(path, &status) != 0) return error;
    }
    path[i] = kept;
  }
  struct stat status;
  if (stat(directory, &status) != 0) return errno;
  return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
}

// Asked once: a sandbox that the host enters later may end a process for the question. Should the host lower it meanwhile, the
// helper blocks the signal.
std::uint64_t file_size_limit() {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

ChunkHeader* chunk_at(std::byte* extent, std::size_t index) {
  return reinterpret_cast<ChunkHeader*>(extent + index * kChunkBytes);
}

ChunkState state_of(ChunkHeader* chunk) {
  return std::atomic_ref<ChunkState>(chunk->state).load(std::memory_order_acquire);
}

std::size_t committed_of(ChunkHeader* chunk) {
  return std::atomic_ref<std::uint32_t>(chunk->committed).load(std::memory_order_acquire);
}

bool is_closed_and_empty(ChunkHeader* chunk) { return state_of(chunk) == ChunkState::Closed && committed_of(chunk) == 0; }

/// Bytes of the chunk up to the end of the page of its last record.
std::size_t used_bytes(ChunkHeader* chunk) {
  return (sizeof(ChunkHeader) + committed_of(chunk) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

bool ChunkStock::push(ChunkHeader* chunk) {
  const std::uint64_t pushed = pushed_.load(std::memory_order_relaxed);
  if (pushed - popped_.load(std::memory_order_acquire) == kCapacity) return false;
  slots_[pushed % kCapacity].store(chunk, std::memory_order_relaxed);
  pushed_.store(pushed + 1, std::memory_order_release);
  return true;
}

ChunkHeader* ChunkStock::pop() {
  std::uint64_t popped = popped_.load(std::memory_order_relaxed);
  for (;;) {
    if (popped == pushed_.load(std::memory_order_acquire)) return nullptr;
    // Overwritten only after `popped_` has passed it, and then the exchange fails.
    ChunkHeader* const chunk = slots_[popped % kCapacity].load(std::memory_order_relaxed);
    if (popped_.compare_exchange_weak(popped, popped + 1, std::memory_order_acq_rel, std::memory_order_relaxed)) return chunk;
  }
}

std::size_t ChunkStock::size() const {
  const std::uint64_t popped = popped_.load(std::memory_order_acquire);
  return static_cast<std::size_t>(pushed_.load(std::memory_order_acquire) - popped);
}

void ChunkStock::reset() {
  popped_.store(0, std::memory_order_relaxed);
  pushed_.store(0, std::memory_order_relaxed);
}

int ChunkFile::open(const Settings& settings, bool* directory_failed) {
  *directory_failed = true;
  if (const int error = make_directories(settings.directory); error != 0) return error;
  *directory_failed = false;
  max_bytes_ = settings.max_bytes;
  file_size_limit_ = file_size_limit();
  growth_ = Growth{};
  growth_failed_.store(false, std::memory_order_relaxed);
  extent_count_ = 0;
  stock_.reset();
  if (extents_ == nullptr) extents_ = static_cast<Extent*>(map_pages(kMaxExtents * sizeof(Extent)));
  if (extents_ == nullptr) return ENOMEM;
  if (const int error = create_file(settings); error != 0) return error;

  int error = reserve(0, kHeaderBytes);
  void* page = nullptr;
  if (error == 0) {
    page = map_unlocked(kHeaderBytes, MAP_SHARED, descriptor_, 0);
    if (page == nullptr) error = errno;
  }
  if (error == 0) {
    madvise(page, kHeaderBytes, MADV_DONTFORK);
    header_ = static_cast<FileHeader*>(page);
    end_ = kHeaderBytes;
    if (fill_stock(1) == 0) error = growth_.reached_max_size ? EFBIG : growth_.error;
  }
  if (error != 0) {
    if (page != nullptr) munmap(page, kHeaderBytes);
    header_ = nullptr;
    ::close(descriptor_);
    descriptor_ = -1;
    unlink(path_);  // an empty trace would only puzzle
  }
  return error;
}

int ChunkFile::create_file(const Settings& settings) {
  for (std::uint32_t attempt = 1; attempt < 1000; ++attempt) {
    PathText path(path_, sizeof(path_));
    if (settings.directory[0] != '/') {  // the host may change its folder later
      char here[kMaxPath];
      if (syscall(SYS_getcwd, here, sizeof(here)) <= 0) return errno;
      path.text(here).text("/");
    }
    path.text(settings.directory).text("/trace-").number(settings.pid);
    if (attempt != 1) path.text("-").number(attempt);
    path.text(".cuheap");
    if (!path.fits()) return ENAMETOOLONG;
    const int low = ::open(path_, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (low < 0 && errno == EEXIST) continue;
    if (low < 0) return errno;
    descriptor_ = fcntl(low, F_DUPFD_CLOEXEC, kFirstDescriptor);
    if (descriptor_ < 0) descriptor_ = low;  // a low limit of descriptors
    else ::close(low);
    struct stat status;
    if (fstat(descriptor_, &status) != 0) return errno;
    device_ = status.st_dev;
    inode_ = status.st_ino;
    return 0;
  }
  return EEXIST;
}

bool ChunkFile::is_our_file(int descriptor) const {
  struct stat status;
  return fstat(descriptor, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

// The host may have closed our descriptor, and its number may be another file of its own by now: growing that one would be
// damage. So the file is recognised first, and found again by its path if it must be.
int ChunkFile::recover_descriptor() {
  if (is_our_file(descriptor_)) return 0;
  const int low = ::open(path_, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (low < 0) return EBADF;
  if (!is_our_file(low)) {
    ::close(low);
    return EBADF;
  }
  const int high = fcntl(low, F_DUPFD_CLOEXEC, kFirstDescriptor);
  descriptor_ = high < 0 ? low : high;
  if (high >= 0) ::close(low);
  return 0;
}

int ChunkFile::reserve(std::uint64_t offset, std::uint64_t bytes) {
  // Growing past it raises SIGXFSZ, which ends programs.
  if (offset + bytes > file_size_limit_) return EFBIG;
  int error = 0;
  do {
    error = posix_fallocate(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

bool ChunkFile::stop_growing(int error, bool reached_max_size) {
  growth_.error = error;
  growth_.reached_max_size = reached_max_size;
  growth_failed_.store(true, std::memory_order_release);
  return false;
}

bool ChunkFile::add_extent() {
  if (extent_count_ == kMaxExtents) return false;
  if (max_bytes_ != 0 && end_ + kExtentBytes > max_bytes_) return stop_growing(0, true);
  if (const int error = recover_descriptor(); error != 0) return stop_growing(error, false);
  if (const int error = reserve(end_, kExtentBytes); error != 0) {
    // A partial growth would leave a file whose tail is no chunk; readers take it, but why leave it.
    if (ftruncate(descriptor_, static_cast<off_t>(end_)) != 0) {}
    return stop_growing(error, false);
  }
  void* const pages = map_unlocked(kExtentBytes, MAP_SHARED, descriptor_, end_);
  if (pages == nullptr) return stop_growing(errno, false);
  madvise(pages, kExtentBytes, MADV_DONTFORK);  // a fork child must not be able to write its parent's trace
  auto* const base = static_cast<std::byte*>(pages);
  for (std::size_t at = 0; at < kExtentBytes; at += kPageBytes) *reinterpret_cast<volatile std::byte*>(base + at) = std::byte{0};
  extents_[extent_count_++] = Extent{base, end_, 0};
  end_ += kExtentBytes;
  std::atomic_ref<std::uint64_t>(header_->chunks).fetch_add(kChunksPerExtent, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kChunksPerExtent; ++i) {
    ChunkHeader* const chunk = chunk_at(base, i);
    chunk->magic = kChunkMagic;
    if (!stock_.push(chunk)) return false;  // cannot be: fill_stock leaves room
  }
  return true;
}

std::size_t ChunkFile::fill_stock(std::size_t chunks) {
  std::size_t added = 0;
  if (chunks > ChunkStock::kCapacity - kChunksPerExtent) chunks = ChunkStock::kCapacity - kChunksPerExtent;
  while (stock_.size() < chunks && !growth_failed_.load(std::memory_order_relaxed) && add_extent()) added += kChunksPerExtent;
  return added;
}

// The unused end of a chunk that nobody will fill goes back to the disk: many short threads would cost 64 KiB each.
void ChunkFile::release_tail(const Extent& extent, std::size_t index, std::size_t used) {
  if (!is_our_file(descriptor_)) return;
  fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(extent.offset + index * kChunkBytes + used),
            static_cast<off_t>(kChunkBytes - used));
}

void ChunkFile::sweep(std::size_t releases) {
  constexpr std::uint32_t kAll = (std::uint32_t{1} << kChunksPerExtent) - 1;
  std::size_t kept = 0;
  for (std::size_t e = 0; e < extent_count_; ++e) {
    Extent& extent = extents_[e];
    for (std::size_t i = 0; i < kChunksPerExtent; ++i) {
      const std::uint32_t bit = std::uint32_t{1} << i;
      ChunkHeader* const chunk = chunk_at(extent.base, i);
      if ((extent.done & bit) != 0 || state_of(chunk) != ChunkState::Closed) continue;
      if (const std::size_t used = used_bytes(chunk); used < kChunkBytes) {
        if (releases == 0) continue;
        release_tail(extent, i, used);
        --releases;
      }
      extent.done |= bit;
    }
    if (extent.done == kAll) munmap(extent.base, kExtentBytes);
    else extents_[kept++] = extent;
  }
  extent_count_ = kept;
}

void ChunkFile::close() {
  if (header_ == nullptr) return;
  // Whoever pops a chunk owns it. A thread that got one just now may not have marked it yet, so what may be cut off is
  // marked here: closed and empty.
  while (ChunkHeader* const chunk = stock_.pop())
    std::atomic_ref<ChunkState>(chunk->state).store(ChunkState::Closed, std::memory_order_release);
  std::uint64_t end = end_;
  for (std::size_t e = extent_count_; e != 0 && extents_[e - 1].offset + kExtentBytes == end; --e) {
    std::size_t used = kChunksPerExtent;
    while (used != 0 && is_closed_and_empty(chunk_at(extents_[e - 1].base, used - 1))) --used;
    end = extents_[e - 1].offset + used * kChunkBytes;
    if (used != 0) break;
  }
  if (end < end_ && is_our_file(descriptor_) && ftruncate(descriptor_, static_cast<off_t>(end)) == 0) {
    std::atomic_ref<std::uint64_t>(header_->chunks).store((end - kHeaderBytes) / kChunkBytes, std::memory_order_relaxed);
    end_ = end;
  }
  if (is_our_file(descriptor_)) ::close(descriptor_);
  descriptor_ = -1;
}

void ChunkFile::forget() {
  header_ = nullptr;
  extent_count_ = 0;
  descriptor_ = -1;
  stock_.reset();
}

}  // namespace cuheap
