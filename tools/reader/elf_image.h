// ElfImage: one library or program on disk, opened for its symbol table and its DWARF (its own, or that of a separate
// debug file installed for its build-id). The half of Symbols that knows elfutils.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/model/trace.h"

namespace cuheap {

class ElfImage {
 public:
  /// Null if the file is missing or no ELF file.
  static std::unique_ptr<ElfImage> open(const std::string& path);
  ~ElfImage();
  ElfImage(const ElfImage&) = delete;
  ElfImage& operator=(const ElfImage&) = delete;

  const std::string& build_id() const { return build_id_; }  // raw bytes; empty if it has none
  /// The address in the file of `offset` from where the loader put the image.
  std::uint64_t file_address(std::uint64_t base, std::uint64_t offset) const;

  /// Function names from the symbol table for addresses in ascending order; empty where no function is there.
  std::vector<std::string> functions(std::span<const std::uint64_t> addresses) const;
  /// Functions, files and lines from DWARF, inlined calls expanded, innermost first; empty without DWARF there.
  std::vector<Frame> source_frames(std::uint64_t address);

 private:
  struct Handles;
  explicit ElfImage(std::unique_ptr<Handles> handles);
  std::unique_ptr<Handles> handles_;
  std::string build_id_;
};

}  // namespace cuheap
