#include "tools/commands/output_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "tools/model/error.h"

namespace cuheap {

OutputFile::OutputFile(const std::string& path) : path_(path) {
  if (path.empty() || path == "-") {
    path_ = "stdout";
    file_ = stdout;
    return;
  }
  file_ = std::fopen(path.c_str(), "wb");
  if (file_ == nullptr)
    throw Error(fmt::format("{}: cannot write: {}; name another file with -o", path, std::strerror(errno)));
}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
}

void OutputFile::close() {
  const bool failed = std::ferror(file_) != 0;
  const int result = file_ == stdout ? std::fflush(file_) : std::fclose(file_);
  const int error = errno;
  file_ = nullptr;
  if (failed || result != 0)
    throw Error(fmt::format("{}: cannot write it all: {}", path_, std::strerror(result != 0 ? error : EIO)));
}

}  // namespace cuheap
