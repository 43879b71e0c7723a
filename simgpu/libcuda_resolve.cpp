// cuGetProcAddress: base name, ABI version and stream flavour to the address of an exported symbol. The table is generated from
// cudaTypedefs.h; its addresses are bound inside this library, so they equal what dlsym answers for this library's handle.
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "simgpu/faults.h"
#include "simgpu/libcuda_entry.h"

#define SIMGPU_FOREIGN(name) extern "C" CUresult name();
#include <proc_foreign.inc>
#undef SIMGPU_FOREIGN

namespace cuheap::sim {
namespace {

struct Row {
  const char* name;
  int version;
  bool per_thread;
  void* address;
};

const Row kRows[] = {
#define SIMGPU_PROC(name, version, per_thread, symbol) {name, version, per_thread != 0, reinterpret_cast<void*>(&symbol)},
#include <proc_table.inc>
#undef SIMGPU_PROC
};

/// Rows of a base name, by ascending version (the generator sorts them).
const std::vector<const Row*>* find_rows(const char* name) {
  static const auto& index = *[] {
    auto* map = new std::unordered_map<std::string_view, std::vector<const Row*>>;
    for (const Row& row : kRows) (*map)[row.name].push_back(&row);
    return map;
  }();
  const auto at = index.find(name);
  return at == index.end() ? nullptr : &at->second;
}

const Row* newest(const std::vector<const Row*>& rows, int version, bool per_thread) {
  const Row* best = nullptr;
  for (const Row* row : rows)
    if (row->per_thread == per_thread && row->version <= version && (best == nullptr || row->version > best->version)) best = row;
  return best;
}

CUresult resolve(const char* name, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (name == nullptr || out == nullptr || (flags & ~known) != 0 || flags == known) return CUDA_ERROR_INVALID_VALUE;
  if (version < 0 || version > driver_version()) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (const auto* rows = find_rows(name)) {
    const Row* row = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0 ? newest(*rows, version, true) : nullptr;
    if (row == nullptr) row = newest(*rows, version, false);
    found = row != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (row != nullptr) *out = row->address;
  }
  if (status != nullptr) *status = found;
  return CUDA_SUCCESS;
}

}  // namespace

bool is_function(const std::string& name) {
  const size_t at = name.rfind("_v");
  const bool versioned = at != std::string::npos && at + 3 == name.size();
  return find_rows(name.c_str()) != nullptr || (versioned && find_rows(name.substr(0, at).c_str()) != nullptr);
}

}  // namespace cuheap::sim

using namespace cuheap::sim;

SIMGPU_API CUresult cuGetProcAddress(const char* name, void** out, int version, cuuint64_t flags) {
  SIMGPU_ENTER(Needs::Nothing);
  return resolve(name, out, version, flags, nullptr);
}

SIMGPU_API CUresult cuGetProcAddress_v2(const char* name, void** out, int version, cuuint64_t flags,
                                        CUdriverProcAddressQueryResult* status) {
  SIMGPU_ENTER(Needs::Nothing);
  return resolve(name, out, version, flags, status);
}
