#include "tools/commands/staging.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "tools/commands/launch.h"
#include "tools/commands/trim.h"
#include "tools/reader/trace_reader.h"
#include "tracer/format/file_systems.h"

namespace cuheap {
namespace {

namespace fs = std::filesystem;

const char* remote_file_system_of(const std::string& path) {
  struct statfs status {};
  return ::statfs(path.c_str(), &status) == 0 ? remote_file_system(static_cast<std::uint32_t>(status.f_type)) : nullptr;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  /// A network file system may say only here that it had no room.
  bool close() {
    const bool good = ::close(fd_) == 0;
    fd_ = -1;
    return good;
  }

 private:
  int fd_;
};

bool copy_bytes(int from, int to, off_t begin, off_t end) {
  std::vector<char> buffer(1 << 20);
  while (begin < end) {
    const auto wanted = std::min<std::size_t>(buffer.size(), static_cast<std::size_t>(end - begin));
    const ssize_t got = ::pread(from, buffer.data(), wanted, begin);
    if (got <= 0) return false;
    for (ssize_t done = 0; done < got;) {
      const ssize_t put = ::pwrite(to, buffer.data() + done, static_cast<std::size_t>(got - done), begin + done);
      if (put < 0) return false;
      done += put;
    }
    begin += got;
  }
  return true;
}

/// Without its holes. False, with errno: not whole.
bool copy_sparse(const fs::path& source, const fs::path& target) {
  const Descriptor from(::open(source.c_str(), O_RDONLY | O_CLOEXEC));
  Descriptor to(::open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  struct stat status {};
  if (from.get() < 0 || to.get() < 0 || ::fstat(from.get(), &status) != 0) return false;
  for (off_t data = 0, hole = 0; (data = ::lseek(from.get(), hole, SEEK_DATA)) >= 0;) {
    hole = ::lseek(from.get(), data, SEEK_HOLE);
    if (hole < 0 || !copy_bytes(from.get(), to.get(), data, hole)) return false;
  }
  return errno == ENXIO && ::ftruncate(to.get(), status.st_size) == 0 && ::fsync(to.get()) == 0 && to.close();
}

bool move(const fs::path& source, const fs::path& target) {
  if (!copy_sparse(source, target)) {
    const int error = errno;
    if (error != EEXIST) ::unlink(target.c_str());
    tell(fmt::format("cannot move {} to {}: {}; it stays where it is", source.string(), target.parent_path().string(),
                     std::strerror(error)));
    return false;
  }
  ::unlink(source.c_str());
  return true;
}

}  // namespace

std::optional<std::string> make_staging_folder(const std::string& directory, bool is_wanted) {
  const char* const remote = remote_file_system_of(directory);
  if (remote == nullptr && !is_wanted) return std::nullopt;
  const char* const temporary = std::getenv("TMPDIR");
  for (const std::string base : {temporary != nullptr ? temporary : "", "/tmp", "/var/tmp"}) {
    if (base.empty() || remote_file_system_of(base) != nullptr) continue;
    std::string path = base + "/cuheap-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) continue;
    tell(fmt::format("{}{}: recording into {} (TMPDIR), moved at the end", directory,
                     remote != nullptr ? fmt::format(" is on {}, where a file that is written as memory is not safe", remote) : "", path));
    return path;
  }
  return std::nullopt;
}

void move_traces(const std::string& from, const std::string& to) {
  std::error_code error;
  std::vector<fs::path> traces;
  for (fs::directory_iterator at(from, error), end; !error && at != end; at.increment(error)) traces.push_back(at->path());
  for (const fs::path& trace : traces) {
    if (!is_writer_gone(trace.string())) tell(fmt::format("{} is still being written and stays there", trace.string()));
    else move(trace, fs::path(to) / trace.filename());
  }
  fs::remove(from, error);  // only if it is empty
}

}  // namespace cuheap
