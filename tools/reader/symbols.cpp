#include "tools/reader/symbols.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "tools/reader/elf_image.h"

namespace cuheap {
namespace {

std::string file_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

Frame nameless(const std::string& module, std::uint64_t offset) {
  Frame frame;
  frame.function = fmt::format("{}+{:#x}", module.empty() ? "unknown" : module, offset);
  frame.module = module;
  return frame;
}

}  // namespace

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  if (text == nullptr) return name;
  std::string result(text);
  std::free(text);
  return result;
}

/// Null if the file is missing or another build; `notes_` says so once a module.
std::unique_ptr<ElfImage> Symbols::open(const ModuleIdentity& module) {
  if (module.path.empty()) return nullptr;
  std::unique_ptr<ElfImage> image = ElfImage::open(module.path);
  if (image == nullptr) {
    // Things like linux-vdso.so.1 have no file and need no remark.
    if (module.path.starts_with('/')) {
      notes_.push_back(module.path + " is not on this machine: its frames show as offsets");
    }
  } else if (!module.build_id.empty() && image->build_id() != module.build_id) {
    notes_.push_back(module.path + " is another build than the recorded one: its frames show as offsets");
    image = nullptr;
  }
  return image;
}

/// `offsets` in ascending order.
void Symbols::learn(const ModuleIdentity& module, const std::vector<std::uint64_t>& offsets) {
  const std::string name = file_name(module.path);
  const std::unique_ptr<ElfImage> image = open(module);
  std::vector<std::uint64_t> addresses;
  std::vector<std::string> functions(offsets.size());
  if (image != nullptr) {
    for (const std::uint64_t offset : offsets) addresses.push_back(image->file_address(module.base, offset));
    functions = image->functions(addresses);
  }
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    Frames frames = image != nullptr ? image->source_frames(addresses[i]) : Frames();
    if (frames.empty()) {
      frames.push_back(nameless(name, offsets[i]));
      if (!functions[i].empty()) frames.back().function = functions[i];
    }
    for (Frame& frame : frames) frame.module = name;
    known_[module].emplace(offsets[i], std::move(frames));
  }
}

std::vector<Symbols::Frames> Symbols::resolve(const ModuleIdentity& module, std::span<const std::uint64_t> offsets) {
  const std::map<std::uint64_t, Frames>& known = known_[module];
  std::vector<std::uint64_t> missing;
  for (const std::uint64_t offset : offsets) {
    if (!known.contains(offset)) missing.push_back(offset);
  }
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  if (!missing.empty()) learn(module, missing);
  std::vector<Frames> result;
  result.reserve(offsets.size());
  for (const std::uint64_t offset : offsets) result.push_back(known.at(offset));
  return result;
}

}  // namespace cuheap
