#include "shim/driver/elf_symbols.h"

#include <elf.h>
#include <link.h>

#include <cstring>

namespace cuheap {
namespace {

using Symbol = ElfW(Sym);

// glibc relocates d_ptr of most objects in place, but not of the vDSO: accept both.
std::uintptr_t absolute(std::uintptr_t base, std::uintptr_t pointer) { return pointer < base ? base + pointer : pointer; }

void* address_of(const LoadedObject& object, const Symbol& symbol) {
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  const bool usable = symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 &&
                      (type == STT_FUNC || type == STT_OBJECT || type == STT_NOTYPE);
  return usable ? reinterpret_cast<void*>(object.base + symbol.st_value) : nullptr;
}

std::uint32_t gnu_hash_of(const char* name) {
  std::uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

std::uint32_t sysv_hash_of(const char* name) {
  std::uint32_t hash = 0;
  for (; *name != '\0'; ++name) {
    hash = (hash << 4) + static_cast<unsigned char>(*name);
    const std::uint32_t high = hash & 0xf0000000u;
    hash = (hash ^ (high >> 24)) & ~high;
  }
  return hash;
}

// Layout: nbuckets, first symbol, bloom words, bloom shift, bloom[], buckets[], chain[].
void* find_gnu(const LoadedObject& object, const char* name) {
  const std::uint32_t* const table = object.gnu_hash;
  const std::uint32_t bucket_count = table[0], first = table[1], bloom_words = table[2];
  if (bucket_count == 0) return nullptr;
  const std::uint32_t* const buckets = table + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
  const std::uint32_t* const chain = buckets + bucket_count;
  const std::uint32_t hash = gnu_hash_of(name);
  std::uint32_t index = buckets[hash % bucket_count];
  if (index < first) return nullptr;
  const Symbol* const symbols = static_cast<const Symbol*>(object.symbols);
  for (;; ++index) {
    const std::uint32_t candidate = chain[index - first];
    if ((candidate | 1) == (hash | 1) && std::strcmp(object.strings + symbols[index].st_name, name) == 0) {
      if (void* const found = address_of(object, symbols[index])) return found;
    }
    if ((candidate & 1) != 0) return nullptr;
  }
}

void* find_sysv(const LoadedObject& object, const char* name) {
  const std::uint32_t bucket_count = object.sysv_hash[0];
  if (bucket_count == 0) return nullptr;
  const std::uint32_t* const buckets = object.sysv_hash + 2;
  const std::uint32_t* const chain = buckets + bucket_count;
  const Symbol* const symbols = static_cast<const Symbol*>(object.symbols);
  for (std::uint32_t index = buckets[sysv_hash_of(name) % bucket_count]; index != 0; index = chain[index]) {
    if (std::strcmp(object.strings + symbols[index].st_name, name) == 0) {
      if (void* const found = address_of(object, symbols[index])) return found;
    }
  }
  return nullptr;
}

// The dynamic section does not say how many symbols there are: the hash tables do.
std::uint32_t symbol_count(const LoadedObject& object) {
  if (object.sysv_hash != nullptr) return object.sysv_hash[1];
  const std::uint32_t* const table = object.gnu_hash;
  if (table == nullptr) return 0;
  const std::uint32_t bucket_count = table[0], first = table[1], bloom_words = table[2];
  const std::uint32_t* const buckets = table + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
  const std::uint32_t* const chain = buckets + bucket_count;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < bucket_count; ++i) last = buckets[i] > last ? buckets[i] : last;
  if (last < first) return first;
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

void read_dynamic(LoadedObject& object, const ElfW(Dyn)* entry) {
  std::uintptr_t soname_offset = 0;
  for (; entry->d_tag != DT_NULL; ++entry) {
    const std::uintptr_t pointer = absolute(object.base, entry->d_un.d_ptr);
    switch (entry->d_tag) {
      case DT_SYMTAB: object.symbols = reinterpret_cast<const void*>(pointer); break;
      case DT_STRTAB: object.strings = reinterpret_cast<const char*>(pointer); break;
      case DT_GNU_HASH: object.gnu_hash = reinterpret_cast<const std::uint32_t*>(pointer); break;
      case DT_HASH: object.sysv_hash = reinterpret_cast<const std::uint32_t*>(pointer); break;
      case DT_SONAME: soname_offset = entry->d_un.d_val; break;
      default: break;
    }
  }
  if (soname_offset != 0 && object.strings != nullptr) object.soname = object.strings + soname_offset;
}

LoadedObject describe(const dl_phdr_info& info) {
  LoadedObject object;
  object.base = info.dlpi_addr;
  object.path = info.dlpi_name;
  object.begin = UINTPTR_MAX;
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    const std::uintptr_t start = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(start);
    if (header.p_type != PT_LOAD) continue;
    if (start < object.begin) object.begin = start;
    if (start + header.p_memsz > object.end) object.end = start + header.p_memsz;
  }
  if (dynamic != nullptr) read_dynamic(object, dynamic);
  return object;
}

struct Visit {
  ObjectVisitor visitor;
  void* context;
};

int visit_one(dl_phdr_info* info, std::size_t, void* data) {
  const Visit& visit = *static_cast<const Visit*>(data);
  return visit.visitor(describe(*info), visit.context) ? 1 : 0;
}

struct BySoname {
  const char* soname;
  LoadedObject* out;
};

struct BySymbol {
  const char* symbol;
  std::uintptr_t not_here;
  void* found;
};

int read_generation(dl_phdr_info* info, std::size_t, void* data) {
  *static_cast<std::uint64_t*>(data) = info->dlpi_adds + info->dlpi_subs;
  return 1;
}

}  // namespace

void* LoadedObject::find(const char* symbol) const {
  if (symbols == nullptr || strings == nullptr) return nullptr;
  if (gnu_hash != nullptr) return find_gnu(*this, symbol);
  return sysv_hash != nullptr ? find_sysv(*this, symbol) : nullptr;
}

void LoadedObject::for_each_function(void (*visit)(const char* name, void* context), void* context) const {
  if (symbols == nullptr || strings == nullptr) return;
  const Symbol* const table = static_cast<const Symbol*>(symbols);
  const std::uint32_t count = symbol_count(*this);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (ELF64_ST_TYPE(table[i].st_info) == STT_FUNC && table[i].st_shndx != SHN_UNDEF) visit(strings + table[i].st_name, context);
  }
}

bool visit_objects(ObjectVisitor visitor, void* context) {
  Visit visit{visitor, context};
  return dl_iterate_phdr(visit_one, &visit) != 0;
}

bool find_object(const char* soname, LoadedObject* out) {
  BySoname wanted{soname, out};
  return visit_objects(
      [](const LoadedObject& object, void* context) {
        const BySoname& by = *static_cast<BySoname*>(context);
        if (object.soname == nullptr || std::strcmp(object.soname, by.soname) != 0) return false;
        *by.out = object;
        return true;
      },
      &wanted);
}

void* find_symbol(const char* symbol, const void* not_here) {
  BySymbol wanted{symbol, reinterpret_cast<std::uintptr_t>(not_here), nullptr};
  visit_objects(
      [](const LoadedObject& object, void* context) {
        BySymbol& by = *static_cast<BySymbol*>(context);
        if (by.not_here >= object.begin && by.not_here < object.end) return false;
        by.found = object.find(by.symbol);
        return by.found != nullptr;
      },
      &wanted);
  return wanted.found;
}

std::uint64_t loads_and_unloads() {
  std::uint64_t generation = 0;
  dl_iterate_phdr(read_generation, &generation);
  return generation;
}

}  // namespace cuheap
