#include "shim/hooks/entry_points.h"

#include <cstring>

namespace cuheap {

const EntryPoint kEntryPoints[] = {
#define CUHEAP_HOOK(name, need, action) \
  {#name, reinterpret_cast<void*>(&::name), {#name, offsetof(DriverTable, name)}, Need::need, Action::action},
#define CUHEAP_PASS(name, why)
#include "shim/hooks/entry_points.inc"
#undef CUHEAP_HOOK
#undef CUHEAP_PASS
};
const std::size_t kEntryPointCount = sizeof(kEntryPoints) / sizeof(kEntryPoints[0]);

namespace {

constexpr const char* kHookNames[] = {
#define CUHEAP_HOOK(name, need, action) #name,
#define CUHEAP_PASS(name, why)
#include "shim/hooks/entry_points.inc"
#undef CUHEAP_HOOK
#undef CUHEAP_PASS
};

constexpr const char* kPassNames[] = {
#define CUHEAP_HOOK(name, need, action)
#define CUHEAP_PASS(name, why) #name,
#include "shim/hooks/entry_points.inc"
#undef CUHEAP_HOOK
#undef CUHEAP_PASS
};

constexpr std::size_t kBuckets = 512;
static_assert(sizeof(kHookNames) / sizeof(kHookNames[0]) * 2 < kBuckets);

constexpr std::uint32_t hash_of(const char* name) {
  std::uint32_t hash = 2166136261u;
  for (; *name != '\0'; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619u;
  return hash ^ (hash >> 15);
}

// Open addressing, built by the compiler: dlsym of every library of the process goes through it.
struct NameIndex {
  std::uint16_t entry_plus_one[kBuckets] = {};
};
constexpr NameIndex build_index() {
  NameIndex index;
  std::uint16_t number = 0;
  for (const char* name : kHookNames) {
    std::size_t bucket = hash_of(name) % kBuckets;
    while (index.entry_plus_one[bucket] != 0) bucket = (bucket + 1) % kBuckets;
    index.entry_plus_one[bucket] = ++number;
  }
  return index;
}
constexpr NameIndex kIndex = build_index();

bool has_prefix(const char* name, const char* prefix) { return std::strncmp(name, prefix, std::strlen(prefix)) == 0; }

}  // namespace

const EntryPoint* find_entry_point(const char* name) {
  if (name == nullptr || name[0] != 'c' || name[1] != 'u') return nullptr;
  for (std::size_t bucket = hash_of(name) % kBuckets;; bucket = (bucket + 1) % kBuckets) {
    const std::uint16_t found = kIndex.entry_plus_one[bucket];
    if (found == 0) return nullptr;
    if (std::strcmp(kHookNames[found - 1], name) == 0) return &kEntryPoints[found - 1];
  }
}

void* substitute(const char* symbol, void* real) {
  if (real == nullptr || symbol == nullptr) return real;
  for (const EntryPoint& entry : kEntryPoints) {
    if (driver_function(entry.slot) == real && has_prefix(entry.name, symbol)) return entry.hook;
  }
  return real;
}

bool is_memory_name(const char* name) {
  constexpr const char* kFamilies[] = {"cuMemAlloc", "cuMemFree", "cuMemGet", "cuMemHost", "cuMemAddress", "cuMemCreate",
                                       "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemSetMemPool", "cuMemExport", "cuMemImport",
                                       "cuMemRetain", "cuMemPool", "cuMemPrefetch", "cuMemDiscard", "cuMemAdvise",
                                       "cuMemBatchDecompress", "cuMemRange", "cuMulticast", "cuArray", "cuMipmappedArray",
                                       "cuIpcGetMem", "cuIpcOpenMem", "cuIpcCloseMem", "cuGraphAddMemAlloc", "cuGraphAddMemFree", "cuGraphMem",
                                       "cuImportExternalMemory", "cuExternalMemory", "cuDestroyExternalMemory"};
  for (const char* prefix : kFamilies) {
    if (has_prefix(name, prefix)) return true;
  }
  return false;
}

bool is_classified(const char* name) {
  if (find_entry_point(name) != nullptr) return true;
  for (const char* passed : kPassNames) {
    if (std::strcmp(passed, name) == 0) return true;
  }
  return false;
}

}  // namespace cuheap
