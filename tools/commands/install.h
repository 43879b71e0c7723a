// Where the other parts of cuheap lie: found from the place of this program, in a build tree and installed alike.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace cuheap {

/// Absolute path of libcuheap.so, or why there is none in `problem`.
std::optional<std::string> find_preload_library(std::string& problem);

/// The make-believe GPU.
struct SimulatedGpu {
  std::string directory;               // for LD_LIBRARY_PATH
  std::vector<std::string> libraries;  // for LD_PRELOAD, absolute, in this order
};
/// Throws Error where it is not there: without it the program could not run at all.
SimulatedGpu find_simulated_gpu();

}  // namespace cuheap
