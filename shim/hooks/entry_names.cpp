#include "shim/hooks/entry_names.h"

#include <cstring>
#include <iterator>

namespace cuheap {
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
static_assert(std::size(kHookNames) * 2 < kBuckets);

constexpr std::uint32_t hash_of(const char* name) {
  std::uint32_t hash = 2166136261u;
  for (; *name != '\0'; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619u;
  return hash ^ (hash >> 15);
}

// Open addressing, built by the compiler: dlsym of every library of the process goes through it.
struct NameIndex {
  std::uint16_t number_plus_one[kBuckets] = {};
};
constexpr NameIndex build_index() {
  NameIndex index;
  std::uint16_t number = 0;
  for (const char* name : kHookNames) {
    std::size_t bucket = hash_of(name) % kBuckets;
    while (index.number_plus_one[bucket] != 0) bucket = (bucket + 1) % kBuckets;
    index.number_plus_one[bucket] = ++number;
  }
  return index;
}
constexpr NameIndex kIndex = build_index();

}  // namespace

int find_entry_number(const char* name) {
  if (name == nullptr || name[0] != 'c' || name[1] != 'u') return -1;
  for (std::size_t bucket = hash_of(name) % kBuckets;; bucket = (bucket + 1) % kBuckets) {
    const std::uint16_t found = kIndex.number_plus_one[bucket];
    if (found == 0) return -1;
    if (std::strcmp(kHookNames[found - 1], name) == 0) return found - 1;
  }
}

bool is_memory_name(const char* name) {
  constexpr const char* kFamilies[] = {"cuMemAlloc",
                                       "cuMemFree",
                                       "cuMemGet",
                                       "cuMemHost",
                                       "cuMemAddress",
                                       "cuMemCreate",
                                       "cuMemRelease",
                                       "cuMemMap",
                                       "cuMemUnmap",
                                       "cuMemSetAccess",
                                       "cuMemSetMemPool",
                                       "cuMemExport",
                                       "cuMemImport",
                                       "cuMemRetain",
                                       "cuMemPool",
                                       "cuMemPrefetch",
                                       "cuMemDiscard",
                                       "cuMemAdvise",
                                       "cuMemBatchDecompress",
                                       "cuMemRange",
                                       "cuMulticast",
                                       "cuArray",
                                       "cuMipmappedArray",
                                       "cuIpcGetMem",
                                       "cuIpcOpenMem",
                                       "cuIpcCloseMem",
                                       "cuGraphAddMemAlloc",
                                       "cuGraphAddMemFree",
                                       "cuGraphMemAlloc",
                                       "cuGraphMemFree",
                                       "cuImportExternalMemory",
                                       "cuExternalMemory",
                                       "cuDestroyExternalMemory"};
  for (const char* prefix : kFamilies) {
    if (std::strncmp(name, prefix, std::strlen(prefix)) == 0) return true;
  }
  return false;
}

bool is_classified(const char* name) {
  if (find_entry_number(name) >= 0) return true;
  for (const char* passed : kPassNames) {
    if (std::strcmp(passed, name) == 0) return true;
  }
  return false;
}

}  // namespace cuheap
