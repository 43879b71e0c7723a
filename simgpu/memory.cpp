#include "simgpu/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "simgpu/machine.h"

namespace cuheap::sim {
namespace {

constexpr uint64_t kLargestReservation = uint64_t{16} << 40;
constexpr uint64_t kSmallestReservation = uint64_t{4} << 30;
// Offsets are handed out upwards and come back only when this is used up: a stale reader sees zeros, not a neighbour.
constexpr uint64_t kStoreBytes = uint64_t{1} << 60;
constexpr uint64_t kCopyBuffer = uint64_t{1} << 20;

std::atomic<uint64_t> next_generation{1};

}  // namespace

Physical::~Physical() { machine().memory.release_bytes(*this); }

bool Memory::open() {
  const int fd = ::memfd_create("simgpu-memory", MFD_CLOEXEC);
  if (fd < 0) return false;
  uint64_t store = kStoreBytes;
  while (::ftruncate(fd, static_cast<off_t>(store)) != 0 && store > kSmallestReservation) store /= 2;
  files_.push_back(fd);
  // `ulimit -v` may forbid the wish: take what there is.
  for (uint64_t size = kLargestReservation; size >= kSmallestReservation; size /= 2) {
    void* at = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) continue;
    void* table = ::mmap(nullptr, size / kGranule * sizeof(PageEntry), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) {
      ::munmap(at, size);
      continue;
    }
    base_ = round_up(reinterpret_cast<uint64_t>(at), kGranule);
    size_ = size - kGranule;
    pages_ = static_cast<PageEntry*>(table);
    free_[base_] = size_;
    // A forked child may not use the device; its copy of the table would only cost page-table copies at every fork.
    ::madvise(table, size / kGranule * sizeof(PageEntry), MADV_DONTFORK);
    return true;
  }
  return false;
}

// Physical bytes ------------------------------------------------------------------------------------------------------

uint64_t Memory::take_offset(uint64_t bytes) {
  if (next_offset_ + bytes <= kStoreBytes) {
    next_offset_ += bytes;
    return next_offset_ - bytes;
  }
  for (; next_freed_ < freed_offsets_.size(); ++next_freed_)
    if (freed_offsets_[next_freed_].second >= bytes) return freed_offsets_[next_freed_++].first;
  return ~uint64_t{0};
}

PhysicalRef Memory::new_physical(int device, uint64_t bytes) {
  bytes = round_up(bytes, kGranule);
  if (device >= 0 && !machine().shared.take(device, bytes)) return nullptr;
  std::lock_guard guard(lock_);
  auto physical = std::make_shared<Physical>();
  physical->device = device;
  physical->size = bytes;
  physical->offset = take_offset(bytes);
  physical->generation = next_generation++;
  return physical;
}

PhysicalRef Memory::import_physical(int fd, uint64_t offset, int device, uint64_t bytes) {
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return nullptr;
  std::lock_guard guard(lock_);
  auto physical = std::make_shared<Physical>();
  auto slot = std::find(files_.begin() + 1, files_.end(), -1);
  if (slot == files_.end()) slot = files_.insert(slot, own);
  *slot = own;
  physical->file = static_cast<int>(slot - files_.begin());
  physical->device = device;
  physical->size = bytes;
  physical->offset = offset;
  physical->imported = true;
  physical->generation = next_generation++;
  return physical;
}

void Memory::release_bytes(const Physical& physical) {
  if (physical.device >= 0 && !physical.imported) machine().shared.give(physical.device, physical.size);
  std::lock_guard guard(lock_);
  if (physical.file == 0) {
    ::fallocate(files_[0], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(physical.offset),
                static_cast<off_t>(physical.size));
    if (next_offset_ > kStoreBytes / 2) freed_offsets_.emplace_back(physical.offset, physical.size);
  } else {
    ::close(files_[static_cast<size_t>(physical.file)]);
    files_[static_cast<size_t>(physical.file)] = -1;
  }
}

int Memory::own_file(Physical& physical) {
  if (physical.file == 0) {
    char name[64];
    std::snprintf(name, sizeof name, "simgpu-shared:%d:%llu", physical.device, static_cast<unsigned long long>(physical.size));
    const int fd = ::memfd_create(name, MFD_CLOEXEC);
    if (fd < 0) return -1;
    if (::ftruncate(fd, static_cast<off_t>(physical.size)) != 0) return ::close(fd), -1;
    std::unique_lock pages(page_lock_);
    std::lock_guard guard(lock_);
    copy_span({fd, 0, physical.size}, {files_[0], physical.offset, physical.size});
    auto slot = std::find(files_.begin() + 1, files_.end(), -1);
    if (slot == files_.end()) slot = files_.insert(slot, fd);
    *slot = fd;
    const auto file = static_cast<uint16_t>(slot - files_.begin());
    for (uint64_t i = 0; i < used_pages_; ++i) {
      PageEntry& page = pages_[i];
      if (page.present == 0 || page.file != 0 || page.offset - physical.offset >= physical.size) continue;
      page.file = file;
      page.offset -= physical.offset;
    }
    ::fallocate(files_[0], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(physical.offset),
                static_cast<off_t>(physical.size));
    physical.file = file;
    physical.offset = 0;
  }
  return ::fcntl(file_descriptor(physical.file), F_DUPFD_CLOEXEC, 0);
}

int Memory::file_descriptor(int file) { return files_[static_cast<size_t>(file)]; }

// Addresses -----------------------------------------------------------------------------------------------------------

uint64_t Memory::reserve(uint64_t bytes, uint64_t alignment, uint64_t hint) {
  alignment = std::max(alignment, kGranule);
  std::lock_guard guard(lock_);
  auto take = [&](std::map<uint64_t, uint64_t>::iterator hole, uint64_t at) {
    const uint64_t start = hole->first;
    const uint64_t end = hole->first + hole->second;
    free_.erase(hole);
    if (at > start) free_[start] = at - start;
    if (at + bytes < end) free_[at + bytes] = end - at - bytes;
    return at;
  };
  if (hint != 0 && hint % alignment == 0) {
    auto hole = free_.upper_bound(hint);
    if (hole != free_.begin() && (--hole)->first + hole->second >= hint + bytes && hint + bytes > hint) return take(hole, hint);
  }
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    const uint64_t at = round_up(hole->first, alignment);
    if (at >= hole->first && at - hole->first <= hole->second && hole->second - (at - hole->first) >= bytes) return take(hole, at);
  }
  return 0;
}

void Memory::unreserve(uint64_t address, uint64_t bytes) {
  std::lock_guard guard(lock_);
  auto after = free_.lower_bound(address);
  if (after != free_.end() && address + bytes == after->first) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  free_[address] = bytes;
}

void Memory::map(uint64_t address, const Physical& physical, uint64_t physical_offset, uint64_t bytes, uint32_t access) {
  std::unique_lock guard(page_lock_);
  used_pages_ = std::max(used_pages_, (address - base_ + bytes) / kGranule);
  PageEntry* page = pages_ + (address - base_) / kGranule;
  for (uint64_t done = 0; done < bytes; done += kGranule, ++page)
    *page = {physical.offset + physical_offset + done, access, static_cast<uint16_t>(physical.file), 1};
}

void Memory::unmap(uint64_t address, uint64_t bytes) {
  std::unique_lock guard(page_lock_);
  std::memset(pages_ + (address - base_) / kGranule, 0, bytes / kGranule * sizeof(PageEntry));
}

void Memory::set_access(uint64_t address, uint64_t bytes, uint32_t mask, uint32_t access) {
  std::unique_lock guard(page_lock_);
  PageEntry* page = pages_ + (address - base_) / kGranule;
  for (uint64_t done = 0; done < bytes; done += kGranule, ++page) page->access = (page->access & ~mask) | (access & mask);
}

bool Memory::is_mapped(uint64_t address) const {
  if (!is_device_address(address)) return false;
  std::shared_lock guard(page_lock_);
  return pages_[(address - base_) / kGranule].present != 0;
}

// Bytes ---------------------------------------------------------------------------------------------------------------

/// The longest run from `address` that lies contiguously in one file, at most `bytes`. The page lock is held.
bool Memory::translate(int device, uint64_t address, uint64_t bytes, bool for_write, Span& out) const {
  if (!is_device_address(address) || bytes > size_ - (address - base_)) return false;
  const uint32_t right = device < 0 ? 0 : (for_write ? 2u : 1u) << (2 * device);
  const PageEntry* page = pages_ + (address - base_) / kGranule;
  const uint64_t inside = address % kGranule;
  if (page->present == 0 || (page->access & right) != right) return false;
  out = {files_[page->file], page->offset + inside, kGranule - inside};
  while (out.bytes < bytes) {
    const PageEntry* next = page + 1;
    if (next->present == 0 || next->file != page->file || next->offset != page->offset + kGranule) break;
    if ((next->access & right) != right) break;
    out.bytes += kGranule;
    page = next;
  }
  out.bytes = std::min(out.bytes, bytes);
  return true;
}

Io Memory::read(int device, uint64_t address, void* out, uint64_t bytes) {
  std::shared_lock guard(page_lock_);
  auto* to = static_cast<char*>(out);
  while (bytes > 0) {
    Span span;
    if (!translate(device, address, bytes, false, span)) return Io::Fault;
    const ssize_t n = ::pread(span.fd, to, span.bytes, static_cast<off_t>(span.offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Io::Fault;
    to += n, address += static_cast<uint64_t>(n), bytes -= static_cast<uint64_t>(n);
  }
  return Io::Ok;
}

Io Memory::write(int device, uint64_t address, const void* data, uint64_t bytes) {
  std::shared_lock guard(page_lock_);
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    Span span;
    if (!translate(device, address, bytes, true, span)) return Io::Fault;
    const ssize_t n = ::pwrite(span.fd, from, span.bytes, static_cast<off_t>(span.offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return errno == ENOSPC || errno == ENOMEM ? Io::OutOfHostMemory : Io::Fault;
    from += n, address += static_cast<uint64_t>(n), bytes -= static_cast<uint64_t>(n);
  }
  return Io::Ok;
}

Io Memory::zero(const Span& span) {
  const auto start = static_cast<off_t>(span.offset);
  const auto end = start + static_cast<off_t>(span.bytes);
  const off_t data = ::lseek(span.fd, start, SEEK_DATA);
  if (data < 0 || data >= end) return Io::Ok;
  if (::fallocate(span.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, start, end - start) != 0) return Io::OutOfHostMemory;
  return Io::Ok;
}

Io Memory::fill(int device, uint64_t address, const void* pattern, uint32_t width, uint64_t bytes) {
  const auto* unit = static_cast<const unsigned char*>(pattern);
  const bool zeros = std::all_of(unit, unit + width, [](unsigned char c) { return c == 0; });
  std::vector<unsigned char> buffer;
  if (!zeros) {
    buffer.resize(std::min(kCopyBuffer, bytes));
    for (size_t i = 0; i < buffer.size(); ++i) buffer[i] = unit[i % width];
  }
  std::shared_lock guard(page_lock_);
  while (bytes > 0) {
    Span span;
    if (!translate(device, address, zeros ? bytes : std::min<uint64_t>(bytes, buffer.size()), true, span)) return Io::Fault;
    if (zeros) {
      if (const Io result = zero(span); result != Io::Ok) return result;
    } else if (::pwrite(span.fd, buffer.data(), span.bytes, static_cast<off_t>(span.offset)) != static_cast<ssize_t>(span.bytes)) {
      return Io::OutOfHostMemory;
    }
    address += span.bytes, bytes -= span.bytes;
  }
  return Io::Ok;
}

Io Memory::copy_span(const Span& destination, const Span& source) {
  thread_local std::vector<char> buffer;
  buffer.resize(kCopyBuffer);
  const auto end = static_cast<off_t>(source.offset + source.bytes);
  const auto shift = static_cast<off_t>(destination.offset) - static_cast<off_t>(source.offset);
  off_t at = static_cast<off_t>(source.offset);
  while (at < end) {
    off_t data = ::lseek(source.fd, at, SEEK_DATA);
    if (data < 0 || data > end) data = end;
    if (data > at) zero({destination.fd, static_cast<uint64_t>(at + shift), static_cast<uint64_t>(data - at)});
    if (data == end) break;
    off_t stop = ::lseek(source.fd, data, SEEK_HOLE);
    if (stop < 0 || stop > end) stop = end;
    for (at = data; at < stop;) {
      const ssize_t n = ::pread(source.fd, buffer.data(), static_cast<size_t>(std::min<off_t>(stop - at, kCopyBuffer)), at);
      if (n <= 0) return Io::Fault;
      if (::pwrite(destination.fd, buffer.data(), static_cast<size_t>(n), at + shift) != n) return Io::OutOfHostMemory;
      at += n;
    }
  }
  return Io::Ok;
}

Io Memory::copy(int destination_device, uint64_t destination, int source_device, uint64_t source, uint64_t bytes) {
  std::shared_lock guard(page_lock_);
  while (bytes > 0) {
    Span from, to;
    if (!translate(source_device, source, bytes, false, from)) return Io::Fault;
    if (!translate(destination_device, destination, from.bytes, true, to)) return Io::Fault;
    from.bytes = to.bytes;
    if (const Io result = copy_span(to, from); result != Io::Ok) return result;
    source += to.bytes, destination += to.bytes, bytes -= to.bytes;
  }
  return Io::Ok;
}

}  // namespace cuheap::sim
