// Faults on demand: which call of which function answers what. One small language for SIMGPU_FAULT and for the control API; the
// gate of every entry point (libcuda_entry.cpp) asks here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cuheap::sim {

/// `NAME:FIELD[:FIELD…]`: which calls (`nth=3` once, `every=2`, none of both: every call) and what happens (`code=2`, `hang`,
/// `capacity=2GiB` with `device=1`). Short: `NAME:NTH:CODE`, where NTH 0 is every call and CODE -1 is a hang.
struct Fault {
  std::string name;
  uint64_t nth = 0;           // 0: by `every`
  uint64_t every = 1;
  int code = 0;               // 0: the call goes on
  bool hangs = false;
  uint64_t capacity = 0;      // 0: stays
  int device = 0;
  uint64_t seen = 0;

  /// Counts one more call of the function; true: this one is meant.
  bool is_due();
};

/// A list with commas. False with a reason: then nothing of it holds.
bool parse_faults(const std::string& text, std::vector<Fault>& out, std::string& error);

/// "cuMemAlloc" also names cuMemAlloc_v2; a _ptsz twin calls its base and is counted there.
bool names_function(const std::string& wanted, const char* symbol);
/// A function of the public headers, with or without its version (libcuda_resolve.cpp).
bool is_function(const std::string& name);

}  // namespace cuheap::sim
