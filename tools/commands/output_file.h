// OutputFile: where a command writes its product: a file the person named, or stdout.
#pragma once
#include <cstdio>
#include <string>

namespace cuheap {

class OutputFile {
 public:
  /// Empty or "-": stdout. Throws Error if the file cannot be made.
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  std::FILE* stream() { return file_; }
  /// Everything is written, or an Error says that the disk would not take it.
  void close();

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace cuheap
