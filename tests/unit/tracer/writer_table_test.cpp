#include "tracer/writer_table.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace cuheap {
namespace {

constexpr std::uint32_t kRun = 1;

struct Chunk {
  alignas(64) std::uint8_t bytes[kChunkBytes] = {};
  ChunkHeader* header() { return reinterpret_cast<ChunkHeader*>(bytes); }
};

// In a process of its own: a filter of system calls is for good.
void in_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// From here on the calling process gets `action` for this system call.
void filter_system_call(long number, std::uint32_t action) {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, action), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{4, code};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

// Runs `work` with the thread's id on a thread that is gone for good when this returns.
void on_a_dead_thread(const std::function<void(std::uint32_t)>& work) {
  std::uint32_t thread = 0;
  std::thread([&] { work(thread = static_cast<std::uint32_t>(gettid())); }).join();
  // join() returns a little before the kernel has let go of the thread.
  while (std::filesystem::exists("/proc/self/task/" + std::to_string(thread))) std::this_thread::yield();
}

Event event_at(std::uint64_t time_ns, std::uint64_t address) {
  Event event;
  event.kind = EventKind::Allocate;
  event.floor = Floor::Allocation;
  event.time_ns = time_ns;
  event.address = address;
  event.size = 4096;
  return event;
}

std::vector<Event> events_in(Chunk& chunk) {
  const auto* const records = reinterpret_cast<const std::uint8_t*>(chunk.header() + 1);
  ChunkDecoder decoder(*chunk.header(), records, records + chunk.header()->committed);
  std::vector<Event> events;
  Record record;
  while (decoder.next(record) == Decoded::Event) events.push_back(record.event);
  return events;
}

class WriterTableTest : public ::testing::Test {
 protected:
  WriterTableTest() { EXPECT_TRUE(table_->grow()); }

  // A thread that opens `chunk`, writes one event into it and dies.
  std::uint32_t leave(Chunk& chunk, std::uint64_t time_ns = 100) {
    std::uint32_t dead = 0;
    on_a_dead_thread([&](std::uint32_t thread) {
      dead = thread;
      ThreadWriter* const writer = table_->take(thread, time_ns, kRun);
      ASSERT_NE(writer, nullptr);
      writer->writer.open(chunk.header(), thread, time_ns, kChunkHoldsEvents);
      writer->writer.append(event_at(time_ns, 0x7f0000001000));
    });
    return dead;
  }

  std::unique_ptr<WriterTable> table_ = std::make_unique<WriterTable>();
};

TEST_F(WriterTableTest, LetsANewThreadGoOnWhereADeadOneStopped) {
  auto chunk = std::make_unique<Chunk>();
  const std::uint32_t dead = leave(*chunk);

  ThreadWriter* const mine = table_->take(4242, 200, kRun);
  ASSERT_NE(mine, nullptr);
  ASSERT_TRUE(mine->writer.is_open());
  mine->writer.append(event_at(200, 0x7f0000003000));

  const std::vector<Event> events = events_in(*chunk);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].thread, dead);
  EXPECT_EQ(events[1].thread, 4242u);
  EXPECT_EQ(events[1].time_ns, 200u);
  EXPECT_EQ(events[1].address, 0x7f0000003000u);
  EXPECT_EQ(table_->size(), 1u);
}

TEST_F(WriterTableTest, TakesNothingFromALivingThread) {
  auto chunk = std::make_unique<Chunk>();
  ThreadWriter* const mine = table_->take(static_cast<std::uint32_t>(gettid()), 100, kRun);
  mine->writer.open(chunk->header(), static_cast<std::uint32_t>(gettid()), 100, kChunkHoldsEvents);

  std::thread([&] {
    ThreadWriter* const other = table_->take(static_cast<std::uint32_t>(gettid()), 200, kRun);
    EXPECT_NE(other, mine);
    EXPECT_FALSE(other->writer.is_open());
  }).join();
  table_->close_dead(0, kRun);

  EXPECT_EQ(chunk->header()->state, ChunkState::Open);
}

// The event that opens a chunk may have been stamped before the dead thread's last one.
TEST_F(WriterTableTest, ClosesAChunkInWhichTimeWouldRunBack) {
  auto chunk = std::make_unique<Chunk>();
  leave(*chunk, 100);

  ThreadWriter* const mine = table_->take(4242, 99, kRun);

  EXPECT_FALSE(mine->writer.is_open());
  EXPECT_EQ(chunk->header()->state, ChunkState::Closed);
  EXPECT_EQ(events_in(*chunk).size(), 1u);
}

// A thread that ends inside a record (exit from a signal handler) leaves deltas that nobody can vouch for.
TEST_F(WriterTableTest, ClosesAChunkWhoseThreadEndedInsideARecord) {
  auto chunk = std::make_unique<Chunk>();
  on_a_dead_thread([&](std::uint32_t thread) {
    ThreadWriter* const writer = table_->take(thread, 100, kRun);
    writer->writer.open(chunk->header(), thread, 100, kChunkHoldsEvents);
    writer->writer.append(event_at(100, 0x1000));
    writer->writer.begin();
  });

  EXPECT_FALSE(table_->take(4242, 200, kRun)->writer.is_open());
  EXPECT_EQ(chunk->header()->state, ChunkState::Closed);
}

TEST_F(WriterTableTest, ClosesAFullChunkOfADeadThread) {
  auto chunk = std::make_unique<Chunk>();
  on_a_dead_thread([&](std::uint32_t thread) {
    ThreadWriter* const writer = table_->take(thread, 100, kRun);
    writer->writer.open(chunk->header(), thread, 100, kChunkHoldsEvents);
    while (writer->writer.has_room()) writer->writer.append(event_at(100, 0x1000));
  });

  EXPECT_FALSE(table_->take(4242, 200, kRun)->writer.is_open());
  EXPECT_EQ(chunk->header()->state, ChunkState::Closed);
}

TEST_F(WriterTableTest, DoesNotTouchTheChunkOfAnEarlierRun) {
  auto chunk = std::make_unique<Chunk>();
  leave(*chunk);

  EXPECT_FALSE(table_->take(4242, 200, kRun + 1)->writer.is_open());
  EXPECT_EQ(chunk->header()->state, ChunkState::Open);
}

TEST_F(WriterTableTest, ClosesTheChunksOfDeadThreadsButForSome) {
  std::vector<Chunk> chunks(5);
  // Alive together, so that each has a chunk of its own.
  std::vector<std::thread> threads;
  std::vector<std::uint32_t> ids(chunks.size());
  std::atomic<std::size_t> ready{0};
  for (std::size_t i = 0; i < chunks.size(); ++i)
    threads.emplace_back([&, i] {
      ids[i] = static_cast<std::uint32_t>(gettid());
      ThreadWriter* const writer = table_->take(ids[i], 100, kRun);
      writer->writer.open(chunks[i].header(), ids[i], 100, kChunkHoldsEvents);
      for (++ready; ready < chunks.size();) std::this_thread::yield();
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::uint32_t id : ids)
    while (std::filesystem::exists("/proc/self/task/" + std::to_string(id))) std::this_thread::yield();

  table_->close_dead(2, kRun);

  std::size_t closed = 0;
  for (Chunk& chunk : chunks) closed += chunk.header()->state == ChunkState::Closed;
  EXPECT_EQ(closed, 3u);
  std::size_t open = 0;
  for (int i = 0; i < 5; ++i) open += table_->take(static_cast<std::uint32_t>(gettid()), 200, kRun)->writer.is_open();
  EXPECT_EQ(open, 2u);
  EXPECT_EQ(table_->size(), 5u) << "what was closed is free again";
}

TEST_F(WriterTableTest, GivesEachOfManyThreadsAtOnceAWriterOfItsOwn) {
  constexpr std::size_t kThreads = 64;
  for (int round = 0; round < 20; ++round) {
    std::vector<ThreadWriter*> taken(kThreads);
    std::vector<std::thread> threads;
    std::atomic<std::size_t> ready{0};
    for (std::size_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        for (++ready; ready < kThreads;) std::this_thread::yield();
        taken[i] = table_->take(static_cast<std::uint32_t>(gettid()), 100, kRun);
        for (++ready; ready < 2 * kThreads;) std::this_thread::yield();
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(std::set<ThreadWriter*>(taken.begin(), taken.end()).size(), kThreads);
    EXPECT_FALSE(std::set<ThreadWriter*>(taken.begin(), taken.end()).contains(nullptr));
  }
}

TEST_F(WriterTableTest, GrowsAheadOfItsThreads) {
  const auto self = static_cast<std::uint32_t>(gettid());  // alive, so that no writer is free again
  for (std::size_t i = 0; i < WriterTable::kPerBlock; ++i) ASSERT_NE(table_->take(self, 100, kRun), nullptr);
  EXPECT_EQ(table_->take(self, 100, kRun), nullptr);

  ASSERT_TRUE(table_->grow());

  EXPECT_NE(table_->take(self, 100, kRun), nullptr);
}

// A sandbox that forbids signals to threads: asking whether a thread lives must not be taken for one.
TEST_F(WriterTableTest, AsksForDeadThreadsWithoutSignals) {
  auto chunk = std::make_unique<Chunk>();
  in_child([&] {
    leave(*chunk);
    for (const long number : {SYS_tgkill, SYS_tkill, SYS_kill}) filter_system_call(number, SECCOMP_RET_KILL_PROCESS);
    EXPECT_TRUE(table_->take(4242, 200, kRun)->writer.is_open());
  });
}

TEST_F(WriterTableTest, TakesThreadsForAliveWhereItCannotAsk) {
  auto chunk = std::make_unique<Chunk>();
  for (const std::uint32_t error : {EPERM, ENOSYS, EINVAL})
    in_child([&] {
      leave(*chunk);
      filter_system_call(SYS_clock_gettime, SECCOMP_RET_ERRNO | error);
      EXPECT_FALSE(table_->take(4242, 200, kRun)->writer.is_open());
      table_->close_dead(0, kRun);
      EXPECT_EQ(chunk->header()->state, ChunkState::Open);
    });
}

}  // namespace
}  // namespace cuheap
