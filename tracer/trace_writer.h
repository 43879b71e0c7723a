// TraceWriter: one record after the other into an open chunk, committed by a store. Between the hooks (recorder) and the
// file (chunks): knows records and chunks, no lock, no policy.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/format/codec.h"
#include "tracer/format/trace_format.h"

namespace cuheap {

/// A thread's open chunk and what its encoder remembers. Lives in thread-local or static storage; zero means none.
class TraceWriter {
 public:
  bool is_open() const { return header_ != nullptr; }
  /// True if the next event, or a definition of up to `bytes`, surely fits.
  bool has_room(std::size_t bytes = kMaxEventBytes) const { return is_open() && static_cast<std::size_t>(end_ - at_) >= bytes; }

  /// Takes over a chunk of state Stock.
  void open(ChunkHeader* chunk, std::uint32_t thread, std::uint64_t first_ns, std::uint32_t flags) {
    header_ = chunk;
    at_ = reinterpret_cast<std::uint8_t*>(chunk + 1);
    end_ = reinterpret_cast<std::uint8_t*>(chunk) + kChunkBytes;
    deltas_ = ChunkDeltas{};
    deltas_.time_ns = first_ns;
    chunk->thread = thread;
    chunk->sequence = sequence_++;
    chunk->flags = flags;
    chunk->first_ns = first_ns;
    chunk->last_ns = first_ns;
    std::atomic_ref<ChunkState>(chunk->state).store(ChunkState::Open, std::memory_order_release);
  }

  /// The chunk must not be touched afterwards: the helper may unmap it at once.
  void close() {
    if (header_ != nullptr) std::atomic_ref<ChunkState>(header_->state).store(ChunkState::Closed, std::memory_order_release);
    header_ = nullptr;
    at_ = end_ = nullptr;
  }

  /// Needs has_room().
  void append(const Event& event) {
    at_ = encode_event(deltas_, event, at_);
    header_->last_ns = deltas_.time_ns;
    header_->events = header_->events + 1;
    commit();
  }

  /// Needs has_room(kMaxDefinitionBytes); kMaxEventBytes for a SiteNode.
  template <typename Definition>
  void append_definition(const Definition& definition) {
    at_ = encode_definition(definition, at_);
    commit();
  }

  /// Forgets the chunk without touching it (fork child, another run).
  void forget() {
    header_ = nullptr;
    at_ = end_ = nullptr;
    sequence_ = 0;
  }

 private:
  // Last, with release order: whoever finds the length finds the bytes, also after a SIGKILL between any two instructions.
  void commit() {
    const auto bytes = static_cast<std::uint32_t>(at_ - reinterpret_cast<std::uint8_t*>(header_ + 1));
    std::atomic_ref<std::uint32_t>(header_->committed).store(bytes, std::memory_order_release);
  }

  ChunkHeader* header_ = nullptr;
  std::uint8_t* at_ = nullptr;
  std::uint8_t* end_ = nullptr;
  std::uint32_t sequence_ = 0;
  ChunkDeltas deltas_ = {};
};

}  // namespace cuheap
