// capture(): the caller's native stack. The contract; the variant is a file chosen by the build (backtrace_libunwind.cpp).
// Takes no lock of ours, allocates nothing, calls no loader function for code seen before, and else only
// dl_iterate_phdr.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cuheap {

constexpr unsigned kMaxFrames = 128;  // innermost ones; deeper stacks lose their outer end

struct Backtrace {
  unsigned depth = 0;
  unsigned reused = 0;            // outer frames that did not have to be unwound again
  std::uint64_t unloads = 0;      // known of at this capture: an address means something only within it
  bool knows_all_code = true;     // false: a frame lies in code without unwind information (JIT), guessed by frame pointer
};

/// Fills `frames`, innermost first: the address inside each caller's call instruction (return address minus 1; the
/// interrupted address itself behind a signal frame). The first frame is the one that called capture().
Backtrace capture(std::uintptr_t* frames, unsigned max);

/// Once, outside every hook, before the first capture: may call the loader and allocate.
void prepare_backtraces();
/// False once the unwinder has given up (cuheap_unwind_abort).
bool backtraces_work();

}  // namespace cuheap
