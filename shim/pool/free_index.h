// FreeIndex: free address ranges by size and by address. Best fit, split, merge; it knows no CUDA and no granules. The
// pool keeps two per lifetime class: ranges with memory behind them, and ranges without.
//
// Invariant: ranges are disjoint, and (where merging is on) no two of them touch; bytes() is the sum of their sizes.
// Not synchronised: the pool's lock is held by its caller.
#pragma once
#include <cstddef>
#include <cstdint>

#include "shim/pool/node_store.h"

namespace cuheap {

struct FreeRange {
  std::uint64_t address = 0;
  std::uint64_t size = 0;  // 0: no range

  std::uint64_t end() const { return address + size; }
  explicit operator bool() const { return size != 0; }
  bool operator==(const FreeRange&) const = default;
};

class FreeIndex {
 public:
  /// Ranges of whole handles stay apart: what lies in two handles cannot be moved as one.
  enum class Merging : std::uint8_t { On, Off };
  constexpr explicit FreeIndex(Merging merging = Merging::On) : merging_(merging) {}

  /// Adds a range, joined with neighbours that touch it. False if there is no memory for a node, or if it overlaps.
  [[nodiscard]] bool insert(FreeRange range);

  /// The start of the smallest range that holds `size` bytes at a multiple of `alignment` (a power of two); the lowest
  /// address among equals. At most a fixed number of ranges is tried before one that surely fits is taken.
  FreeRange best_fit(std::uint64_t size, std::uint64_t alignment) const;

  /// Cuts a range out; it must lie within one free range. False if it does not, or if no node is left for a split.
  [[nodiscard]] bool remove(FreeRange range);

  /// The free range that contains `address`, or none.
  FreeRange find(std::uint64_t address) const;
  /// The first free range at or above `address`; walking with `range.end()` visits all by address.
  FreeRange next_at(std::uint64_t address) const;
  /// The smallest free range of at least `size` bytes that comes after `previous` in order of size; {} starts.
  FreeRange next_by_size(std::uint64_t size, FreeRange previous) const;

  /// Makes sure that the next `count` inserts and removes find their nodes.
  [[nodiscard]] bool prepare(std::size_t count) { return nodes_.prepare(count); }

  FreeRange largest() const;
  std::uint64_t bytes() const { return bytes_; }
  std::size_t count() const { return count_; }
  bool is_valid() const;

 private:
  enum Order : unsigned { kByAddress = 0, kBySize = 1 };
  struct Node {
    FreeRange range;
    std::uint32_t priority = 0;  // heap order of both trees
    Node* child[2][2] = {};      // [order][left, right]
  };

  static bool before(Order order, const FreeRange& a, const FreeRange& b);
  void link(Order order, Node* node);
  void unlink(Order order, Node* node);
  Node* floor(std::uint64_t address) const;  // last node that starts at or below
  Node* after(Order order, FreeRange range, bool or_equal) const;
  void resize(Node* node, FreeRange range);
  [[nodiscard]] bool add(FreeRange range);
  void drop(Node* node);

  struct Check {
    std::uint64_t bytes = 0;
    std::size_t count = 0;
    FreeRange last{};
    bool good = true;
  };
  void check(Order order, const Node* node, Check* result) const;

  NodeStore<Node> nodes_;
  Node* root_[2] = {};
  std::uint64_t bytes_ = 0;
  std::size_t count_ = 0;
  std::uint32_t random_ = 0x9e3779b9u;
  Merging merging_;
};

}  // namespace cuheap
