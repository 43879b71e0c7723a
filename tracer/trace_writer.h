// TraceWriter: one record after the other into an open chunk, committed by a store. Between the hooks (recorder) and the
// file (chunks): knows records and chunks, no lock, no policy.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/format/codec.h"
#include "tracer/format/trace_format.h"

namespace cuheap {

/// An open chunk and what its encoder remembers; zero means none. One thread writes at a time; who else may go on with it,
/// and when, is the WriterTable's business.
class TraceWriter {
 public:
  bool is_open() const { return header_ != nullptr; }
  /// True if the next event, or a definition of up to `bytes`, surely fits.
  bool has_room(std::size_t bytes = kMaxEventBytes) const { return is_open() && static_cast<std::size_t>(end_ - at_) >= bytes; }

  /// Takes over a chunk of state Stock.
  void open(ChunkHeader* chunk, std::uint32_t thread, std::uint64_t first_ns, std::uint32_t flags) {
    begin();
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
    end();
  }

  /// Goes on for another thread, whose first event has this time, once the one before can never write again. Where that is
  /// not possible the chunk is closed: the dead thread was stopped in the middle of a record and its deltas are in doubt, or
  /// the chunk is full, or time would run back in it.
  void pass_to(std::uint32_t thread, std::uint64_t first_ns) {
    const bool is_whole = !std::atomic_ref<bool>(is_writing_).load(std::memory_order_acquire);
    sequence_ = 0;
    if (!is_whole || deltas_.time_ns > first_ns || !has_room(2 * kMaxEventBytes)) return close();
    begin();
    at_ = encode_thread(thread, at_);
    commit();
    end();
  }

  /// The chunk must not be touched afterwards: the helper may unmap it at once.
  void close() {
    begin();
    ChunkHeader* const chunk = header_;
    header_ = nullptr;  // first: whoever finds this writer stopped here must not touch the chunk either
    at_ = end_ = nullptr;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (chunk != nullptr) std::atomic_ref<ChunkState>(chunk->state).store(ChunkState::Closed, std::memory_order_release);
    end();
  }

  /// Needs has_room().
  void append(const Event& event) {
    begin();
    at_ = encode_event(deltas_, event, at_);
    header_->last_ns = deltas_.time_ns;
    header_->events = header_->events + 1;
    commit();
    end();
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
    end();
  }

  // Around every change. A thread may end between any two instructions (exit from a signal handler, asynchronous
  // cancellation), and what it leaves is whole only outside of these two. The fences keep the compiler from moving work out.
  void begin() {
    std::atomic_ref<bool>(is_writing_).store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  void end() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::atomic_ref<bool>(is_writing_).store(false, std::memory_order_release);
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
  bool is_writing_ = false;
  ChunkDeltas deltas_ = {};
};

}  // namespace cuheap
