#include "tracer/recorder.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace cuheap
