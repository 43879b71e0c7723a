// CaptureGate and GraphBook: when captures are open, and which graphs know memory that was handed out under them. The hooks
// tell; the pool keeps such memory where it is until nobody knows it any more.
#pragma once
#include <atomic>
#include <cstdint>

#include "shim/pool/node_store.h"
#include "shim/pool/pool_lock.h"

namespace cuheap {

/// Counts open captures, and keeps fences and captures apart: a fence being recorded holds up a capture that is about to
/// begin for the length of one non-blocking driver call, never the other way round.
class CaptureGate {
 public:
  void begun();  // before the driver begins it
  void ended();  // after the driver ended it, or refused to begin
  bool open() const { return is_open(word_.load(std::memory_order_seq_cst)); }
  /// Numbers the times without a break in which some capture is open: a capture lies in one of them, and so does memory that
  /// is handed out under it. The last one if none is open; 0: there was none.
  std::uint32_t period() const { return static_cast<std::uint32_t>(word_.load(std::memory_order_seq_cst) >> 32); }
  /// False while a capture is open. After true, leave().
  [[nodiscard]] bool enter();
  void leave() { inside_.fetch_sub(1, std::memory_order_seq_cst); }

 private:
  static bool is_open(std::uint64_t word) { return static_cast<std::uint32_t>(word) != 0; }
  std::atomic<std::uint64_t> word_{0};  // the period, and how many captures are open in it
  std::atomic<int> inside_{0};
};

/// Capture periods, as a few ranges. What finds no place widens the range beside it: too much is kept, never too little.
class Periods {
 public:
  constexpr Periods() = default;
  explicit Periods(std::uint32_t period) { add({period, period}); }
  void add(const Periods& others);
  bool has(std::uint32_t period) const;
  bool is_empty() const { return count_ == 0; }

 private:
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };
  static constexpr unsigned kMax = 8;
  void add(Range range);
  Range items_[kMax] = {};  // by rising number, none beside another
  unsigned count_ = 0;
};

/// The graphs that may know an address of memory handed out under capture, with their clones, parents and executables; and
/// the periods of the captures that each of them saw.
class GraphBook {
 public:
  void add(std::uint64_t graph, const Periods& periods);
  /// `graph` knows from now on what `original` knows, too; or, replaced, nothing else.
  void inherit(std::uint64_t graph, std::uint64_t original);
  void replace(std::uint64_t graph, std::uint64_t original);
  /// Some graph, nobody knows which, has got what `original` knows.
  void inherit_somewhere(std::uint64_t original);
  void remove(std::uint64_t graph);
  /// Gives the entry another name while its destruction is under way, since the handle may come back before that is known.
  /// 0: there is none.
  [[nodiscard]] std::uint64_t set_aside(std::uint64_t graph);
  void put_back(std::uint64_t name, std::uint64_t graph);
  /// What any of them knows.
  Periods known();
  bool knows(std::uint32_t period) { return known().has(period); }

 private:
  struct Entry {
    std::uint64_t graph = 0;
    Periods periods;
    Entry* next = nullptr;
  };
  Entry** find(std::uint64_t graph);
  Periods periods_of(std::uint64_t graph);
  PoolLock lock_;
  std::uint64_t next_name_ = ~std::uint64_t{0};  // downwards: no handle is there
  NodeStore<Entry> nodes_;
  Entry* first_ = nullptr;
  Periods nameless_;  // of graphs that could not be entered: for ever
};

}  // namespace cuheap
