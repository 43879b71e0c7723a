// MappedFile: the bytes of one file, read-only. The first step of reading; knows nothing of what the bytes mean.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cuheap {

class MappedFile {
 public:
  /// Maps the file as long as it is at this moment; a writer may go on appending. Throws Error with the system's
  /// reason.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::uint8_t> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace cuheap
