#include "tests/fuzz/fuzz_driver.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

namespace cuheap::fuzz {
namespace {

struct Settings {
  double seconds = 3;
  std::uint64_t seed = 1;
  std::vector<std::string> folders;
};

Settings settings_of(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--seconds" && i + 1 < argc) {
      settings.seconds = std::atof(argv[++i]);
    } else if (word == "--seed" && i + 1 < argc) {
      settings.seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      settings.folders.push_back(word);
    }
  }
  return settings;
}

std::vector<Input> corpus(const Settings& settings) {
  std::vector<Input> inputs = seeds();
  for (const std::string& folder : settings.folders) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::ifstream in(entry.path(), std::ios::binary);
      inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  }
  return inputs;
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t end) {
    return end == 0 ? 0 : std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }

  /// Small harm, most often: bytes flipped, numbers made extreme, pieces moved, doubled or cut.
  Input mutate(Input input, const Input& other) {
    for (std::size_t n = 1 + below(4); n > 0; --n) {
      if (input.empty()) return other;
      const std::size_t at = below(input.size());
      switch (below(7)) {
        case 0:
          input[at] ^= static_cast<std::uint8_t>(1u << below(8));
          break;
        case 1:
          input[at] = static_cast<std::uint8_t>(below(256));
          break;
        case 2:
          input[at] = below(2) != 0 ? 0xff : 0x00;
          break;
        case 3:
          input.resize(at);
          break;
        case 4:
          std::memset(&input[at], below(2) != 0 ? 0xff : 0x7f, std::min<std::size_t>(8, input.size() - at));
          break;
        case 5:
          splice(input, at, input);
          break;
        default:
          splice(input, at, other);
          break;
      }
    }
    return input;
  }

 private:
  void splice(Input& input, std::size_t at, const Input& from) {
    if (from.empty()) return;
    const std::size_t begin = below(from.size());
    const std::size_t size = std::min<std::size_t>(1 + below(64), from.size() - begin);
    const Input piece(from.begin() + static_cast<std::ptrdiff_t>(begin),
                      from.begin() + static_cast<std::ptrdiff_t>(begin + size));
    if (below(2) != 0) {
      input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
    } else {
      std::memcpy(&input[at], piece.data(), std::min(size, input.size() - at));
    }
  }

  std::mt19937_64 random_;
};

/// The input about to be tried, so that a crash can be repeated: written before, removed at the end.
void keep(const std::string& path, const Input& input) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
}

}  // namespace
}  // namespace cuheap::fuzz

int main(int argc, char** argv) {
  using namespace cuheap::fuzz;
  const Settings settings = settings_of(argc, argv);
  const std::vector<Input> inputs = corpus(settings);
  // In memory where that is to be had: a file a try would make the disk the thing that is tested.
  const std::filesystem::path folder =
      std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
  const std::string last =
      (folder / (std::filesystem::path(argv[0]).filename().string() + "." + std::to_string(::getpid()))).string();
  std::fprintf(stderr, "the input being tried: %s\n", last.c_str());
  std::size_t tried = 0;
  for (const Input& input : inputs) {
    keep(last, input);
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++tried;
  }
  Mutator mutator(settings.seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(settings.seconds);
  while (std::chrono::steady_clock::now() < end) {
    const Input input = mutator.mutate(inputs[mutator.below(inputs.size())], inputs[mutator.below(inputs.size())]);
    keep(last, input);
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++tried;
  }
  std::filesystem::remove(last);
  std::printf("%zu inputs read, none did harm\n", tried);
}
