// Law H2: recording takes nothing from the host's heap. A program of its own, because it replaces malloc.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/tracer/trace_file.h"
#include "tracer/recorder.h"

namespace {
std::atomic<std::uint64_t> allocations{0};
}

// glibc's own names under which its allocator can be reached when malloc is replaced.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* malloc(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(memory, size);
}
}

namespace cuheap {
namespace {

[[gnu::noinline]] void record_some(int depth, int count) {
  if (depth != 0) {
    record_some(depth - 1, count);
    asm volatile("");
    return;
  }
  for (int i = 0; i < count; ++i) {
    const HookScope scope;
    Event event;
    event.kind = EventKind::Allocate;
    event.floor = Floor::Allocation;
    event.address = static_cast<std::uint64_t>(i) * 512;
    event.size = 512;
    event.site = recorder().capture_site(scope, 0).id;
    recorder().record(event);
  }
}

TEST(Recorder, TakesNothingFromTheHostsHeap) {
  test::TemporaryFolder folder;
  ASSERT_TRUE(recorder().start({folder.path().c_str(), true, nullptr}));
  std::uint64_t in_thread = 0;
  std::atomic<bool> go{false}, done{false};
  std::thread thread([&] {
    while (!go) std::this_thread::yield();
    const std::uint64_t before = allocations;
    record_some(20, 50'000);  // a new thread: its first stack, its first chunk
    in_thread = allocations - before;
    done = true;
  });

  const std::uint64_t before = allocations;
  for (int depth = 0; depth < 60; ++depth) record_some(depth, 100);  // new stacks and seen ones
  {
    const HookScope scope;
    recorder().define_name(scope, "load", 4);
    recorder().define_meta(scope, "key", "value");
  }
  const std::uint64_t in_main = allocations - before;
  go = true;
  while (!done) std::this_thread::yield();
  thread.join();
  recorder().stop();

  EXPECT_EQ(in_main, 0u);
  EXPECT_EQ(in_thread, 0u);
  EXPECT_EQ(test::read_trace(folder.only_file()).event_count(), 56'000u);
  EXPECT_GT(allocations, 0u) << "the counter does not count";
}

// An object opened by another thread meanwhile: the module map is read anew, still without the heap.
TEST(Recorder, LearnsNewModulesWithoutTheHostsHeap) {
  test::TemporaryFolder folder;
  ASSERT_TRUE(recorder().start({folder.path().c_str(), true, nullptr}));
  void* const library = dlopen(FRAMES_SMALL, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  auto* const call_through = reinterpret_cast<int (*)(int (*)(void*), void*)>(dlsym(library, "call_through"));

  const std::uint64_t before = allocations;
  call_through(+[](void*) { record_some(3, 1); return 0; }, nullptr);
  const std::uint64_t taken = allocations - before;
  recorder().stop();

  EXPECT_EQ(taken, 0u);
  const test::ReadTrace trace = test::read_trace(folder.only_file());
  EXPECT_TRUE(std::any_of(trace.modules.begin(), trace.modules.end(),
                          [](const auto& module) { return module.second.path == FRAMES_SMALL; }));
  dlclose(library);
}

}  // namespace
}  // namespace cuheap
