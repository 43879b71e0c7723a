#include "tools/commands/install.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "tools/model/error.h"

namespace cuheap {
namespace {

namespace fs = std::filesystem;

fs::path beside(const char* relative) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / relative).lexically_normal();
}

}  // namespace

std::optional<std::string> find_preload_library(std::string& problem) {
  std::error_code error;
  const fs::path path = beside("../lib/libcuheap.so");
  if (!fs::exists(path, error)) {
    problem = path.string() + " is not there";
    return std::nullopt;
  }
  // The loader splits LD_PRELOAD at both and has no way to quote them.
  if (path.string().find_first_of(" :") != std::string::npos) {
    problem = path.string() + " has a space or colon in its path, which LD_PRELOAD cannot name";
    return std::nullopt;
  }
  return path.string();
}

SimulatedGpu find_simulated_gpu() {
  SimulatedGpu gpu;
  gpu.directory = beside("../simgpu").string();
  std::ifstream list(fs::path(gpu.directory) / "preload.list");
  if (!list)
    throw Error(
        fmt::format("{}/preload.list: cannot read; the make-believe GPU is not built or not installed beside cuheap",
                    gpu.directory));
  for (std::string line; std::getline(list, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.empty() || line[0] == '#') continue;
    const fs::path path = fs::path(gpu.directory) / line;
    std::error_code error;
    if (!fs::exists(path, error))
      throw Error(fmt::format("{}: not there, but named in preload.list; build all targets", path.string()));
    gpu.libraries.push_back(path.string());
  }
  return gpu;
}

}  // namespace cuheap
