// PytorchSnapshot: what torch.cuda.memory._dump_snapshot wrote: segments and blocks at the end, and the allocator's
// history before. Read from a Pickle, written as an ordinary trace; the snapshot's own segments judge the result.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/model/trace.h"

namespace cuheap {

struct PytorchSnapshot {
  struct Frame {
    std::string function, file;
    std::uint32_t line = 0;
  };
  using StackId = std::uint32_t;  // index into stacks; 0: none recorded

  enum class BlockState : std::uint8_t { Allocated, PendingFree, Inactive };
  struct Block {
    std::uint64_t address = 0, size = 0, requested = 0;
    BlockState state = BlockState::Inactive;
    StackId stack = 0;
  };
  struct Segment {
    std::int16_t device = 0;
    bool expandable = false;
    std::uint64_t address = 0, size = 0, stream = 0;
    StackId stack = 0;
    std::vector<Block> blocks;
  };
  enum class Action : std::uint8_t {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    OutOfMemory,
    Other,
  };
  struct Entry {
    Action action = Action::Other;
    std::int16_t device = 0;
    std::uint64_t address = 0;  // OutOfMemory: free bytes of the device
    std::uint64_t size = 0, stream = 0, time_us = 0;
    StackId stack = 0;
  };
  struct Annotation {
    bool begins = false;
    std::uint64_t time_us = 0;
    std::string name;
  };

  std::string file;
  std::vector<Frame> frames;
  std::vector<std::vector<std::uint32_t>> stacks;  // of indexes into frames, innermost first
  std::vector<Segment> segments;
  std::vector<Entry> entries;           // of all devices, by time
  std::vector<Annotation> annotations;  // by time
  std::string settings;                 // PYTORCH_CUDA_ALLOC_CONF as it was
  std::uint64_t unknown_actions = 0;
};

/// Reads a snapshot file. Unknown keys and actions are passed over; what is no snapshot, or no pickle, is an Error with
/// the place. Nothing in the file is executed.
PytorchSnapshot read_pytorch_snapshot(const std::string& path);

/// What of a snapshot had no place in the trace.
struct ImportReport {
  std::uint64_t initial_blocks = 0;  // alive before the history begins
  std::uint64_t initial_segments = 0;
  std::uint64_t unmatched_frees = 0;  // of blocks that nothing had allocated
  std::uint64_t unknown_actions = 0;
};

/// Writes the snapshot as the trace file `path`.
ImportReport write_as_trace(const PytorchSnapshot& snapshot, const std::string& path);

/// The oracle that needs no expected file: replaying the trace's events must end exactly in the snapshot's segments.
struct ImportCheck {
  std::uint64_t blocks = 0, block_bytes = 0;  // of the snapshot
  std::uint64_t segments = 0, segment_bytes = 0;
  std::vector<std::string> differences;  // first few, in words
  bool passed() const { return differences.empty(); }
};
ImportCheck check_import(const PytorchSnapshot& snapshot, const Trace& trace);

}  // namespace cuheap
