// Native stacks by the unwind information (CFI), x86-64. The loop and its cache are ours: libunwind, with
// setup/libunwind.patch, is asked only once for each code address what its frame looks like. Why not unw_backtrace: its
// cache outlives dlclose (redteam A3), costs 256 KiB a thread, and it reads whatever address the tables name.
//
// Every read is inside the stack of the running thread (StackBounds); an address outside ends the stack, never the host.
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <ucontext.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "tracer/backtrace.h"
#include "tracer/base/keep_errno.h"
#include "tracer/base/message.h"
#include "tracer/base/scratch.h"
#include "tracer/base/spin_lock.h"
#include "tracer/module_map.h"
#include "tracer/stack_bounds.h"

namespace cuheap {
namespace {

constexpr std::uintptr_t kLowestCode = 0x1000;

// What libunwind may read during a call of ours: the stack walked, and the frames of the call itself.
struct Readable {
  StackBounds walked;
  StackBounds current;
};
constinit thread_local const Readable* readable __attribute__((tls_model("initial-exec"))) = nullptr;

// --- What frames look like ------------------------------------------------------------------------------------------

enum class FrameRule : unsigned { Unknown = 0, Standard = 1, SignalReturn = 2, Last = 3 };

// How to get from a frame to its caller; one word, so that a reader never sees half of it. Offsets in words.
struct Rule {
  std::uint64_t kind : 2;
  std::uint64_t from_sp : 1;       // CFA = (sp or bp) + cfa_words
  std::int64_t cfa_words : 25;
  std::int64_t bp_words : 12;      // bp lies at CFA + this; 0: unchanged (there lies the CFA itself)
  std::uint64_t unloads : 24;      // the loader's count when this was learnt
};
static_assert(sizeof(Rule) == sizeof(std::uint64_t));
constexpr std::uint64_t kUnloadsMask = (1u << 24) - 1;

// One table for all threads, filled under a lock, read without: key, rule, key again. A rule of another unload count is
// not believed: another object may lie there.
class RuleTable {
 public:
  bool find(std::uintptr_t address, std::uint64_t unloads, Rule* rule) const {
    for (std::size_t i = 0; i < kProbes; ++i) {
      const Slot& slot = slots_[(home(address) + i) & kMask];
      const std::uint64_t key = slot.address.load(std::memory_order_acquire);
      if (key == 0) return false;
      if (key != address) continue;
      const std::uint64_t word = slot.rule.load(std::memory_order_acquire);
      if (slot.address.load(std::memory_order_relaxed) != address) return false;
      *rule = std::bit_cast<Rule>(word);
      return rule->kind != 0 && rule->unloads == (unloads & kUnloadsMask);
    }
    return false;
  }

  void remember(std::uintptr_t address, Rule rule) {
    if (!lock_.try_lock()) return;  // somebody else learns; next time
    Slot* chosen = nullptr;
    for (std::size_t i = 0; i < kProbes; ++i) {
      Slot& slot = slots_[(home(address) + i) & kMask];
      const std::uint64_t key = slot.address.load(std::memory_order_relaxed);
      if (key == address || key == 0) {
        chosen = &slot;
        break;
      }
      if (chosen == nullptr && std::bit_cast<Rule>(slot.rule.load(std::memory_order_relaxed)).unloads != rule.unloads) chosen = &slot;
    }
    if (chosen != nullptr) {
      chosen->rule.store(0, std::memory_order_release);
      chosen->address.store(address, std::memory_order_release);
      chosen->rule.store(std::bit_cast<std::uint64_t>(rule), std::memory_order_release);
    }
    lock_.unlock();
  }

 private:
  struct Slot {
    std::atomic<std::uint64_t> address{0};
    std::atomic<std::uint64_t> rule{0};
  };
  static constexpr std::size_t kSlots = 1 << 16;  // 1 MiB of address space; a large PyTorch process has some 10,000 call sites
  static constexpr std::size_t kMask = kSlots - 1;
  static constexpr std::size_t kProbes = 16;

  static std::size_t home(std::uintptr_t address) { return static_cast<std::size_t>((address * 0x9e3779b97f4a7c15u) >> 44); }

  Slot slots_[kSlots];
  SpinLock lock_;
};

constinit RuleTable rules;

// --- Asking libunwind -----------------------------------------------------------------------------------------------

constinit std::atomic<bool> gave_up{false};
constinit thread_local void** way_out __attribute__((tls_model("initial-exec"))) = nullptr;

/// As in setup/libunwind.patch.
struct UnwindFrame {
  unw_word_t ip, sp, bp;
  int type;
  int last;
  int cfa_from_sp;
  int cfa_offset;
  int bp_offset;
};
// unw_tdep_frame_type_t of libunwind's include/tdep-x86_64/libunwind_i.h.
constexpr int kTypeStandard = -2;
constexpr int kTypeSignalReturn = -1;

constexpr int kGaveUp = -1000;

}  // namespace
}  // namespace cuheap

extern "C" {

int cuheap_unwind_step(unw_cursor_t* cursor, cuheap::UnwindFrame* frame);

/// Every memory access of libunwind that is not to unwind tables asks here.
int cuheap_unwind_readable(unw_word_t address);
int cuheap_unwind_readable(unw_word_t address) {
  const cuheap::Readable* const allowed = cuheap::readable;
  return allowed != nullptr && (allowed->walked.holds_word(address) || allowed->current.holds_word(address)) ? 1 : 0;
}

/// Where libunwind would abort() the host. Every call of ours has left a way out.
[[noreturn]] void cuheap_unwind_abort(void);
void cuheap_unwind_abort(void) { __builtin_longjmp(cuheap::way_out, 1); }

}  // extern "C"

namespace cuheap {
namespace {

struct UnwindRoom {
  unw_context_t context;
  unw_cursor_t cursor;
};
constinit ScratchPool<UnwindRoom, 64> unwind_rooms = {};

// Leaves libunwind's locks as they are: none is held where it aborts on the paths used here (no cache, no debug_frame), and
// nothing enters it again afterwards.
template <typename Call>
[[gnu::noinline]] int call_libunwind(const StackBounds& walked, Call&& call) {
  const KeepErrno keep;
  void* way[5];
  const ScratchLease lease(unwind_rooms);
  UnwindRoom* const room = lease ? lease.operator->() : static_cast<UnwindRoom*>(__builtin_alloca(sizeof(UnwindRoom)));
  memset(&room->context, 0, sizeof(room->context));
  const auto here = reinterpret_cast<std::uintptr_t>(&room->context);
  const Readable allowed{walked, {here, here + sizeof(room->context), false}};
  readable = &allowed;
  way_out = way;
  int result = kGaveUp;
  if (__builtin_setjmp(way) == 0) {
    result = call(&room->context, &room->cursor);
  } else {
    gave_up.store(true, std::memory_order_relaxed);
    message::stacks_turned_off();
  }
  way_out = nullptr;
  readable = nullptr;
  return result;
}

int step_by_tables(UnwindFrame* frame, const StackBounds& walked) {
  return call_libunwind(walked, [frame](unw_context_t* context, unw_cursor_t* cursor) {
    const int error = unw_init_local(cursor, context);
    return error < 0 ? error : cuheap_unwind_step(cursor, frame);
  });
}

// --- The walk -------------------------------------------------------------------------------------------------------

/// A frame during the walk. `address` lies inside the call instruction.
struct Frame {
  std::uintptr_t address;
  std::uintptr_t sp;
  std::uintptr_t bp;
};

std::uintptr_t word_at(std::uintptr_t address) { return *reinterpret_cast<const std::uintptr_t*>(address); }

enum class Step { Done, Caller, Failed };

Step step_standard(const Rule& rule, const StackBounds& stack, Frame& frame) {
  const std::uintptr_t cfa = (rule.from_sp ? frame.sp : frame.bp) + static_cast<std::uintptr_t>(rule.cfa_words * 8);
  if (cfa <= frame.sp || !stack.holds_word(cfa - 8)) return Step::Done;  // callers lie above
  if (rule.bp_words != 0) {
    const std::uintptr_t saved = cfa + static_cast<std::uintptr_t>(rule.bp_words * 8);
    if (!stack.holds_word(saved)) return Step::Done;
    frame.bp = word_at(saved);
  }
  frame.address = word_at(cfa - 8) - 1;
  frame.sp = cfa;
  return Step::Caller;
}

// The kernel left a ucontext_t at sp; the interrupted frame may be on another stack.
Step step_signal(StackBounds& stack, Frame& frame) {
  constexpr std::uintptr_t kBp = 120, kSp = 160, kIp = 168;
  static_assert(offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP]) == kBp && offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]) == kSp &&
                offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]) == kIp);
  const std::uintptr_t context = frame.sp;
  if (!stack.holds_word(context) || !stack.holds_word(context + kIp)) return Step::Done;
  frame.address = word_at(context + kIp);
  frame.bp = word_at(context + kBp);
  frame.sp = word_at(context + kSp);
  if (!is_readable(frame.sp, frame.sp + 8)) return Step::Done;
  stack = find_stack(frame.sp);
  return Step::Caller;
}

// Code without unwind information (JIT, hand-written assembly): a guess by frame pointer, with every doubt an end. Such code
// may use the register for anything, so on a fiber's stack, whose upper end nobody knows, it is not followed at all.
Step step_by_frame_pointer(const StackBounds& stack, Frame& frame) {
  if (stack.is_foreign) return Step::Done;
  if (frame.bp < frame.sp || !stack.holds_word(frame.bp) || !stack.holds_word(frame.bp + 8)) return Step::Done;
  if (!is_readable(frame.bp, frame.bp + 16)) return Step::Done;
  const std::uintptr_t bp = word_at(frame.bp);
  frame.address = word_at(frame.bp + 8) - 1;
  frame.sp = frame.bp + 16;
  frame.bp = bp;
  return Step::Caller;
}

Rule rule_of(const UnwindFrame& frame, std::uint64_t unloads) {
  Rule rule{};
  rule.unloads = unloads & kUnloadsMask;
  if (frame.last) rule.kind = static_cast<std::uint64_t>(FrameRule::Last);
  else if (frame.type == kTypeSignalReturn) rule.kind = static_cast<std::uint64_t>(FrameRule::SignalReturn);
  else if (frame.type == kTypeStandard && frame.cfa_offset % 8 == 0 && std::abs(frame.cfa_offset) < (1 << 26) &&
           (frame.bp_offset == -1 || (frame.bp_offset != 0 && frame.bp_offset % 8 == 0 && std::abs(frame.bp_offset) < (1 << 13)))) {
    rule.kind = static_cast<std::uint64_t>(FrameRule::Standard);
    rule.from_sp = frame.cfa_from_sp != 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"  // the ranges are checked above
    rule.cfa_words = frame.cfa_offset / 8;
    rule.bp_words = frame.bp_offset == -1 ? 0 : frame.bp_offset / 8;
#pragma GCC diagnostic pop
  }
  return rule;
}

// A code address not seen before.
[[gnu::noinline]] Step step_unknown(const Backtrace& trace, StackBounds& stack, Frame& frame, bool* has_tables) {
  UnwindFrame unwound{frame.address, frame.sp, frame.bp, 0, 0, 0, 0, 0};
  const int error = step_by_tables(&unwound, stack);
  if (error == -UNW_ENOINFO) {
    *has_tables = false;
    return step_by_frame_pointer(stack, frame);
  }
  if (error < 0) return Step::Failed;
  const Rule rule = rule_of(unwound, trace.unloads);
  if (rule.kind != 0) rules.remember(frame.address, rule);
  if (unwound.last) return Step::Done;
  if (rule.kind == static_cast<std::uint64_t>(FrameRule::SignalReturn)) return step_signal(stack, frame);
  if (unwound.sp <= frame.sp) return Step::Done;
  frame = {unwound.ip - 1, unwound.sp, unwound.bp};
  return Step::Caller;
}

Step step(const Backtrace& trace, StackBounds& stack, Frame& frame, bool* has_tables) {
  Rule rule;
  if (!rules.find(frame.address, trace.unloads, &rule)) [[unlikely]] return step_unknown(trace, stack, frame, has_tables);
  switch (static_cast<FrameRule>(rule.kind)) {
    case FrameRule::Standard: return step_standard(rule, stack, frame);
    case FrameRule::SignalReturn: return step_signal(stack, frame);
    default: return Step::Done;
  }
}

// Frames whose rules need more than sp and bp: from the beginning with all registers. Its own frame, that of the lambda's
// caller and that of capture() come first and are left out.
[[gnu::noinline]] unsigned capture_slowly(std::uintptr_t* frames, unsigned max, const StackBounds& stack) {
  const auto self = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) - 1;  // inside capture()
  unsigned depth = 0;
  const int result = call_libunwind(stack, [&](unw_context_t* context, unw_cursor_t* cursor) {
    unw_getcontext(context);
    if (unw_init_local(cursor, context) < 0) return 0;
    bool past_self = false;
    for (unsigned steps = 0; steps < kMaxFrames + 8 && depth < max; ++steps) {
      const bool interrupted = unw_is_signal_frame(cursor) > 0;
      unw_word_t ip = 0;
      if (unw_step(cursor) <= 0 || unw_get_reg(cursor, UNW_REG_IP, &ip) < 0 || ip < kLowestCode) break;
      const std::uintptr_t address = interrupted ? ip : ip - 1;
      if (past_self) frames[depth++] = address;
      past_self = past_self || address == self;
    }
    return 0;
  });
  return result == kGaveUp ? 0 : depth;
}

}  // namespace

void prepare_backtraces() {
  const KeepErrno keep;
  prepare_stack_bounds();
  // Libunwind's own caches would be locks of the whole process; our table makes them superfluous.
  unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_NONE);
  std::uintptr_t frames[8];
  capture(frames, 8);
}

bool backtraces_work() { return !gave_up.load(std::memory_order_relaxed); }

[[gnu::noinline]] Backtrace capture(std::uintptr_t* frames, unsigned max) {
  Backtrace trace;
  if (!backtraces_work()) return trace;
  trace.unloads = unloads_seen();
  if (max > kMaxFrames) max = kMaxFrames;

  Frame frame;
  asm volatile("leaq 0f(%%rip), %0\n0:\n\tmovq %%rsp, %1\n\tmovq %%rbp, %2" : "=r"(frame.address), "=r"(frame.sp), "=r"(frame.bp));
  StackBounds stack = find_stack(frame.sp);
  const StackBounds current = stack;
  while (trace.depth < max) {
    bool has_tables = true;
    const Step result = step(trace, stack, frame, &has_tables);
    if (result == Step::Failed) {
      trace.depth = capture_slowly(frames, max, current);
      break;
    }
    trace.knows_all_code = trace.knows_all_code && has_tables;
    if (result == Step::Done || frame.address < kLowestCode) break;
    frames[trace.depth++] = frame.address;
  }
  asm volatile("");  // no tail call: capture_slowly looks for this frame
  return trace;
}

}  // namespace cuheap
