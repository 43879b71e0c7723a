#include "shim/pool/graph_book.h"

#include <sched.h>

namespace cuheap {

void CaptureGate::begun() {
  std::uint64_t word = word_.load();
  std::uint64_t next = 0;
  do {
    next = is_open(word) ? word + 1 : ((word >> 32) + 1) << 32 | 1;
  } while (!word_.compare_exchange_weak(word, next, std::memory_order_seq_cst));
  // A recording is one non-blocking call; if its thread is starved we go on all the same: the host never hangs.
  for (int i = 0; i < 10'000 && inside_.load(std::memory_order_seq_cst) > 0; ++i) sched_yield();
}

void CaptureGate::ended() {
  // An end without a beginning (begun before we were armed) must not make the count negative.
  for (std::uint64_t word = word_.load(); is_open(word) && !word_.compare_exchange_weak(word, word - 1);) {
  }
}

bool CaptureGate::enter() {
  inside_.fetch_add(1, std::memory_order_seq_cst);
  if (!open()) return true;
  leave();
  return false;
}

void Periods::add(const Periods& others) {
  for (unsigned i = 0; i < others.count_; ++i) add(others.items_[i]);
}

void Periods::add(Range range) {
  if (range.last == 0) return;
  unsigned at = 0;
  while (at < count_ && items_[at].last + 1 < range.first) ++at;
  // Whatever it overlaps or touches becomes one with it; without a place it also takes the nearest one.
  unsigned end = at;
  const auto swallow = [&](const Range& other) {
    if (other.first < range.first) range.first = other.first;
    if (other.last > range.last) range.last = other.last;
  };
  while (end < count_ && items_[end].first <= range.last + 1) swallow(items_[end++]);
  if (end == at && count_ == kMax) {
    if (end < count_) swallow(items_[end++]);
    else swallow(items_[--at]);
  }
  Range rest[kMax];
  unsigned more = 0;
  for (unsigned i = end; i < count_; ++i) rest[more++] = items_[i];
  items_[at] = range;
  count_ = at + 1;
  for (unsigned i = 0; i < more; ++i) items_[count_++] = rest[i];
}

bool Periods::has(std::uint32_t period) const {
  for (unsigned i = 0; i < count_; ++i) {
    if (items_[i].first <= period && period <= items_[i].last) return true;
  }
  return false;
}

GraphBook::Entry** GraphBook::find(std::uint64_t graph) {
  Entry** at = &first_;
  while (*at != nullptr && (*at)->graph != graph) at = &(*at)->next;
  return at;
}

void GraphBook::add(std::uint64_t graph, const Periods& periods) {
  if (periods.is_empty()) return;
  const PoolGuard guard(lock_);
  if (Entry* known = *find(graph); known != nullptr) return known->periods.add(periods);
  Entry* entry = nodes_.make();
  if (entry == nullptr) return nameless_.add(periods);
  *entry = {graph, periods, first_};
  first_ = entry;
}

Periods GraphBook::periods_of(std::uint64_t graph) {
  const PoolGuard guard(lock_);
  const Entry* entry = *find(graph);
  return entry != nullptr ? entry->periods : Periods{};
}

void GraphBook::inherit(std::uint64_t graph, std::uint64_t original) { add(graph, periods_of(original)); }

void GraphBook::replace(std::uint64_t graph, std::uint64_t original) {
  inherit(graph, original);
  const PoolGuard guard(lock_);
  Entry* entry = *find(graph);
  const Entry* from = *find(original);
  if (entry != nullptr) entry->periods = from != nullptr ? from->periods : Periods{};
}

void GraphBook::inherit_somewhere(std::uint64_t original) {
  const Periods periods = periods_of(original);
  const PoolGuard guard(lock_);
  nameless_.add(periods);
}

void GraphBook::remove(std::uint64_t graph) {
  const PoolGuard guard(lock_);
  Entry** at = find(graph);
  if (*at == nullptr) return;
  Entry* entry = *at;
  *at = entry->next;
  nodes_.drop(entry);
}

Periods GraphBook::known() {
  const PoolGuard guard(lock_);
  Periods all = nameless_;
  for (const Entry* entry = first_; entry != nullptr; entry = entry->next) all.add(entry->periods);
  return all;
}

std::uint64_t GraphBook::set_aside(std::uint64_t graph) {
  const PoolGuard guard(lock_);
  Entry* entry = *find(graph);
  return entry != nullptr ? entry->graph = next_name_-- : 0;
}

void GraphBook::put_back(std::uint64_t name, std::uint64_t graph) {
  const PoolGuard guard(lock_);
  if (Entry* entry = *find(name); entry != nullptr) entry->graph = graph;
}

}  // namespace cuheap
