// SiteTable: stacks -> SiteId. A tree of frames, outermost at the root, so that stacks share what they have in common; each
// new node is a definition in the trace. Seen stacks are found by one lock-free look-up of their hash; only new ones walk the
// tree, under the caller's lock.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/backtrace.h"
#include "tracer/base/arena.h"
#include "tracer/format/codec.h"
#include "tracer/module_map.h"

namespace cuheap {

/// What is known of an interned stack.
struct KnownSite {
  SiteId id = 0;
  std::uint32_t bits = 0;
};

/// 64 bits over all frames: two different stacks of a process with a million stacks share one with probability 3e-8.
/// `epoch` tells apart stacks of the same addresses in which other code lay.
std::uint64_t hash_stack(const std::uintptr_t* frames, unsigned depth, std::uint64_t epoch);

class SiteTable {
 public:
  /// Any thread, no lock. False: not seen, or seen and forgotten.
  bool find(std::uint64_t hash, KnownSite* site) const;

  /// Under the caller's lock, with a module map that is up to date. define(const SiteNode&) writes one node and says
  /// whether it could; a node is used only if it did. Id 0: no room, the caller counts the loss.
  template <typename Define>
  KnownSite intern(std::uint64_t hash, const std::uintptr_t* frames, unsigned depth, const ModuleMap& modules, Define&& define) {
    unsigned innermost = 0;
    while (innermost + 1 < depth && is_ours(modules, frames[innermost])) ++innermost;
    KnownSite site;
    for (unsigned i = depth; i-- > innermost;) {
      const Module* const module = modules.find(frames[i]);
      const Key key{site.id, module != nullptr ? module->id : 0, module != nullptr ? frames[i] - module->base : frames[i]};
      const std::uint32_t bits = site.bits | (module != nullptr ? module->bits : 0);
      Node* node = find_child(key);
      if (node == nullptr) {
        if (!can_add()) return {};
        if (!define(SiteNode{next_id_, key.parent, FrameKind::Native, key.module, key.offset})) return {};
        node = add(key, bits);
      }
      site = {node->id, node->bits};
    }
    if (site.id != 0) publish(hash, site);
    return site;
  }

  SiteId size() const { return next_id_ - 1; }
  /// Empties it and gets its pages: before the first use, when no other thread uses it. False: no memory.
  [[nodiscard]] bool reset();

 private:
  struct Key {
    SiteId parent;
    std::uint32_t module;
    std::uint64_t offset;
    bool operator==(const Key&) const = default;
  };
  struct Node {
    Key key;
    SiteId id;
    std::uint32_t bits;
    Node* next;  // of the same bucket
  };
  struct Slot {
    std::atomic<std::uint64_t> hash{0};
    std::atomic<std::uint64_t> site{0};  // bits << 32 | id
  };
  static constexpr std::size_t kBuckets = 1 << 18;
  static constexpr std::size_t kSlots = 1 << 17;  // 2 MiB of address space, touched as needed
  static constexpr std::size_t kProbes = 32;
  static constexpr SiteId kMaxNodes = 8'000'000;  // 320 MB: beyond it stacks are lost, and counted

  static bool is_ours(const ModuleMap& modules, std::uintptr_t address) {
    const Module* const module = modules.find(address);
    return module != nullptr && module->is_ours;
  }
  static std::size_t bucket_of(const Key& key);
  Node* find_child(const Key& key) const;
  bool can_add();
  Node* add(const Key& key, std::uint32_t bits);
  void publish(std::uint64_t hash, KnownSite site);

  Arena arena_;
  Node** buckets_ = nullptr;
  Node* spare_ = nullptr;
  SiteId next_id_ = 1;
  Slot* slots_ = nullptr;  // kSlots
};

}  // namespace cuheap
