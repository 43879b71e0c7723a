#include "tools/commands/trim.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tools/reader/trace_reader.h"
#include "tracer/format/trace_format.h"

namespace cuheap {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPageBytes = 4096;

class File {
 public:
  explicit File(const fs::path& path) : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  template <typename T>
  bool read(std::uint64_t offset, T& out) const {
    return ::pread(fd_, &out, sizeof out, static_cast<off_t>(offset)) == sizeof out;
  }
  std::uint64_t size() const {
    struct stat status {};
    return ::fstat(fd_, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  }
  /// The kernel leases a file for writing only to its sole user: nobody else has it open or mapped, in any container.
  bool is_ours_alone() const {
    struct sigaction ignored {}, old {};
    ignored.sa_handler = SIG_IGN;
    ::sigaction(SIGIO, &ignored, &old);  // sent if somebody opens it just now
    const bool alone = fd_ >= 0 && ::fcntl(fd_, F_SETLEASE, F_WRLCK) == 0;
    if (alone) ::fcntl(fd_, F_SETLEASE, F_UNLCK);
    ::sigaction(SIGIO, &old, nullptr);
    return alone;
  }
  void punch(std::uint64_t begin, std::uint64_t end) const {
    if (begin < end)
      ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  }
  void cut(std::uint64_t size) const {
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) {}
  }

 private:
  int fd_;
};

bool is_trace(const FileHeader& header) {
  return std::memcmp(header.magic, kTraceMagic, sizeof kTraceMagic) == 0 && header.version <= kTraceVersion &&
         header.header_bytes >= sizeof header && header.chunk_bytes >= kPageBytes && header.chunk_bytes % kPageBytes == 0;
}

bool is_gone(std::uint32_t pid) { return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH; }

/// A host may have closed our descriptor, so without an orderly end the process is asked for too.
bool is_writer_gone(const File& file, const FileHeader& header) {
  return file.is_ours_alone() && (header.end_ns != 0 || is_gone(header.pid));
}

void trim(const fs::path& path) {
  const File file(path);
  FileHeader header{};
  if (!file.read(0, header) || !is_trace(header) || !is_writer_gone(file, header)) return;
  const bool ended = header.end_ns != 0;
  const std::uint64_t size = file.size();
  std::uint64_t used_end = header.header_bytes;
  for (std::uint64_t at = header.header_bytes; at + sizeof(ChunkHeader) <= size; at += header.chunk_bytes) {
    ChunkHeader chunk{};
    if (!file.read(at, chunk)) return;
    const bool is_used = chunk.magic == kChunkMagic && chunk.state != ChunkState::Stock;
    const bool is_strange = chunk.magic != kChunkMagic && chunk.magic != 0;  // whatever it is, it stays
    if (!is_used && !is_strange) continue;
    const std::uint64_t bytes = is_strange ? header.chunk_bytes : sizeof chunk + std::uint64_t{chunk.committed};
    file.punch(used_end, at);
    used_end = std::min(at + header.chunk_bytes, (at + bytes + kPageBytes - 1) / kPageBytes * kPageBytes);
    file.punch(used_end, std::min(at + header.chunk_bytes, size));
    used_end = at + header.chunk_bytes;
  }
  if (used_end >= size) return;
  if (ended) file.punch(used_end, size);
  else file.cut(used_end);
}

}  // namespace

bool is_writer_gone(const std::string& path) {
  const File file(path);
  FileHeader header{};
  return !file.read(0, header) || is_writer_gone(file, header);
}

void trim_traces(const std::string& directory) {
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == kTraceExtension) trim(at->path());
  }
}

}  // namespace cuheap
