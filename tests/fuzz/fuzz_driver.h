// Drives a fuzz target without a fuzzing engine: replays the corpus, then mutates it with a fixed seed. The targets
// have libFuzzer's entry as well, so that an engine can be linked instead of this driver.
//
//   target [--seconds N] [--seed N] CORPUS...
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace cuheap::fuzz {

using Input = std::vector<std::uint8_t>;

/// Valid inputs to begin with, beside the files of the corpus.
std::vector<Input> seeds();

}  // namespace cuheap::fuzz
