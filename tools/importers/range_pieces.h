// RangePieces: pieces of an address space that are mapped, each as it was mapped, with removal of any part of them.
// Importers use it for expandable segments, which are unmapped in other pieces than they were mapped in.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace cuheap {

class RangePieces {
 public:
  using Piece = std::pair<std::uint64_t, std::uint64_t>;  // address, size
  struct Change {
    std::vector<Piece> removed;  // pieces that went, whole
    std::vector<Piece> kept;     // rests of them, which are pieces now
  };

  void add(std::uint64_t address, std::uint64_t size) {
    if (size != 0) pieces_[address] = size;
  }

  Change remove(std::uint64_t address, std::uint64_t size) {
    Change change;
    const std::uint64_t end = address + size;
    auto at = pieces_.upper_bound(address);
    if (at != pieces_.begin() && std::prev(at)->first + std::prev(at)->second > address) --at;
    while (at != pieces_.end() && at->first < end) {
      const Piece piece = *at;
      at = pieces_.erase(at);
      change.removed.push_back(piece);
      if (piece.first < address) change.kept.emplace_back(piece.first, address - piece.first);
      const std::uint64_t piece_end = piece.first + piece.second;
      if (piece_end > end) change.kept.emplace_back(end, piece_end - end);
    }
    for (const auto& [kept_address, kept_size] : change.kept) add(kept_address, kept_size);
    return change;
  }

  /// The same bytes as few ranges as possible: neighbours joined.
  std::vector<Piece> joined() const {
    std::vector<Piece> result;
    for (const auto& [address, size] : pieces_) {
      if (!result.empty() && result.back().first + result.back().second == address) {
        result.back().second += size;
      } else {
        result.emplace_back(address, size);
      }
    }
    return result;
  }

  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& [address, size] : pieces_) sum += size;
    return sum;
  }

  auto begin() const { return pieces_.begin(); }
  auto end() const { return pieces_.end(); }

 private:
  std::map<std::uint64_t, std::uint64_t> pieces_;
};

}  // namespace cuheap
