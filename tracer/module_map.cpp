#include "tracer/module_map.h"

#include <elf.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace cuheap {
namespace {

constexpr std::size_t kMaxPathBytes = 4095;
constexpr std::size_t kFingerprintBytes = 1024;

std::uint64_t mix(std::uint64_t hash, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

struct Extent {
  std::uint64_t low = ~std::uint64_t{0};
  std::uint64_t high = 0;
};

Extent extent_of(const dl_phdr_info& info) {
  Extent extent;
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const auto& header = info.dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    if (info.dlpi_addr + header.p_vaddr < extent.low) extent.low = info.dlpi_addr + header.p_vaddr;
    if (info.dlpi_addr + header.p_vaddr + header.p_memsz > extent.high) extent.high = info.dlpi_addr + header.p_vaddr + header.p_memsz;
  }
  return extent;
}

// True if the segment's bytes lie in a readable PT_LOAD, as the file has it.
bool is_mapped(const dl_phdr_info& info, const ElfW(Phdr)& wanted) {
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const auto& header = info.dlpi_phdr[i];
    if (header.p_type == PT_LOAD && (header.p_flags & PF_R) != 0 && wanted.p_vaddr >= header.p_vaddr &&
        wanted.p_vaddr + wanted.p_memsz <= header.p_vaddr + header.p_filesz)
      return true;
  }
  return false;
}

Bytes build_id_of(const dl_phdr_info& info) {
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const auto& header = info.dlpi_phdr[i];
    if (header.p_type != PT_NOTE || !is_mapped(info, header)) continue;
    const char* at = reinterpret_cast<const char*>(info.dlpi_addr + header.p_vaddr);
    const char* const end = at + header.p_memsz;
    const auto padded = [&](std::size_t size) { return (size + 3) / 4 * 4; };
    while (static_cast<std::size_t>(end - at) >= sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) note;
      memcpy(&note, at, sizeof(note));
      at += sizeof(note);
      const std::size_t size = padded(note.n_namesz) + padded(note.n_descsz);
      if (size > static_cast<std::size_t>(end - at)) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(at, "GNU", 4) == 0)
        return {at + padded(note.n_namesz), note.n_descsz};
      at += size;
    }
  }
  return {};
}

// Tells two objects apart that were loaded at the same place one after the other, also without build-ids: their program
// headers and the head of their unwind tables differ as soon as their code does.
std::uint64_t fingerprint_of(const dl_phdr_info& info, Bytes path, Bytes build_id) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  hash = mix(hash, path.data, path.size);
  hash = mix(hash, build_id.data, build_id.size);
  hash = mix(hash, info.dlpi_phdr, info.dlpi_phnum * sizeof(*info.dlpi_phdr));
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const auto& header = info.dlpi_phdr[i];
    if (header.p_type != PT_GNU_EH_FRAME || !is_mapped(info, header)) continue;
    const std::size_t size = header.p_memsz < kFingerprintBytes ? header.p_memsz : kFingerprintBytes;
    hash = mix(hash, reinterpret_cast<const void*>(info.dlpi_addr + header.p_vaddr), size);
  }
  return hash;
}

bool contains(Bytes text, const char* part) {
  const std::size_t length = strlen(part);
  for (std::size_t i = 0; length != 0 && i + length <= text.size; ++i)
    if (memcmp(text.data + i, part, length) == 0) return true;
  return false;
}

Bytes file_name_of(Bytes path) {
  for (std::size_t i = path.size; i != 0; --i)
    if (path.data[i - 1] == '/') return {path.data + i, path.size - i};
  return path;
}

}  // namespace

LoaderGeneration loader_generation() {
  LoaderGeneration generation;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<LoaderGeneration*>(out) = {info->dlpi_adds, info->dlpi_subs};
        return 1;
      },
      &generation);
  return generation;
}

namespace {
constinit std::atomic<std::uint64_t> unloads{0};
}

std::uint64_t unloads_seen() { return unloads.load(std::memory_order_acquire); }

LoaderGeneration look_for_unloads() {
  const LoaderGeneration generation = loader_generation();
  std::uint64_t known = unloads.load(std::memory_order_relaxed);
  while (known < generation.subs && !unloads.compare_exchange_weak(known, generation.subs, std::memory_order_acq_rel)) {}
  return generation;
}

ModuleScan::~ModuleScan() {
  if (entries_ != nullptr) unmap_pages(entries_, kMaxEntries * sizeof(Entry));
  if (text_ != nullptr) unmap_pages(text_, kTextBytes);
}

bool ModuleScan::run() {
  entries_ = static_cast<Entry*>(map_pages(kMaxEntries * sizeof(Entry)));
  text_ = static_cast<char*>(map_pages(kTextBytes));
  if (entries_ == nullptr || text_ == nullptr) return false;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* scan) {
        static_cast<ModuleScan*>(scan)->add(info);
        return 0;
      },
      this);
  return true;
}

void ModuleScan::add(const void* phdr_info) {
  const auto& info = *static_cast<const dl_phdr_info*>(phdr_info);
  generation_ = {info.dlpi_adds, info.dlpi_subs};
  const Extent extent = extent_of(info);
  if (count_ == kMaxEntries || extent.low >= extent.high) return;
  Entry& entry = entries_[count_++];
  const char* const name = info.dlpi_name != nullptr ? info.dlpi_name : "";
  // Copied: the strings die with the object.
  entry.path = keep_absolute_path(name);
  const Bytes build_id = build_id_of(info);
  entry.build_id = keep(build_id.data, build_id.size);
  entry.module.low = extent.low;
  entry.module.high = extent.high;
  entry.module.base = info.dlpi_addr;
  entry.module.fingerprint = fingerprint_of(info, entry.path, entry.build_id);
  const auto here = reinterpret_cast<std::uint64_t>(&loader_generation);
  entry.module.is_ours = *name != '\0' && here >= extent.low && here < extent.high;
}

Bytes ModuleScan::keep(const char* text, std::size_t size) {
  if (size > kTextBytes - text_used_) return {};
  char* const kept = text_ + text_used_;
  if (size != 0) memcpy(kept, text, size);
  text_used_ += size;
  return {kept, size};
}

Bytes ModuleScan::keep_absolute_path(const char* name) {
  // Put together where it is kept: 4 KiB would be much of a small thread's stack.
  const std::size_t length = strlen(name);
  if (kTextBytes - text_used_ <= kMaxPathBytes) return keep(name, length);
  char* const path = text_ + text_used_;
  const auto keep_path = [&](std::size_t size) {
    text_used_ += size;
    return Bytes{path, size};
  };
  if (*name == '\0') {  // the main program
    const long size = syscall(SYS_readlink, "/proc/self/exe", path, kMaxPathBytes);
    return size > 0 ? keep_path(static_cast<std::size_t>(size)) : Bytes{};
  }
  if (*name == '/' || strchr(name, '/') == nullptr) return keep(name, length);  // the vDSO has no folder
  const long size = syscall(SYS_getcwd, path, kMaxPathBytes + 1);  // counts the null
  if (size <= 0 || static_cast<std::size_t>(size) + length > kMaxPathBytes) return keep(name, length);
  path[size - 1] = '/';
  memcpy(path + size, name, length);
  return keep_path(static_cast<std::size_t>(size) + length);
}

const Module* ModuleMap::find(std::uint64_t address) const {
  std::size_t first = 0, last = count_;
  while (first < last) {
    const std::size_t middle = (first + last) / 2;
    if (modules_[middle].low <= address) first = middle + 1;
    else last = middle;
  }
  if (first == 0 || address >= modules_[first - 1].high) return nullptr;
  return &modules_[first - 1];
}

Module* ModuleMap::find_same(const Module& module) {
  for (std::size_t i = 0; i < count_; ++i)
    if (modules_[i].low == module.low && modules_[i].fingerprint == module.fingerprint) return &modules_[i];
  return nullptr;
}

void ModuleMap::add(const ModuleScan::Entry& entry) {
  if (modules_ == nullptr) modules_ = static_cast<Module*>(map_pages(kMaxModules * sizeof(Module)));
  if (modules_ == nullptr || count_ == kMaxModules) return;
  Module module = entry.module;
  module.id = next_id_++;
  module.seen = true;
  const Bytes name = file_name_of(entry.path);
  for (unsigned i = 0; patterns_ != nullptr && i < 32 && patterns_[i] != nullptr; ++i)
    if (contains(name, patterns_[i])) module.bits |= 1u << i;
  std::size_t at = count_++;
  for (; at != 0 && modules_[at - 1].low > module.low; --at) modules_[at] = modules_[at - 1];
  modules_[at] = module;
}

void ModuleMap::drop_unseen() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count_; ++i)
    if (modules_[i].seen) modules_[kept++] = modules_[i];
  count_ = kept;
}

void ModuleMap::reset() {
  count_ = 0;
  next_id_ = 1;
  merged_ = {};
}

}  // namespace cuheap
