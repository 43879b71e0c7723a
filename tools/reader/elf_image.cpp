#include "tools/reader/elf_image.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tools/reader/symbols.h"

namespace cuheap {
namespace {

/// A file that elfutils reads by mapping it.
struct OpenElf {
  int fd = -1;
  Elf* elf = nullptr;

  bool open(const std::string& path) {
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    elf = elf_begin(fd, ELF_C_READ_MMAP, nullptr);
    return elf != nullptr && elf_kind(elf) == ELF_K_ELF;
  }
  ~OpenElf() {
    if (elf != nullptr) elf_end(elf);
    if (fd >= 0) ::close(fd);
  }
};

bool has_section(Elf* elf, const char* wanted) {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return false;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    const char* const name = elf_strptr(elf, names, header.sh_name);
    if (name != nullptr && std::string_view(name) == wanted) return true;
  }
  return false;
}

/// Where distributions put debug files: by build-id, else by the name in .gnu_debuglink.
std::vector<std::string> debug_file_names(Elf* elf, const std::string& path, const std::string& build_id) {
  std::vector<std::string> names;
  if (build_id.size() > 1) {
    std::string hex;
    for (const char c : build_id) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
    names.push_back("/usr/lib/debug/.build-id/" + hex.substr(0, 2) + "/" + hex.substr(2) + ".debug");
  }
  GElf_Word checksum = 0;
  if (const char* const link = dwelf_elf_gnu_debuglink(elf, &checksum)) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    names.push_back((folder / link).string());
    names.push_back((folder / ".debug" / link).string());
    names.push_back("/usr/lib/debug" + (folder / link).string());
  }
  return names;
}

std::string build_id_of(Elf* elf) {
  const void* bytes = nullptr;
  const ssize_t size = dwelf_elf_gnu_build_id(elf, &bytes);
  return size > 0 ? std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size)) : std::string();
}

Elf_Scn* symbol_table(Elf* elf, GElf_Shdr& header) {
  Elf_Scn* dynamic = nullptr;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    if (gelf_getshdr(section, &header) == nullptr) continue;
    if (header.sh_type == SHT_SYMTAB) return section;
    if (header.sh_type == SHT_DYNSYM) dynamic = section;
  }
  if (dynamic != nullptr) gelf_getshdr(dynamic, &header);
  return dynamic;
}

bool is_function(const GElf_Sym& symbol) {
  const unsigned type = GELF_ST_TYPE(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC);
}

/// The namespaces and classes around a function, as "a::b::". Functions without linkage (anonymous namespaces) carry no
/// linkage name, so the way out from the declaration has to be walked.
std::string enclosing_names(Dwarf_Die* die) {
  Dwarf_Die declaration = *die, next;
  Dwarf_Attribute attribute;
  constexpr int kMostLinks = 8;  // a chain in damaged debug info may be a circle
  for (int i = 0; i < kMostLinks; ++i) {
    const bool linked = dwarf_attr(&declaration, DW_AT_abstract_origin, &attribute) != nullptr ||
                        dwarf_attr(&declaration, DW_AT_specification, &attribute) != nullptr;
    if (!linked || dwarf_formref_die(&attribute, &next) == nullptr) break;
    declaration = next;
  }
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes_die(&declaration, &scopes);
  std::string names;
  for (int i = 1; i < count; ++i) {
    const int tag = dwarf_tag(&scopes[i]);
    const char* const name = dwarf_diename(&scopes[i]);
    if (tag == DW_TAG_namespace) names.insert(0, std::string(name != nullptr ? name : "(anonymous namespace)") + "::");
    else if (tag == DW_TAG_class_type || tag == DW_TAG_structure_type || tag == DW_TAG_union_type)
      names.insert(0, std::string(name != nullptr ? name : "(anonymous class)") + "::");
    else break;
  }
  std::free(scopes);
  return names;
}

std::string die_name(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (dwarf_attr_integrate(die, name, &attribute) != nullptr) {
      if (const char* const text = dwarf_formstring(&attribute)) return demangled(text);
    }
  }
  if (dwarf_attr_integrate(die, DW_AT_name, &attribute) != nullptr) {
    if (const char* const text = dwarf_formstring(&attribute)) return enclosing_names(die) + text;
  }
  return "?";
}

bool is_call(Dwarf_Die* die) {
  const int tag = dwarf_tag(die);
  return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_entry_point;
}

/// Where an inlined call was made: file and line of the frame outside it.
void call_place(Dwarf_Die* unit, Dwarf_Die* inlined, Frame& caller) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_attr(inlined, DW_AT_call_line, &attribute) != nullptr && dwarf_formudata(&attribute, &value) == 0) {
    caller.line = static_cast<std::uint32_t>(value);
  }
  Dwarf_Files* files = nullptr;
  if (dwarf_attr(inlined, DW_AT_call_file, &attribute) != nullptr && dwarf_formudata(&attribute, &value) == 0 &&
      dwarf_getsrcfiles(unit, &files, nullptr) == 0) {
    if (const char* const file = dwarf_filesrc(files, value, nullptr, nullptr)) caller.file = file;
  }
}

}  // namespace

struct ElfImage::Handles {
  std::string path;
  OpenElf image;
  OpenElf debug;
  Dwarf* dwarf = nullptr;
  bool has_aranges = false;
  ~Handles() {
    if (dwarf != nullptr) dwarf_end(dwarf);
  }

  void find_dwarf(const std::string& build_id) {
    Elf* source = nullptr;
    if (has_section(image.elf, ".debug_info")) {
      source = image.elf;
    } else {
      for (const std::string& name : debug_file_names(image.elf, path, build_id)) {
        std::error_code ignored;
        if (!std::filesystem::is_regular_file(name, ignored)) continue;
        OpenElf candidate;
        if (!candidate.open(name) || build_id_of(candidate.elf) != build_id ||
            !has_section(candidate.elf, ".debug_info"))
          continue;
        std::swap(candidate.fd, debug.fd);
        std::swap(candidate.elf, debug.elf);
        source = debug.elf;
        break;
      }
    }
    if (source == nullptr) return;
    has_aranges = has_section(source, ".debug_aranges");
    dwarf = dwarf_begin_elf(source, DWARF_C_READ, nullptr);
  }

  bool find_unit(std::uint64_t address, Dwarf_Die& unit) {
    if (has_aranges && dwarf_addrdie(dwarf, address, &unit) != nullptr) return true;
    // clang writes no .debug_aranges: ask every unit.
    Dwarf_CU* cu = nullptr;
    while (dwarf_get_units(dwarf, cu, &cu, nullptr, nullptr, &unit, nullptr) == 0) {
      if (dwarf_haspc(&unit, address) == 1) return true;
    }
    return false;
  }
};

ElfImage::ElfImage(std::unique_ptr<Handles> handles) : handles_(std::move(handles)) {}
ElfImage::~ElfImage() = default;

std::unique_ptr<ElfImage> ElfImage::open(const std::string& path) {
  elf_version(EV_CURRENT);
  auto handles = std::make_unique<Handles>();
  handles->path = path;
  if (!handles->image.open(path)) return nullptr;
  std::unique_ptr<ElfImage> image(new ElfImage(std::move(handles)));
  image->build_id_ = build_id_of(image->handles_->image.elf);
  image->handles_->find_dwarf(image->build_id_);
  return image;
}

std::uint64_t ElfImage::file_address(std::uint64_t base, std::uint64_t offset) const {
  GElf_Ehdr header;
  if (gelf_getehdr(handles_->image.elf, &header) == nullptr) return offset;
  // A program linked to a fixed place: its addresses are those of the process.
  return header.e_type == ET_EXEC ? base + offset : offset;
}

std::vector<std::string> ElfImage::functions(std::span<const std::uint64_t> addresses) const {
  std::vector<std::string> names(addresses.size());
  GElf_Shdr header;
  Elf* const elf = handles_->image.elf;
  Elf_Scn* const section = symbol_table(elf, header);
  Elf_Data* const data = section != nullptr ? elf_getdata(section, nullptr) : nullptr;
  if (data == nullptr || header.sh_entsize == 0) return names;
  // The innermost enclosing function wins; one without a size (assembly) counts for a short way only.
  constexpr std::uint64_t kUnsizedBytes = 1024;
  struct Best {
    std::uint64_t value = 0;
    std::size_t name = 0;
    bool sized = false, found = false;
  };
  std::vector<Best> best(addresses.size());
  const auto index_of = [&](std::uint64_t value) {
    return static_cast<std::size_t>(std::lower_bound(addresses.begin(), addresses.end(), value) - addresses.begin());
  };
  const std::size_t count = header.sh_size / header.sh_entsize;
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr || !is_function(symbol)) continue;
    const std::uint64_t end = symbol.st_value + symbol.st_size;
    std::size_t at = index_of(symbol.st_value);
    if (symbol.st_size == 0 && at < best.size() && addresses[at] - symbol.st_value < kUnsizedBytes && !best[at].sized &&
        (!best[at].found || best[at].value <= symbol.st_value)) {
      best[at] = {symbol.st_value, symbol.st_name, false, true};
    }
    for (; at < best.size() && addresses[at] < end; ++at) {
      if (!best[at].sized || best[at].value < symbol.st_value) best[at] = {symbol.st_value, symbol.st_name, true, true};
    }
  }
  for (std::size_t i = 0; i < best.size(); ++i) {
    if (!best[i].found) continue;
    if (const char* const name = elf_strptr(elf, header.sh_link, best[i].name)) names[i] = demangled(name);
  }
  return names;
}

std::vector<Frame> ElfImage::source_frames(std::uint64_t address) {
  std::vector<Frame> frames;
  Dwarf_Die unit;
  if (handles_->dwarf == nullptr || !handles_->find_unit(address, unit)) return frames;
  Dwarf_Die* scopes = nullptr;
  const int found = dwarf_getscopes(&unit, address, &scopes);
  if (found <= 0) return frames;
  // dwarf_getscopes jumps to the abstract origin at the first inlined call; the chain of the concrete DIEs is the one
  // that knows the call places.
  Dwarf_Die innermost = scopes[0];
  std::free(scopes);
  const int depth = dwarf_getscopes_die(&innermost, &scopes);
  if (depth <= 0) return frames;
  Frame place;
  if (Dwarf_Line* const line = dwarf_getsrc_die(&unit, address)) {
    int number = 0;
    if (dwarf_lineno(line, &number) == 0) place.line = static_cast<std::uint32_t>(number);
    if (const char* const file = dwarf_linesrc(line, nullptr, nullptr)) place.file = file;
  }
  for (int i = 0; i < depth; ++i) {
    if (!is_call(&scopes[i])) continue;
    place.function = die_name(&scopes[i]);
    frames.push_back(place);
    if (dwarf_tag(&scopes[i]) != DW_TAG_inlined_subroutine) break;
    call_place(&unit, &scopes[i], place);
  }
  std::free(scopes);
  return frames;
}

}  // namespace cuheap
