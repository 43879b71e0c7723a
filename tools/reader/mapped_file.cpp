#include "tools/reader/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/model/error.h"

namespace cuheap {
namespace {

[[noreturn]] void fail(const std::string& path, const char* doing, int error) {
  throw Error(fmt::format("{}: cannot {}: {}", path, doing, std::strerror(error)));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(path, "open", errno);
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    const int error = errno;
    const bool regular = S_ISREG(status.st_mode);
    ::close(fd);
    if (!regular) throw Error(path + ": not a regular file; name a trace file or a run directory");
    fail(path, "read", error);
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ != 0) {
    void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    const int error = errno;
    if (mapped == MAP_FAILED) {
      ::close(fd);
      fail(path, "map", error);
    }
    data_ = static_cast<const std::uint8_t*>(mapped);
  }
  ::close(fd);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::uint8_t*>(data_), size_);
}

}  // namespace cuheap
