// fragmenter: a caching allocator of the usual kind (segments of 20 MiB from cudaMalloc, blocks carved from them) under a
// load that keeps one small long-lived buffer for every few large short-lived ones. When the large ones are gone, nearly
// every segment is idle and none can be given back: the small buffers pin them.
//
// An allocator inside a program is invisible from outside; this one tells what it hands out through cuheap's annotation
// header. The calls are weak symbols: without cuheap they cost one null test each.
//
//   fragmenter [ROUNDS]     default 400
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include "shim/annotate.h"

namespace {

constexpr std::size_t kMiB = 1024 * 1024;

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "fragmenter: %s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}

/// First fit over free ranges of 20 MiB segments; neighbours merge; an empty segment goes back to the driver.
class CachingAllocator {
 public:
  char* allocate(std::size_t bytes) {
    for (auto range = free_.begin(); range != free_.end(); ++range)
      if (range->second >= bytes) return carve(range, bytes);
    char* segment = nullptr;
    check(cudaMalloc(reinterpret_cast<void**>(&segment), kSegmentBytes), "cudaMalloc");
    ++segments_;
    return carve(free_.emplace(segment, kSegmentBytes).first, bytes);
  }

  void release(char* block, std::size_t bytes) {
    CUHEAP_BLOCK_FREE(block, 0);
    auto range = free_.emplace(block, bytes).first;
    const auto next = std::next(range);
    if (next != free_.end() && block + bytes == next->first) {
      range->second += next->second;
      free_.erase(next);
    }
    if (range == free_.begin()) return;
    const auto previous = std::prev(range);
    if (previous->first + previous->second == range->first) {
      previous->second += range->second;
      free_.erase(range);
    }
  }

  std::size_t held_bytes() const { return segments_ * kSegmentBytes; }

 private:
  static constexpr std::size_t kSegmentBytes = 20 * kMiB;

  char* carve(std::map<char*, std::size_t>::iterator range, std::size_t bytes) {
    char* const block = range->first;
    const std::size_t rest = range->second - bytes;
    free_.erase(range);
    if (rest != 0) free_.emplace(block + bytes, rest);
    CUHEAP_BLOCK_ALLOC(block, bytes, 0);
    return block;
  }

  std::map<char*, std::size_t> free_;
  std::size_t segments_ = 0;
};

struct Buffer {
  char* memory;
  std::size_t bytes;
};

class Trainer {
 public:
  void forward(int step) {
    for (int layer = 0; layer < 12; ++layer) {
      const std::size_t parts = 1 + static_cast<std::size_t>(step * 7 + layer * 3) % 5;
      activations_.push_back(take(parts * 700 * 1024));
    }
    if (step % 3 == 0) remember_metrics();
  }
  void backward() {
    for (const Buffer& buffer : activations_) pool_.release(buffer.memory, buffer.bytes);
    activations_.clear();
  }
  std::size_t kept_bytes() const { return metrics_.size() * kMetricsBytes; }
  std::size_t held_bytes() const { return pool_.held_bytes(); }

 private:
  static constexpr std::size_t kMetricsBytes = 96 * 1024;

  Buffer take(std::size_t bytes) { return {pool_.allocate(bytes), bytes}; }
  /// What pins: a small buffer that outlives everything around it.
  void remember_metrics() { metrics_.push_back(take(kMetricsBytes)); }

  CachingAllocator pool_;
  std::vector<Buffer> activations_;
  std::vector<Buffer> metrics_;
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 400;
  if (rounds <= 0) {
    std::fprintf(stderr, "usage: fragmenter [ROUNDS]\n");
    return 2;
  }
  Trainer trainer;
  for (int round = 0; round < rounds; ++round) {
    // Batches grow, so that each needs segments that the last one did not leave whole.
    for (int part = 0; part <= round * 8 / rounds; ++part) trainer.forward(round + part);
    if (round + 1 == rounds) break;  // the run ends in the middle of a step
    trainer.backward();
  }
  trainer.backward();  // what is left is the metrics, for whoever reads them at exit
  std::printf("%d rounds: %zu KiB kept, %zu MiB held\n", rounds, trainer.kept_bytes() / 1024, trainer.held_bytes() / kMiB);
  return 0;
}
