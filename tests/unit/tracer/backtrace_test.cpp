#include "tracer/backtrace.h"
#include "tracer/module_map.h"

#include <alloca.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>

#include <random>
#include <thread>
#include <vector>

namespace cuheap {
namespace {

using Frames = std::vector<std::uintptr_t>;

#define NOINLINE [[gnu::noinline, gnu::noclone]]

// The independent opinion: the compiler's own unwinder.
NOINLINE Frames stack_by_gcc() {
  Frames frames;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* out) {
        int before_instruction = 0;
        const std::uintptr_t ip = _Unwind_GetIPInfo(context, &before_instruction);
        if (ip != 0) static_cast<Frames*>(out)->push_back(before_instruction ? ip : ip - 1);
        return _URC_NO_REASON;
      },
      &frames);
  return frames;
}

struct Pair {
  Frames ours, theirs;
  Backtrace trace;
};

// Both stacks from one place; the frames below the caller of take() are left out, since they differ by call site.
NOINLINE void take(Pair& pair) {
  std::uintptr_t frames[kMaxFrames];
  pair.trace = capture(frames, kMaxFrames);
  pair.ours.assign(frames + 1, frames + std::max(pair.trace.depth, 1u));
  pair.theirs = stack_by_gcc();
  pair.theirs.erase(pair.theirs.begin(),
                    pair.theirs.begin() + std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(pair.theirs.size())));
  if (pair.theirs.size() > kMaxFrames - 1) pair.theirs.resize(kMaxFrames - 1);
  asm volatile("");
}

class BacktraceTest : public ::testing::Test {
 protected:
  BacktraceTest() { prepare_backtraces(); }
};

NOINLINE int descend(int depth, Pair& pair) {
  if (depth == 0) {
    take(pair);
    return 0;
  }
  const int result = descend(depth - 1, pair) + 1;
  asm volatile("" ::: "memory");
  return result;
}

TEST_F(BacktraceTest, AgreesWithTheCompilersUnwinder) {
  for (int depth = 0; depth < 60; ++depth) {
    Pair pair;
    descend(depth, pair);
    ASSERT_EQ(pair.ours, pair.theirs) << "depth " << depth;
    ASSERT_TRUE(pair.trace.knows_all_code);
  }
}

TEST_F(BacktraceTest, KeepsTheInnermostFramesOfDeepStacks) {
  Pair pair;
  descend(1000, pair);
  EXPECT_EQ(pair.trace.depth, kMaxFrames);
  EXPECT_EQ(pair.ours, pair.theirs);
}

// A call graph that changes all the time, with frames of random sizes and stale words in them.
NOINLINE int wander(std::mt19937& random, int depth, int* checked);
NOINLINE int wander_with_alloca(std::mt19937& random, int depth, int* checked) {
  auto* const block = static_cast<volatile char*>(alloca(16 + random() % 4000));
  block[3] = static_cast<char>(depth);
  return wander(random, depth, checked) + block[3];
}
NOINLINE int wander_aligned(std::mt19937& random, int depth, int* checked) {
  alignas(64) volatile char block[192];
  block[5] = static_cast<char>(depth);
  return wander(random, depth, checked) + block[5];
}
NOINLINE int wander_with_locals(std::mt19937& random, int depth, int* checked) {
  volatile std::uintptr_t stale[37];  // never written: holds return addresses of earlier calls
  const int result = wander(random, depth, checked);
  asm volatile("" ::"r"(&stale) : "memory");
  return result + 1;
}
NOINLINE int wander(std::mt19937& random, int depth, int* checked) {
  if (depth == 0 || random() % 8 == 0) {
    Pair pair;
    take(pair);
    if (pair.ours == pair.theirs) ++*checked;
    return 1;
  }
  int sum = 0;
  for (unsigned i = 0; i < 1 + random() % 2; ++i) {
    switch (random() % 3) {
      case 0: sum += wander_with_alloca(random, depth - 1, checked); break;
      case 1: sum += wander_aligned(random, depth - 1, checked); break;
      default: sum += wander_with_locals(random, depth - 1, checked); break;
    }
  }
  return sum;
}

int captures_of(int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  int checked = 0;
  for (int i = 0; i < 300; ++i) wander(random, 12, &checked);
  return checked;
}

NOINLINE int count_captures(std::mt19937& random, int depth) {  // the same walk without captures
  if (depth == 0 || random() % 8 == 0) return 1;
  int sum = 0;
  for (unsigned i = 0; i < 1 + random() % 2; ++i) {
    const auto kind = random() % 3;
    if (kind == 0) random();
    sum += count_captures(random, depth - 1);
  }
  return sum;
}

TEST_F(BacktraceTest, IsRightInARandomCallGraphOnManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0}, all{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      int expected = 0;
      for (int i = 0; i < 300; ++i) expected += count_captures(random, 12);
      wrong += expected - captures_of(t);
      all += expected;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(all, 10'000);
  EXPECT_EQ(wrong, 0) << "of " << all;
}

Pair in_handler;
NOINLINE void on_signal(int) { take(in_handler); }

NOINLINE void raise_here() {
  raise(SIGUSR1);
  asm volatile("");
}

void signal_test(bool alternate_stack) {
  std::vector<char> memory(64 * 1024);
  stack_t stack{};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  stack_t before{};
  if (alternate_stack) { ASSERT_EQ(sigaltstack(&stack, &before), 0); }
  struct sigaction action {};
  action.sa_handler = &on_signal;
  action.sa_flags = alternate_stack ? SA_ONSTACK : 0;
  struct sigaction old_action {};
  sigaction(SIGUSR1, &action, &old_action);

  for (int i = 0; i < 3; ++i) {  // learning, then by the table
    raise_here();
    EXPECT_EQ(in_handler.ours, in_handler.theirs);
    EXPECT_GT(in_handler.ours.size(), 5u);
  }

  sigaction(SIGUSR1, &old_action, nullptr);
  if (alternate_stack) sigaltstack(&before, nullptr);
}

TEST_F(BacktraceTest, PassesThroughASignalHandler) { signal_test(false); }
TEST_F(BacktraceTest, PassesFromAnAlternateSignalStackToTheThreadsOwn) { signal_test(true); }

ucontext_t home, fiber;
Pair in_fiber;
NOINLINE void fiber_main() {
  descend(5, in_fiber);
  swapcontext(&fiber, &home);
}

// A fiber's stack with holes on both sides: leaving it would be SIGSEGV.
TEST_F(BacktraceTest, StaysInsideAFibersStack) {
  constexpr std::size_t kBytes = 64 * 1024;
  auto* const pages = static_cast<char*>(mmap(nullptr, 3 * kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(munmap(pages, kBytes), 0);
  ASSERT_EQ(munmap(pages + 2 * kBytes, kBytes), 0);
  ASSERT_EQ(mprotect(pages + kBytes, kBytes, PROT_READ | PROT_WRITE), 0);
  for (int i = 0; i < 3; ++i) {
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = pages + kBytes;
    fiber.uc_stack.ss_size = kBytes;
    fiber.uc_link = &home;
    makecontext(&fiber, &fiber_main, 0);

    std::thread([] { swapcontext(&home, &fiber); }).join();

    EXPECT_GE(in_fiber.ours.size(), 7u);
    in_fiber.theirs.resize(std::min(in_fiber.theirs.size(), in_fiber.ours.size()));
    EXPECT_EQ(in_fiber.ours, in_fiber.theirs);
  }
  munmap(pages + kBytes, kBytes);
}

NOINLINE void called_from_jit(void* pair) { take(*static_cast<Pair*>(pair)); }

// Code without unwind information, as a JIT makes it, but with a frame pointer.
TEST_F(BacktraceTest, GuessesByFramePointerWhereCodeHasNoTables) {
  static constexpr unsigned char kCode[] = {0x55, 0x48, 0x89, 0xe5,        // push %rbp; mov %rsp,%rbp
                                            0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7,  // mov %rdi,%rax; mov %rsi,%rdi
                                            0xff, 0xd0, 0x5d, 0xc3};       // call *%rax; pop %rbp; ret
  void* const code = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(code, MAP_FAILED);
  memcpy(code, kCode, sizeof(kCode));
  Pair outside, inside;
  take(outside);

  reinterpret_cast<void (*)(void (*)(void*), void*)>(code)(&called_from_jit, &inside);

  EXPECT_FALSE(inside.trace.knows_all_code);
  ASSERT_EQ(inside.ours.size(), outside.ours.size() + 2);
  EXPECT_EQ(inside.ours[1], reinterpret_cast<std::uintptr_t>(code) + 11);
  EXPECT_TRUE(std::equal(inside.ours.begin() + 3, inside.ours.end(), outside.ours.begin() + 1));
  munmap(code, 4096);
}

// No frame pointer, a register full of rubbish: the stack ends, the host lives.
TEST_F(BacktraceTest, EndsTheStackWhereRegistersAreRubbish) {
  static constexpr unsigned char kCode[] = {0x55, 0x48, 0xc7, 0xc5, 0x78, 0x56, 0x34, 0x12,  // push %rbp; mov $0x12345678,%rbp
                                            0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};
  void* const code = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, kCode, sizeof(kCode));
  std::uintptr_t frames[kMaxFrames];
  static Backtrace trace;
  static std::uintptr_t* out;
  out = frames;

  reinterpret_cast<void (*)(void (*)(void*), void*)>(code)(+[](void*) { trace = capture(out, kMaxFrames); }, nullptr);

  ASSERT_GE(trace.depth, 2u);
  EXPECT_EQ(frames[trace.depth - 1], reinterpret_cast<std::uintptr_t>(code) + 15) << "goes on behind the code without tables";
  munmap(code, 4096);
}

ucontext_t jit_home, jit_fiber;
void (*jit_code)(void*, void (*)());
void* jit_rbp;
Frames from_jit_fiber;
NOINLINE void called_in_jit_fiber() {
  std::uintptr_t frames[kMaxFrames];
  const Backtrace trace = capture(frames, kMaxFrames);
  from_jit_fiber.assign(frames, frames + trace.depth);
}
NOINLINE void jit_fiber_main() {
  jit_code(jit_rbp, &called_in_jit_fiber);
  asm volatile("" ::: "memory");
}

// A fiber with a guard page above it; its code has no tables and uses the frame pointer for something else: whatever that
// points at is not to be touched.
TEST_F(BacktraceTest, FollowsNoGuessOnAFibersStack) {
  static constexpr unsigned char kCode[] = {0x55, 0x48, 0x89, 0xfd, 0xff,
                                            0xd6, 0x5d, 0xc3};  // push %rbp; mov %rdi,%rbp; call *%rsi; pop %rbp; ret
  constexpr std::size_t kBytes = 64 * 1024;
  void* const code = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, kCode, sizeof(kCode));
  jit_code = reinterpret_cast<void (*)(void*, void (*)())>(code);
  auto* const pages = static_cast<char*>(mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(pages + kBytes, kBytes, PROT_NONE), 0);
  for (const std::ptrdiff_t offset : {64, -8, -4096}) {
    jit_rbp = pages + kBytes + offset;
    getcontext(&jit_fiber);
    jit_fiber.uc_stack.ss_sp = pages;
    jit_fiber.uc_stack.ss_size = kBytes;
    jit_fiber.uc_link = &jit_home;
    makecontext(&jit_fiber, &jit_fiber_main, 0);

    swapcontext(&jit_home, &jit_fiber);

    ASSERT_EQ(from_jit_fiber.size(), 2u) << "goes on behind the code without tables";
    EXPECT_EQ(from_jit_fiber.back(), reinterpret_cast<std::uintptr_t>(code) + 5);
  }
  munmap(pages, 2 * kBytes);
  munmap(code, 4096);
}

TEST_F(BacktraceTest, ForgetsWhatLayAtAnAddressBeforeAnUnload) {
  void* first_base = nullptr;
  int same_address = 0;
  for (int round = 0; round < 6; ++round) {
    const char* const name = round % 2 == 0 ? FRAMES_SMALL : FRAMES_LARGE;
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    auto* const call_through = reinterpret_cast<int (*)(int (*)(void*), void*)>(dlsym(library, "call_through"));
    Dl_info info;
    dladdr(reinterpret_cast<void*>(call_through), &info);
    if (first_base == nullptr) first_base = info.dli_fbase;
    same_address += info.dli_fbase == first_base;
    Pair pair;

    call_through(+[](void* p) { take(*static_cast<Pair*>(p)); return 0; }, &pair);

    EXPECT_EQ(pair.ours, pair.theirs) << name;
    dlclose(library);
    look_for_unloads();  // as the library's own dlclose does
  }
  EXPECT_GE(same_address, 2) << "the libraries never shared an address: nothing was tested";
}

}  // namespace
}  // namespace cuheap
