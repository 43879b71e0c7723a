// StackBounds: which memory an unwinder may read. Every variant of capture() checks every read against it, so that wrong
// unwind information or a rubbish register ends a stack and never the host.
#pragma once
#include <cstdint>

namespace cuheap {

/// Readable memory of a stack: [low, high).
struct StackBounds {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  bool is_foreign = false;  // not the thread's own: what lies above it is anybody's, so no read there may rest on a guess

  bool holds_word(std::uintptr_t address) const {
    return address >= low && address < high && high - address >= sizeof(address) && address % sizeof(address) == 0;
  }
};

namespace detail {
// The thread's own stack, as far down as it was seen readable.
extern constinit thread_local StackBounds own_stack __attribute__((tls_model("initial-exec")));
StackBounds find_stack_slowly(std::uintptr_t sp);
}  // namespace detail

/// The stack that `sp` lies in, from `sp` up: the running thread's own, or another one (fiber, sigaltstack). One comparison,
/// but for the first time at a greater depth; then a system call a page, no lock, no allocation.
inline StackBounds find_stack(std::uintptr_t sp) {
  const StackBounds& own = detail::own_stack;
  if (sp >= own.low && sp < own.high) [[likely]] return {sp, own.high, false};
  return detail::find_stack_slowly(sp);
}

/// True if all pages of [low, high) can be read now; false for an empty range. Cannot fault; a system call a page.
bool is_readable(std::uintptr_t low, std::uintptr_t high);

/// Once, outside every hook: learns where the main thread's stack ends.
void prepare_stack_bounds();

}  // namespace cuheap
