// ModuleMap: the loaded objects, so that an address of now can be named later: which module, which offset. Two steps: a
// scan under the loader's list lock that takes no lock of ours, then a merge under the caller's lock that calls nothing.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tracer/base/arena.h"
#include "tracer/format/codec.h"

namespace cuheap {

/// How often objects were loaded and unloaded so far: dl_iterate_phdr, stopped at once. It finishes even while another
/// thread runs a constructor under dlopen (redteam A2), but not while a thread is stopped inside it, or in a fork child whose
/// parent was: so never for an event of a known stack.
struct LoaderGeneration {
  std::uint64_t adds = 0;
  std::uint64_t subs = 0;
  bool operator==(const LoaderGeneration&) const = default;
};
LoaderGeneration loader_generation();

/// How many unloads are known of: one load, no lock. As of the last look_for_unloads(), which whoever unloads (dlclose of
/// shim/hooks/resolver.cpp) and whoever meets a new stack calls.
std::uint64_t unloads_seen();
LoaderGeneration look_for_unloads();

struct Module {
  std::uint64_t low = 0;   // first mapped byte
  std::uint64_t high = 0;  // behind the last
  std::uint64_t base = 0;  // load address: offsets count from here
  std::uint64_t fingerprint = 0;
  std::uint32_t id = 0;
  std::uint32_t bits = 0;  // which patterns its file name contains
  bool is_ours = false;    // the library this code is in (never the main program)
  bool seen = false;       // of the merge
};

/// What a scan found; pages of its own, freed by the destructor.
class ModuleScan {
 public:
  ModuleScan() = default;
  ~ModuleScan();
  ModuleScan(const ModuleScan&) = delete;
  ModuleScan& operator=(const ModuleScan&) = delete;
  /// Takes no lock of ours. False: no memory.
  [[nodiscard]] bool run();

  struct Entry {
    Module module;
    Bytes path;
    Bytes build_id;
  };
  const Entry* begin() const { return entries_; }
  const Entry* end() const { return entries_ + count_; }
  const LoaderGeneration& generation() const { return generation_; }

  // Of the callback.
  void add(const void* phdr_info);

 private:
  static constexpr std::size_t kMaxEntries = 8192;
  static constexpr std::size_t kTextBytes = std::size_t{2} << 20;

  Bytes keep(const char* text, std::size_t size);
  Bytes keep_absolute_path(const char* name);

  Entry* entries_ = nullptr;
  std::size_t count_ = 0;
  char* text_ = nullptr;
  std::size_t text_used_ = 0;
  LoaderGeneration generation_;
};

class ModuleMap {
 public:
  /// `patterns`: substrings of file names, null ends the list; kept, not copied.
  void set_patterns(const char* const* patterns) { patterns_ = patterns; }

  /// Takes a newer scan over; calls define(const ModuleRecord&) for each module not seen before, which gets its id only
  /// if that returns true. Under the caller's lock.
  template <typename Define>
  void merge(const ModuleScan& scan, Define&& define) {
    if (merged_.adds + merged_.subs > scan.generation().adds + scan.generation().subs) return;
    for (std::size_t i = 0; i < count_; ++i) modules_[i].seen = false;
    for (const ModuleScan::Entry& entry : scan) {
      if (Module* const known = find_same(entry.module)) {
        known->seen = true;
        continue;
      }
      ModuleRecord record{next_id_, entry.module.base, entry.module.high - entry.module.base, entry.path, entry.build_id};
      if (!define(record)) return;  // the next merge tries again
      add(entry);
    }
    drop_unseen();
    merged_ = scan.generation();
  }

  /// The generation that the map stands for.
  const LoaderGeneration& generation() const { return merged_; }
  /// The module that holds `address`, or null.
  const Module* find(std::uint64_t address) const;
  std::size_t size() const { return count_; }
  void reset();

 private:
  static constexpr std::size_t kMaxModules = 8192;

  Module* find_same(const Module& module);
  void add(const ModuleScan::Entry& entry);
  void drop_unseen();

  const char* const* patterns_ = nullptr;
  Module* modules_ = nullptr;  // sorted by low; kMaxModules
  std::size_t count_ = 0;
  std::uint32_t next_id_ = 1;
  LoaderGeneration merged_;
};

}  // namespace cuheap
