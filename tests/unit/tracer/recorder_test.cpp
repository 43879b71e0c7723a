#include "tracer/recorder.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "tests/unit/tracer/trace_file.h"

namespace cuheap {
namespace {

using test::ReadTrace;
using test::TemporaryFolder;

class RecorderTest : public ::testing::Test {
 protected:
  ~RecorderTest() override { recorder().stop(); }

  void start(bool stacks = false, const char* const* patterns = nullptr) {
    ASSERT_TRUE(recorder().start({folder_.path().c_str(), stacks, patterns}));
  }
  // The helper's first stock: 16 MiB.
  void wait_for_stock() {
    while (std::filesystem::file_size(folder_.only_file()) < (std::size_t{16} << 20)) std::this_thread::yield();
  }
  ReadTrace stop_and_read() {
    recorder().stop();
    return test::read_trace(folder_.only_file());
  }

  TemporaryFolder folder_;
};

Event allocation(std::uint64_t address, std::uint64_t size) {
  Event event;
  event.kind = EventKind::Allocate;
  event.floor = Floor::Allocation;
  event.family = Family::Device;
  event.address = address;
  event.size = size;
  return event;
}

TEST_F(RecorderTest, WritesWhatItWasGiven) {
  start();

  Event first = allocation(0x7f0000000000, 20001);
  first.time_ns = now_ns();
  Event second = first;
  second.kind = EventKind::Free;
  second.size = 0;
  second.time_ns += 5;
  recorder().record(first);
  recorder().record(second);
  const ReadTrace trace = stop_and_read();

  EXPECT_TRUE(trace.problems.empty()) << trace.problems.front();
  ASSERT_EQ(trace.events.size(), 1u);
  first.thread = second.thread = static_cast<std::uint32_t>(gettid());
  EXPECT_EQ(trace.events.begin()->second, (std::vector<Event>{first, second}));
  EXPECT_EQ(trace.lost(), 0u);
}

TEST_F(RecorderTest, StampsEventsThatHaveNoTime) {
  start();

  const std::uint64_t before = now_ns();
  recorder().record(allocation(1, 1));
  const std::uint64_t after = now_ns();
  const ReadTrace trace = stop_and_read();

  const Event event = trace.events.begin()->second.at(0);
  EXPECT_GE(event.time_ns, before);
  EXPECT_LE(event.time_ns, after);
}

TEST_F(RecorderTest, KeepsEveryEventOfEightThreadsInOrder) {
  constexpr std::uint64_t kThreads = 8, kEvents = 100'000;
  start();
  wait_for_stock();

  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([t] {
      for (std::uint64_t i = 0; i < kEvents; ++i) {
        const HookScope scope;
        recorder().record(allocation((t << 40) + i * 512, i + 1));
      }
    });
  for (std::thread& thread : threads) thread.join();
  const ReadTrace trace = stop_and_read();

  EXPECT_TRUE(trace.problems.empty()) << trace.problems.front();
  EXPECT_EQ(trace.lost(), 0u);
  EXPECT_EQ(trace.event_count(), kThreads * kEvents);
  for (const auto& [thread, events] : trace.events) {
    const std::uint64_t base = events.front().address;
    for (std::size_t i = 0; i < events.size(); ++i) {
      ASSERT_EQ(events[i].address, base + i * 512);
      ASSERT_EQ(events[i].size, i + 1);
      if (i != 0) { ASSERT_GE(events[i].time_ns, events[i - 1].time_ns); }
    }
  }
}

TEST_F(RecorderTest, DescribesTheProcess) {
  setenv("RANK", "3", 1);
  setenv("LOCAL_RANK", "1", 1);
  start();

  const ReadTrace trace = stop_and_read();
  unsetenv("RANK");
  unsetenv("LOCAL_RANK");

  EXPECT_EQ(trace.header.pid, static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(trace.header.parent_pid, static_cast<std::uint32_t>(getppid()));
  EXPECT_EQ(trace.header.rank, 3);
  EXPECT_NE(trace.header.end_ns, 0u);
  EXPECT_GE(trace.header.end_ns, trace.header.start_ns);
  EXPECT_EQ(trace.meta.at("env.LOCAL_RANK"), "1");
  EXPECT_NE(trace.meta.at("command").find("test"), std::string::npos);
  EXPECT_EQ(trace.meta.at("executable"), std::filesystem::read_symlink("/proc/self/exe").string());
  EXPECT_FALSE(trace.meta.at("cuheap").empty());
  EXPECT_FALSE(trace.meta.at("host").empty());
}

TEST_F(RecorderTest, KnowsNoRankThatNoRankCanBe) {
  for (const char* const rank : {"2147483648", "4294967299", "-1", "three"}) {
    TemporaryFolder folder;
    setenv("RANK", rank, 1);
    ASSERT_TRUE(recorder().start({folder.path().c_str(), false, nullptr}));
    recorder().stop();
    unsetenv("RANK");

    EXPECT_EQ(test::read_header(folder.only_file()).rank, -1) << rank;
  }
}

TEST_F(RecorderTest, InternsNames) {
  start();
  const HookScope scope;

  const NameId load = recorder().define_name(scope, "load", 4);
  const NameId train = recorder().define_name(scope, "train", 5);
  const NameId again = recorder().define_name(scope, "load", 4);
  const ReadTrace trace = stop_and_read();

  EXPECT_EQ(load, again);
  EXPECT_NE(load, train);
  EXPECT_EQ(trace.names, (std::map<NameId, std::string>{{load, "load"}, {train, "train"}}));
}

TEST_F(RecorderTest, GivesUnusedChunksBackAtTheEnd) {
  start();

  recorder().record(allocation(512, 1));
  recorder().stop();

  EXPECT_LE(std::filesystem::file_size(folder_.only_file()), kHeaderBytes + 2 * kChunkBytes);
}

TEST_F(RecorderTest, StartsTheNextFileIfThePidHasOne) {
  start();
  recorder().stop();
  start();
  recorder().stop();

  const std::string stem = folder_.path() + "/trace-" + std::to_string(getpid());
  EXPECT_TRUE(std::filesystem::exists(stem + ".cuheap"));
  EXPECT_TRUE(std::filesystem::exists(stem + "-2.cuheap"));
}

TEST_F(RecorderTest, CountsLossesInTheHeader) {
  start();

  recorder().count_loss(LossReason::TableFull, 7);
  const ReadTrace trace = stop_and_read();

  EXPECT_EQ(trace.header.lost_events[static_cast<int>(LossReason::TableFull)], 7u);
  EXPECT_EQ(trace.lost(), 7u);
}

TEST_F(RecorderTest, CountsEventsForWhichNoChunkIsReady) {
  start();
  static std::atomic<bool> helper_may_go;
  static std::atomic<bool> helper_is_held;
  helper_may_go = helper_is_held = false;
  ASSERT_TRUE(recorder().add_helper_task(
      [] {
        helper_is_held = true;
        while (!helper_may_go) std::this_thread::yield();
      },
      1'000'000));
  while (!helper_is_held) std::this_thread::yield();

  // Large records, so that 16 MiB are soon used up.
  Event large = allocation(1, ~std::uint64_t{0});
  large.kind = EventKind::Map;
  large.stream = large.context = large.extra0 = large.extra1 = ~std::uint64_t{0};
  std::uint64_t recorded = 0;
  do {
    for (int i = 0; i < 20'000; ++i) recorder().record(large);
    recorded += 20'000;
  } while (recorded < 5'000'000 && test::read_header(folder_.only_file()).lost_events[static_cast<int>(LossReason::NoChunk)] == 0);
  helper_may_go = true;
  const ReadTrace trace = stop_and_read();

  EXPECT_TRUE(trace.problems.empty()) << trace.problems.front();
  EXPECT_GT(trace.header.lost_events[static_cast<int>(LossReason::NoChunk)], 0u);
  EXPECT_EQ(trace.event_count() + trace.lost(), recorded);
}

TEST_F(RecorderTest, CountsEventsAfterItsEnd) {
  start();

  recorder().stop();
  recorder().record(allocation(1, 1));

  EXPECT_EQ(test::read_header(folder_.only_file()).lost_events[static_cast<int>(LossReason::Disabled)], 1u);
}

// A process that is killed at any moment. It counts in shared memory what it has recorded.
struct Progress {
  std::atomic<std::uint64_t> recorded[2];
};

[[noreturn]] void record_until_killed(const std::string& folder, Progress& progress) {
  if (!recorder().start({folder.c_str(), true, nullptr})) _exit(3);
  const auto work = [&](std::size_t thread) {
    for (std::uint64_t i = 0;; ++i) {
      const HookScope scope;
      Event event = allocation((thread << 40) + i * 512, i + 1);
      event.site = recorder().capture_site(scope, 0).id;
      recorder().record(event);
      progress.recorded[thread].store(i + 1, std::memory_order_release);
    }
  };
  std::thread other(work, 1);
  work(0);
  _exit(3);
}

TEST_F(RecorderTest, LosesNothingRecordedToAKill) {
  std::mt19937 random(1);
  auto* const shared = static_cast<Progress*>(mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::uint64_t recorded_by_all = 0;
  for (int round = 0; round < 30; ++round) {
    TemporaryFolder folder;
    new (shared) Progress{};
    const pid_t child = fork();
    if (child == 0) record_until_killed(folder.path(), *shared);

    usleep(static_cast<useconds_t>(random() % 20'000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    if (folder.only_file().empty()) continue;  // killed before it had begun
    const ReadTrace trace = test::read_trace(folder.only_file());

    if (trace.header.version == 0) continue;  // killed inside start()
    EXPECT_TRUE(trace.problems.empty()) << trace.problems.front();
    EXPECT_EQ(trace.header.end_ns, 0u);
    std::uint64_t per_thread[2] = {};
    for (const auto& [thread, events] : trace.events)
      for (const Event& event : events) {
        ++per_thread[event.address >> 40];
        ASSERT_TRUE(event.site == 0 || trace.sites.contains(event.site)) << "a site used before it was defined";
      }
    const std::uint64_t lost = trace.lost();
    for (int t = 0; t < 2; ++t) {
      EXPECT_GE(per_thread[t] + lost, shared->recorded[t]);
      EXPECT_LE(per_thread[t], shared->recorded[t] + 1);
      recorded_by_all += per_thread[t];
    }
  }
  EXPECT_GT(recorded_by_all, 1000u);
  munmap(shared, sizeof(Progress));
}

TEST_F(RecorderTest, IsSilentInAForkChild) {
  start();
  recorder().record(allocation(512, 1));

  for (const bool handler_runs : {true, false}) {
    const pid_t child = fork();
    if (child == 0) {
      if (handler_runs) recorder().after_fork_in_child();
      const HookScope scope;
      const bool silent = !recorder().is_recording() && recorder().capture_site(scope, 0).id == 0 &&
                          recorder().define_name(scope, "x", 1) == 0;
      for (int i = 0; i < 100'000; ++i) recorder().record(allocation(1024, 2));
      recorder().count_loss(LossReason::TableFull);
      recorder().stop();
      _exit(silent ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  const ReadTrace trace = stop_and_read();

  EXPECT_EQ(trace.event_count(), 1u);
  EXPECT_EQ(trace.lost(), 0u);
}

// Whatever a child does with a stray pointer, it cannot reach its parent's trace.
TEST_F(RecorderTest, HasNoPageOfItsFileInAForkChild) {
  start();
  wait_for_stock();
  const auto mappings = [this] {
    std::ifstream maps("/proc/self/maps");
    const std::string text(std::istreambuf_iterator<char>(maps), {});
    int count = 0;
    for (std::size_t at = 0; (at = text.find(folder_.path(), at)) != std::string::npos; ++at) ++count;
    return count;
  };
  ASSERT_GT(mappings(), 1);  // the header, and chunks

  const pid_t child = fork();
  if (child == 0) _exit(mappings());
  int status = 0;
  waitpid(child, &status, 0);

  EXPECT_EQ(status, 0);
}

std::uint64_t locked_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmLck:")) return std::stoull(line.substr(6));
  return ~std::uint64_t{0};
}

// A real-time host that locks all it will ever map, with the limit of an ordinary user.
TEST_F(RecorderTest, LocksNoneOfTheHostsMemory) {
  ASSERT_EQ(chmod(folder_.path().c_str(), 0777), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(2);  // root has no limit
    const rlimit limit{64 * 1024, 64 * 1024};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || mlockall(MCL_FUTURE) != 0) _exit(2);
    if (!recorder().start({folder_.path().c_str(), true, nullptr})) _exit(3);
    for (std::uint64_t i = 0; i < 200'000; ++i) recorder().record(allocation(i * 4096, i));
    if (locked_kib() > 16) _exit(4);  // this test's own stream takes some
    recorder().stop();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  const ReadTrace trace = test::read_trace(folder_.only_file());
  EXPECT_EQ(trace.event_count() + trace.lost(), 200'000u);
  EXPECT_GT(trace.event_count(), 100'000u);
}

TEST_F(RecorderTest, SaysOnceThatTheDiskIsFullAndCountsTheRest) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a small file system";
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", folder_.path().c_str(), "tmpfs", 0, "size=3m") != 0)
      _exit(77);
    int said[2];
    if (pipe(said) != 0 || dup2(said[1], 2) < 0) _exit(2);
    if (!recorder().start({folder_.path().c_str(), true, nullptr})) _exit(3);
    constexpr std::uint64_t kEvents = 1'000'000;
    for (std::uint64_t i = 0; i < kEvents; ++i) recorder().record(allocation(i * 4096, i));
    char text[4096];
    const ssize_t size = read(said[0], text, sizeof(text));
    const std::string line(text, static_cast<std::size_t>(size));
    const ReadTrace trace = test::read_trace(folder_.only_file());
    if (std::count(line.begin(), line.end(), '\n') != 1 || line.find("No space left on device") == std::string::npos) _exit(4);
    if (!trace.problems.empty() || trace.event_count() + trace.lost() != kEvents) _exit(5);
    if (trace.header.lost_events[static_cast<int>(LossReason::WriteFailed)] == 0 || recorder().is_recording()) _exit(6);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no right to mount here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Recorder, DoesNotStartInAFolderThatCannotBe) {
  EXPECT_FALSE(recorder().start({"/proc/no/such/folder", true, nullptr}));
  EXPECT_FALSE(recorder().is_recording());
  recorder().record(allocation(1, 1));  // harmless
}

[[gnu::noinline]] CapturedSite capture_here() {
  const HookScope scope;
  const CapturedSite site = recorder().capture_site(scope, 0);
  asm volatile("");
  return site;
}
[[gnu::noinline]] CapturedSite another_caller() {
  const CapturedSite site = capture_here();
  asm volatile("");
  return site;
}

TEST_F(RecorderTest, GivesTheSameStackTheSameSite) {
  start(true);

  CapturedSite sites[3];
  for (int i = 0; i < 3; ++i) {
    asm volatile("" : "+r"(i));  // one call site, not three
    sites[i] = capture_here();
  }
  const CapturedSite other = another_caller();
  const ReadTrace trace = stop_and_read();

  EXPECT_NE(sites[0].id, 0u);
  EXPECT_EQ(sites[0].id, sites[1].id);
  EXPECT_EQ(sites[0].id, sites[2].id);
  EXPECT_NE(sites[0].id, other.id);
  EXPECT_EQ(trace.stack(other.id).size(), trace.stack(sites[0].id).size() + 1);
  EXPECT_EQ(trace.stack(sites[0].id).size(), sites[0].depth);
}

TEST_F(RecorderTest, NamesFramesByModuleAndOffset) {
  start(true);

  const CapturedSite site = capture_here();
  const ReadTrace trace = stop_and_read();

  const auto frames = trace.stack(site.id);
  ASSERT_FALSE(frames.empty());
  const auto& program = trace.modules.at(static_cast<std::uint32_t>(frames[0].first));
  const std::uint64_t address = program.base + frames[0].second;
  const auto function = reinterpret_cast<std::uint64_t>(&capture_here);
  EXPECT_GE(address, function);
  EXPECT_LT(address, function + 4096);
  EXPECT_EQ(program.path, std::filesystem::read_symlink("/proc/self/exe").string());
  EXPECT_EQ(program.build_id.size(), 20u);
}

TEST_F(RecorderTest, LeavesOutAsManyFramesAsItIsTold) {
  start(true);
  const HookScope scope;

  const auto direct = [&](unsigned skip) { return recorder().capture_site(scope, skip); };
  const CapturedSite all = direct(0);
  const CapturedSite fewer = direct(1);
  const ReadTrace trace = stop_and_read();

  EXPECT_EQ(fewer.depth + 1, all.depth);
}

TEST_F(RecorderTest, MarksSitesByTheModulesOnTheirStack) {
  const char* const patterns[] = {"no-such-library", "libc.so", "tracer_test", nullptr};
  start(true, patterns);

  const CapturedSite here = capture_here();
  CapturedSite in_thread;
  std::thread([&] { in_thread = capture_here(); }).join();

  EXPECT_EQ(here.bits, 0b110u);  // main is called by libc
  EXPECT_EQ(in_thread.bits & 0b110u, 0b110u);
  EXPECT_EQ(capture_here().bits, 0b110u);  // remembered
}

TEST_F(RecorderTest, CapturesNothingIfStacksAreOff) {
  start(false);
  EXPECT_EQ(capture_here().id, 0u);
  EXPECT_EQ(capture_here().depth, 0u);
}

TEST_F(RecorderTest, AccountsNothingInsideItsOwnWork) {
  start(true);
  const HookScope outer;
  const HookScope inner;
  EXPECT_EQ(recorder().capture_site(inner, 0).id, 0u);
  EXPECT_EQ(recorder().define_name(inner, "x", 1), 0u);
}

// Chunks and extents of the trace file that are mapped now.
std::size_t mapped_pieces(const std::string& file) {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(file) != std::string::npos;
  return count;
}

// A thread a request, one allocation and one free each, as fast as threads can be made.
TEST_F(RecorderTest, LosesNothingOfManyShortThreads) {
  constexpr std::uint64_t kThreads = 20'000, kAtOnce = 4;
  start();
  std::vector<std::thread> makers;
  for (std::uint64_t maker = 0; maker < kAtOnce; ++maker)
    makers.emplace_back([maker] {
      for (std::uint64_t t = maker; t < kThreads; t += kAtOnce)
        std::thread([] {
          const auto self = static_cast<std::uint64_t>(gettid());
          Event free = allocation(self * 512, self);
          recorder().record(free);
          free.kind = EventKind::Free;
          free.size = 0;
          recorder().record(free);
        }).join();
    });
  for (std::thread& maker : makers) maker.join();
  const ReadTrace trace = stop_and_read();

  EXPECT_TRUE(trace.problems.empty()) << trace.problems.front();
  EXPECT_EQ(trace.lost(), 0u);
  EXPECT_EQ(trace.event_count(), 2 * kThreads);
  EXPECT_LE(trace.chunks.size(), 100u);
  // Each thread's events are its own, though thousands of threads share a chunk.
  for (const auto& [thread, events] : trace.events)
    for (std::size_t i = 0; i < events.size(); ++i) {
      ASSERT_EQ(events[i].address, thread * std::uint64_t{512});
      ASSERT_EQ(events[i].kind, i % 2 == 0 ? EventKind::Allocate : EventKind::Free);
    }
}

TEST_F(RecorderTest, LetsGoOfTheChunksOfThreadsThatCameAndWent) {
  constexpr std::uint64_t kThreads = 1500, kAtOnce = 150;  // 94 MiB of chunks, if each kept its own
  start();
  wait_for_stock();
  for (std::uint64_t first = 0; first < kThreads; first += kAtOnce) {
    std::vector<std::thread> threads;
    std::atomic<std::uint64_t> ready{0};
    for (std::uint64_t t = first; t < first + kAtOnce; ++t)
      threads.emplace_back([t, &ready] {
        recorder().record(allocation(t * 512, t + 1));
        for (++ready; ready < kAtOnce;) std::this_thread::yield();
      });
    for (std::thread& thread : threads) thread.join();
  }

  // The header, the stock, and what is not swept yet.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (mapped_pieces(folder_.only_file()) > 80 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_LE(mapped_pieces(folder_.only_file()), 80u);
  const ReadTrace trace = stop_and_read();

  EXPECT_TRUE(trace.problems.empty()) << trace.problems.front();
  EXPECT_EQ(trace.event_count(), kThreads);
  EXPECT_EQ(trace.lost(), 0u);
}

TEST_F(RecorderTest, GoesOnWhenItsFolderIsRemoved) {
  start();
  recorder().record(allocation(512, 1));
  std::filesystem::remove_all(folder_.path());
  for (std::uint64_t i = 0; i < 100'000; ++i) recorder().record(allocation(i * 512, i + 1));
  EXPECT_TRUE(recorder().is_recording());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose frames are larger
constexpr std::size_t kMeasuredStack = 256 * 1024;
char* measured_stack;
std::vector<std::size_t> stack_needs;

// How far down a captured and recorded event writes.
[[gnu::noinline]] void measure_stack_need() {
  char* const sp = static_cast<char*>(__builtin_frame_address(0)) - 256;
  memset(measured_stack, 0x5a, static_cast<std::size_t>(sp - measured_stack));
  {
    const HookScope scope;
    Event event = allocation(0x7f0000000000, 512);
    event.site = recorder().capture_site(scope, 0).id;
    recorder().record(event);
  }
  const char* low = measured_stack;
  while (*low == 0x5a) ++low;
  stack_needs.push_back(static_cast<std::size_t>(sp - low));
}

// A thread of 16 KiB has less than 12 for itself.
TEST_F(RecorderTest, NeedsLittleOfTheHostsStack) {
  start(true);
  measured_stack = static_cast<char*>(mmap(nullptr, kMeasuredStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstack(&attributes, measured_stack, kMeasuredStack), 0);
  stack_needs.reserve(8);
  void* const library = dlopen(FRAMES_SMALL, RTLD_NOW | RTLD_LOCAL);  // the modules are read anew too
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, [](void*) -> void* {
              while (stack_needs.size() < 4) measure_stack_need();  // one call site: the same stack each time
              return nullptr;
            }, nullptr), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  dlclose(library);

  ASSERT_EQ(stack_needs.size(), 4u);
  EXPECT_LT(stack_needs.front(), 2560u) << "with everything new";
  EXPECT_LT(stack_needs.back(), 1024u) << "with nothing new";
  munmap(measured_stack, kMeasuredStack);
}
#endif

// Options are read once a process, so this one runs in a process of its own.
TEST(RecorderInAProcessOfItsOwn, DISABLED_FillsItsFile) {
  const char* const folder = std::getenv("CUHEAP_TEST_FOLDER");
  ASSERT_NE(folder, nullptr) << "run by RecorderTest.StopsAtTheSizeItMayHave";
  ASSERT_TRUE(recorder().start({folder, false, nullptr}));
  for (std::uint64_t i = 0; i < 1'000'000; ++i) recorder().record(allocation(i * 4096, i + 1));
  EXPECT_FALSE(recorder().is_recording());
}

TEST_F(RecorderTest, StopsAtTheSizeItMayHave) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "CUHEAP_TEST_FOLDER=" + folder_.path() + " CUHEAP_MAX_SIZE=3MiB " + self +
                              " --gtest_also_run_disabled_tests --gtest_filter=RecorderInAProcessOfItsOwn.* --gtest_brief=1"
                              " 2>&1 >/dev/null";
  std::FILE* const child = popen(command.c_str(), "r");
  char said[1024] = {};
  const std::size_t size = fread(said, 1, sizeof(said) - 1, child);
  EXPECT_EQ(pclose(child), 0);

  EXPECT_NE(std::string(said, size).find("has reached CUHEAP_MAX_SIZE (3 MiB)"), std::string::npos) << said;
  const ReadTrace trace = test::read_trace(folder_.only_file());
  EXPECT_TRUE(trace.problems.empty()) << trace.problems.front();
  EXPECT_LE(std::filesystem::file_size(folder_.only_file()), std::uint64_t{3} << 20);
  EXPECT_GT(trace.header.lost_events[static_cast<int>(LossReason::WriteFailed)], 0u);
  EXPECT_EQ(trace.event_count() + trace.lost(), 1'000'000u);
  EXPECT_EQ(trace.meta.at("option.CUHEAP_MAX_SIZE"), "3145728");
}

}  // namespace
}  // namespace cuheap
