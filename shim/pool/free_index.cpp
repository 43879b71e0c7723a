#include "shim/pool/free_index.h"

namespace cuheap {
namespace {

// Ranges of the right size may all lie badly; after so many tries the next size up that fits anywhere is taken, so that a
// lookup stays bounded (style 4.2, H12).
constexpr int kMaxTries = 16;

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

bool fits(const FreeRange& range, std::uint64_t size, std::uint64_t alignment) {
  const std::uint64_t start = align_up(range.address, alignment);
  return start >= range.address && start < range.end() && range.end() - start >= size;
}

}  // namespace

bool FreeIndex::before(Order order, const FreeRange& a, const FreeRange& b) {
  if (order == kBySize && a.size != b.size) return a.size < b.size;
  return a.address < b.address;
}

// Both trees are treaps: a node's random priority keeps them balanced, and linking is one split, unlinking one join.
void FreeIndex::link(Order order, Node* node) {
  Node** at = &root_[order];
  while (*at != nullptr && (*at)->priority >= node->priority) at = &(*at)->child[order][before(order, (*at)->range, node->range)];
  Node* rest = *at;
  Node** left = &node->child[order][0];
  Node** right = &node->child[order][1];
  *at = node;
  while (rest != nullptr) {
    if (before(order, rest->range, node->range)) {
      *left = rest;
      left = &rest->child[order][1];
      rest = *left;
    } else {
      *right = rest;
      right = &rest->child[order][0];
      rest = *right;
    }
  }
  *left = nullptr;
  *right = nullptr;
}

void FreeIndex::unlink(Order order, Node* node) {
  Node** at = &root_[order];
  while (*at != node) at = &(*at)->child[order][before(order, (*at)->range, node->range)];
  Node* left = node->child[order][0];
  Node* right = node->child[order][1];
  while (left != nullptr && right != nullptr) {
    if (left->priority > right->priority) {
      *at = left;
      at = &left->child[order][1];
      left = *at;
    } else {
      *at = right;
      at = &right->child[order][0];
      right = *at;
    }
  }
  *at = left != nullptr ? left : right;
}

FreeIndex::Node* FreeIndex::floor(std::uint64_t address) const {
  Node* best = nullptr;
  for (Node* node = root_[kByAddress]; node != nullptr;) {
    const bool below = node->range.address <= address;
    if (below) best = node;
    node = node->child[kByAddress][below];
  }
  return best;
}

FreeIndex::Node* FreeIndex::after(Order order, FreeRange range, bool or_equal) const {
  Node* best = nullptr;
  for (Node* node = root_[order]; node != nullptr;) {
    const bool is_after = or_equal ? !before(order, node->range, range) : before(order, range, node->range);
    if (is_after) best = node;
    node = node->child[order][!is_after];
  }
  return best;
}

void FreeIndex::resize(Node* node, FreeRange range) {
  // The order by address is unchanged: a range only grows over or shrinks within space that is its own.
  unlink(kBySize, node);
  bytes_ += range.size - node->range.size;
  node->range = range;
  link(kBySize, node);
}

bool FreeIndex::add(FreeRange range) {
  Node* node = nodes_.make();
  if (node == nullptr) return false;
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  node->range = range;
  node->priority = random_;
  link(kByAddress, node);
  link(kBySize, node);
  bytes_ += range.size;
  ++count_;
  return true;
}

void FreeIndex::drop(Node* node) {
  unlink(kByAddress, node);
  unlink(kBySize, node);
  bytes_ -= node->range.size;
  --count_;
  nodes_.drop(node);
}

bool FreeIndex::insert(FreeRange range) {
  if (!range || range.end() < range.address) return false;
  Node* below = floor(range.address);
  Node* above = after(kByAddress, {range.address, 0}, true);
  if (below != nullptr && below->range.end() > range.address) return false;
  if (above != nullptr && above->range.address < range.end()) return false;

  const bool merges = merging_ == Merging::On;
  const bool joins_below = merges && below != nullptr && below->range.end() == range.address;
  const bool joins_above = merges && above != nullptr && above->range.address == range.end();
  if (!joins_below && !joins_above) return add(range);
  const std::uint64_t start = joins_below ? below->range.address : range.address;
  const std::uint64_t end = joins_above ? above->range.end() : range.end();
  if (joins_below && joins_above) drop(above);
  resize(joins_below ? below : above, {start, end - start});
  return true;
}

FreeRange FreeIndex::best_fit(std::uint64_t size, std::uint64_t alignment) const {
  if (size == 0) return {};
  Node* node = after(kBySize, {0, size}, true);
  for (int tries = 0; node != nullptr; ++tries) {
    if (fits(node->range, size, alignment)) return {align_up(node->range.address, alignment), size};
    const bool give_up = tries == kMaxTries;
    if (give_up && size + alignment < size) return {};
    node = give_up ? after(kBySize, {0, size + alignment}, true) : after(kBySize, node->range, false);
  }
  return {};
}

bool FreeIndex::remove(FreeRange range) {
  Node* node = floor(range.address);
  if (!range || node == nullptr || node->range.end() < range.end() || range.end() < range.address) return false;
  const FreeRange whole = node->range;
  const FreeRange head{whole.address, range.address - whole.address};
  const FreeRange tail{range.end(), whole.end() - range.end()};
  if (head && tail) {
    if (!nodes_.prepare(1)) return false;
    resize(node, head);
    return add(tail);
  }
  if (head || tail) {
    resize(node, head ? head : tail);
  } else {
    drop(node);
  }
  return true;
}

FreeRange FreeIndex::find(std::uint64_t address) const {
  const Node* node = floor(address);
  return node != nullptr && node->range.end() > address ? node->range : FreeRange{};
}

FreeRange FreeIndex::next_at(std::uint64_t address) const {
  const Node* node = after(kByAddress, {address, 0}, true);
  return node != nullptr ? node->range : FreeRange{};
}

FreeRange FreeIndex::next_by_size(std::uint64_t size, FreeRange previous) const {
  const Node* node = previous ? after(kBySize, previous, false) : after(kBySize, {0, size}, true);
  return node != nullptr ? node->range : FreeRange{};
}

FreeRange FreeIndex::largest() const {
  const Node* node = root_[kBySize];
  while (node != nullptr && node->child[kBySize][1] != nullptr) node = node->child[kBySize][1];
  return node != nullptr ? node->range : FreeRange{};
}

void FreeIndex::check(Order order, const Node* node, Check* result) const {
  if (node == nullptr) return;
  for (const Node* child : node->child[order]) {
    if (child != nullptr && child->priority > node->priority) result->good = false;
  }
  check(order, node->child[order][0], result);
  const FreeRange& last = result->last;
  if (!node->range || (last && !before(order, last, node->range))) result->good = false;
  if (order == kByAddress && last) {
    if (last.end() > node->range.address) result->good = false;
    if (merging_ == Merging::On && last.end() == node->range.address) result->good = false;
  }
  result->last = node->range;
  result->bytes += node->range.size;
  ++result->count;
  check(order, node->child[order][1], result);
}

bool FreeIndex::is_valid() const {
  for (unsigned i = 0; i < 2; ++i) {
    const Order order = i == 0 ? kByAddress : kBySize;
    Check result;
    check(order, root_[order], &result);
    if (!result.good || result.bytes != bytes_ || result.count != count_) return false;
  }
  return true;
}

}  // namespace cuheap
