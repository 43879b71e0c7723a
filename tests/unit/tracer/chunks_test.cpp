#include "tracer/chunks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "tests/unit/tracer/trace_file.h"
#include "tracer/base/process.h"
#include "tracer/trace_writer.h"

namespace cuheap {
namespace {

using test::TemporaryFolder;

constexpr std::uint64_t kMiB = 1 << 20;

struct OpenFile {
  explicit OpenFile(const std::string& folder, std::uint64_t max_bytes = 0) {
    bool directory_failed = false;
    error = file->open({folder.c_str(), process::pid(), max_bytes}, &directory_failed);
    about_directory = directory_failed;
  }
  ~OpenFile() { file->close(); }
  std::unique_ptr<ChunkFile> file = std::make_unique<ChunkFile>();
  int error = 0;
  bool about_directory = false;
};

// In a process of its own: what limits it sets must not reach the other tests.
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

// Fills all chunks of the file, each by a thread that has ended.
void use_up_by_dead_threads(ChunkFile& file) {
  std::uint32_t last = 0;
  while (ChunkHeader* const chunk = file.pop())
    std::thread([&] {
      TraceWriter writer;
      last = static_cast<std::uint32_t>(gettid());
      writer.open(chunk, last, 1, kChunkHoldsEvents);
    }).join();
  // join() returns a little before the kernel has let go of the thread.
  while (std::filesystem::exists("/proc/self/task/" + std::to_string(last))) std::this_thread::yield();
}

TEST(ChunkStock, HandsEachChunkToOneThread) {
  auto stock = std::make_unique<ChunkStock>();
  std::vector<ChunkHeader> chunks(20'000);
  std::vector<std::set<ChunkHeader*>> taken(4);
  std::atomic<bool> pushed_all{false};

  std::vector<std::thread> threads;
  for (auto& mine : taken)
    threads.emplace_back([&] {
      while (!pushed_all || stock->size() != 0)
        if (ChunkHeader* const chunk = stock->pop()) mine.insert(chunk);
    });
  for (ChunkHeader& chunk : chunks)
    while (!stock->push(&chunk)) std::this_thread::yield();
  pushed_all = true;
  for (std::thread& thread : threads) thread.join();

  std::set<ChunkHeader*> all;
  std::size_t sum = 0;
  for (const auto& mine : taken) {
    sum += mine.size();
    all.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(sum, chunks.size());
  EXPECT_EQ(all.size(), chunks.size());
}

TEST(ChunkFile, MakesTheFolderAndItsParents) {
  TemporaryFolder folder;
  OpenFile opened(folder.path() + "/a/b/c");
  EXPECT_EQ(opened.error, 0);
  EXPECT_TRUE(std::filesystem::exists(opened.file->path()));
}

TEST(ChunkFile, SaysWhichFolderItCannotUse) {
  TemporaryFolder folder;
  std::ofstream(folder.path() + "/plain-file") << "x";
  OpenFile opened(folder.path() + "/plain-file/run");
  EXPECT_EQ(opened.error, ENOTDIR);
  EXPECT_TRUE(opened.about_directory);
}

TEST(ChunkFile, IsOutOfStockOnceAllIsPopped) {
  TemporaryFolder folder;
  OpenFile opened(folder.path());
  for (std::size_t i = 0; i < kChunksPerExtent; ++i) {
    ChunkHeader* const chunk = opened.file->pop();
    ASSERT_NE(chunk, nullptr);
    EXPECT_EQ(chunk->magic, kChunkMagic);
    EXPECT_EQ(chunk->state, ChunkState::Stock);
  }
  EXPECT_EQ(opened.file->pop(), nullptr);
  EXPECT_FALSE(opened.file->is_exhausted());  // the helper is late, that is all
}

TEST(ChunkFile, NeverGrowsBeyondItsLimit) {
  TemporaryFolder folder;
  OpenFile opened(folder.path(), 3 * kMiB);
  opened.file->fill_stock(1000);
  while (opened.file->pop() != nullptr) {}
  EXPECT_TRUE(opened.file->is_exhausted());
  EXPECT_TRUE(opened.file->growth().reached_max_size);
  EXPECT_LE(std::filesystem::file_size(opened.file->path()), 3 * kMiB);
}

TEST(ChunkFile, StopsAtTheFileSizeLimitWithoutASignal) {
  TemporaryFolder folder;
  in_child([&] {
    const rlimit limit{3 * kMiB, 3 * kMiB};
    setrlimit(RLIMIT_FSIZE, &limit);
    OpenFile opened(folder.path());
    EXPECT_EQ(opened.error, 0);
    opened.file->fill_stock(1000);
    EXPECT_EQ(opened.file->growth().error, EFBIG);
  });
}

TEST(ChunkFile, StopsOnAFullDiskWithoutASignal) {
  TemporaryFolder folder;
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a small file system";
  in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", folder.path().c_str(), "tmpfs", 0, "size=3m") != 0)
      return;  // no right to mount here
    OpenFile opened(folder.path());
    EXPECT_EQ(opened.error, 0);
    opened.file->fill_stock(1000);
    EXPECT_EQ(opened.file->growth().error, ENOSPC);
    std::size_t chunks = 0;
    while (ChunkHeader* const chunk = opened.file->pop()) {
      memset(reinterpret_cast<char*>(chunk) + sizeof(ChunkHeader), 0x5a, kChunkBytes - sizeof(ChunkHeader));  // SIGBUS if not reserved
      ++chunks;
    }
    EXPECT_EQ(chunks, 2 * kChunksPerExtent);
    EXPECT_TRUE(opened.file->is_exhausted());
  });
}

TEST(ChunkFile, GrowsOnIfTheHostClosesAllDescriptors) {
  TemporaryFolder folder;
  in_child([&] {
    OpenFile opened(folder.path());
    for (int fd = 3; fd < 2000; ++fd) close(fd);
    EXPECT_EQ(opened.file->fill_stock(2 * kChunksPerExtent), kChunksPerExtent);
  });
}

TEST(ChunkFile, DoesNotTouchAFileThatGotItsDescriptor) {
  TemporaryFolder folder;
  in_child([&] {
    OpenFile opened(folder.path() + "/run");
    const std::string other = folder.path() + "/other";
    const int fd = open(other.c_str(), O_RDWR | O_CREAT, 0600);
    for (int ours = 3; ours < 2000; ++ours)
      if (ours != fd) dup2(fd, ours);
    std::filesystem::remove(opened.file->path());  // so that it cannot be found again either
    EXPECT_EQ(opened.file->fill_stock(2 * kChunksPerExtent), 0u);
    EXPECT_EQ(opened.file->growth().error, EBADF);
    EXPECT_EQ(std::filesystem::file_size(other), 0u);
  });
}

TEST(ChunkFile, ClosesAndUnmapsChunksOfDeadThreads) {
  TemporaryFolder folder;
  OpenFile opened(folder.path());
  for (std::size_t i = 0; i < kChunksPerExtent; ++i)
    std::thread([&] {
      TraceWriter writer;
      writer.open(opened.file->pop(), static_cast<std::uint32_t>(gettid()), 1, kChunkHoldsEvents);
      writer.append(Event{});
    }).join();

  opened.file->sweep();

  EXPECT_EQ(opened.file->mapped_extents(), 0u);
  const test::ReadTrace trace = test::read_trace(opened.file->path());
  EXPECT_EQ(trace.chunks.size(), kChunksPerExtent);
  for (const ChunkHeader& chunk : trace.chunks) EXPECT_EQ(chunk.state, ChunkState::Closed);
}

TEST(ChunkFile, KeepsTheChunkOfDefinitionsWhoseThreadEnded) {
  TemporaryFolder folder;
  OpenFile opened(folder.path());
  TraceWriter definitions;
  std::thread([&] {
    definitions.open(opened.file->pop(), static_cast<std::uint32_t>(gettid()), 1, kChunkHoldsDefinitions);
  }).join();
  for (std::size_t i = 1; i < kChunksPerExtent; ++i)
    std::thread([&] {
      TraceWriter writer;
      writer.open(opened.file->pop(), static_cast<std::uint32_t>(gettid()), 1, kChunkHoldsEvents);
    }).join();

  opened.file->sweep();
  definitions.append_definition(SiteNode{7, 0, FrameKind::Native, 0, 1});

  EXPECT_EQ(opened.file->mapped_extents(), 1u);
  const test::ReadTrace trace = test::read_trace(opened.file->path());
  EXPECT_EQ(trace.chunks.front().state, ChunkState::Open);
}

// A sandbox that forbids signals to threads: asking whether a thread lives must not be taken for one.
TEST(ChunkFile, AsksForDeadThreadsWithoutSignals) {
  TemporaryFolder folder;
  in_child([&] {
    OpenFile opened(folder.path());
    use_up_by_dead_threads(*opened.file);
    for (const long number : {SYS_tgkill, SYS_tkill, SYS_kill}) filter_system_call(number, SECCOMP_RET_KILL_PROCESS);

    opened.file->sweep();

    EXPECT_EQ(opened.file->mapped_extents(), 0u);
  });
}

TEST(ChunkFile, TakesThreadsForAliveWhereItCannotAsk) {
  TemporaryFolder folder;
  for (const std::uint32_t error : {EPERM, ENOSYS, EINVAL})
    in_child([&] {
      OpenFile opened(folder.path() + "/" + std::to_string(error));
      TraceWriter writer;
      writer.open(opened.file->pop(), static_cast<std::uint32_t>(gettid()), 1, kChunkHoldsEvents);
      use_up_by_dead_threads(*opened.file);
      filter_system_call(SYS_clock_gettime, SECCOMP_RET_ERRNO | error);

      opened.file->sweep();

      EXPECT_EQ(opened.file->mapped_extents(), 1u);
      for (const ChunkHeader& chunk : test::read_trace(opened.file->path()).chunks) EXPECT_EQ(chunk.state, ChunkState::Open);
    });
}

TEST(ChunkFile, LeavesChunksOfLivingThreadsAlone) {
  TemporaryFolder folder;
  OpenFile opened(folder.path());
  TraceWriter writer;
  writer.open(opened.file->pop(), static_cast<std::uint32_t>(gettid()), 1, kChunkHoldsEvents);

  opened.file->sweep();
  writer.append(Event{});

  EXPECT_EQ(opened.file->mapped_extents(), 1u);
  EXPECT_EQ(test::read_trace(opened.file->path()).event_count(), 1u);
}

TEST(ChunkFile, GivesTheUnusedEndsOfDeadThreadsChunksBackToTheDisk) {
  TemporaryFolder folder;
  OpenFile opened(folder.path());
  std::thread([&] {
    TraceWriter writer;
    writer.open(opened.file->pop(), static_cast<std::uint32_t>(gettid()), 1, kChunkHoldsEvents);
  }).join();
  struct stat before, after;
  stat(opened.file->path(), &before);

  opened.file->sweep();

  stat(opened.file->path(), &after);
  EXPECT_EQ(after.st_size, before.st_size);
  EXPECT_LT(after.st_blocks, before.st_blocks);
}

}  // namespace
}  // namespace cuheap
