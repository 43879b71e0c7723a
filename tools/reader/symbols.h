// Symbols: module + offset -> function, file, line. Reads ELF and DWARF of the libraries on this machine after the run;
// stands between the reader's raw stacks and the frames of a Trace. Executes nothing of them and asks no server.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/model/trace.h"

namespace cuheap {

struct ModuleIdentity {
  std::string path;
  std::string build_id;    // raw bytes; empty if the process knew none
  std::uint64_t base = 0;  // load address in the process

  bool operator<(const ModuleIdentity& other) const {
    return path != other.path ? path < other.path : build_id < other.build_id;
  }
};

class ElfImage;

class Symbols {
 public:
  /// Frames of one address, innermost first; more than one where the compiler inlined. Never empty: what cannot be
  /// named reads `module+0x1a2b`.
  using Frames = std::vector<Frame>;

  /// Names all `offsets` of a module in one pass over its tables: a library of gigabytes costs its symbol table, once.
  /// The answer has one entry an offset.
  std::vector<Frames> resolve(const ModuleIdentity& module, std::span<const std::uint64_t> offsets);

  /// What could not be read, a line a module: missing files, other builds than the recorded one.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::unique_ptr<ElfImage> open(const ModuleIdentity& module);
  void learn(const ModuleIdentity& module, const std::vector<std::uint64_t>& offsets);

  std::map<ModuleIdentity, std::map<std::uint64_t, Frames>> known_;
  std::vector<std::string> notes_;
};

/// `_ZN3fooEv` -> `foo()`; other names come back unchanged.
std::string demangled(const char* name);

}  // namespace cuheap
