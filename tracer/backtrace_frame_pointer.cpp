// Native stacks by frame pointers, for machines where backtrace_libunwind.cpp has no walk of its own (aarch64, whose ABI asks
// for them). A stack ends at the first frame without one.
#include "tracer/backtrace.h"
#include "tracer/module_map.h"
#include "tracer/stack_bounds.h"

namespace cuheap {
namespace {

constexpr std::uintptr_t kLowestCode = 0x1000;

std::uintptr_t word_at(std::uintptr_t address) { return *reinterpret_cast<const std::uintptr_t*>(address); }

// Signed return addresses carry a code in their upper bits.
std::uintptr_t code_address(std::uintptr_t return_address) {
#if defined(__aarch64__)
  return return_address & ((std::uintptr_t{1} << 48) - 1);
#else
  return return_address;
#endif
}

}  // namespace

void prepare_backtraces() { prepare_stack_bounds(); }

bool backtraces_work() { return true; }

[[gnu::noinline]] Backtrace capture(std::uintptr_t* frames, unsigned max) {
  Backtrace trace;
  trace.unloads = unloads_seen();
  trace.knows_all_code = false;  // a chain of pointers says nothing of the code it passes
  if (max > kMaxFrames) max = kMaxFrames;

  // A frame is two words: the caller's frame pointer, the return address.
  auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const StackBounds stack = find_stack(frame);
  while (trace.depth < max && stack.holds_word(frame) && stack.holds_word(frame + sizeof(frame))) {
    const std::uintptr_t address = code_address(word_at(frame + sizeof(frame))) - 1;
    if (address < kLowestCode) break;
    frames[trace.depth++] = address;
    const std::uintptr_t caller = word_at(frame);
    if (caller <= frame) break;  // callers lie above
    frame = caller;
  }
  return trace;
}

}  // namespace cuheap
