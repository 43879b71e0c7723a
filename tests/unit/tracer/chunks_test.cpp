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

#include <cstddef>
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

// Ends the process at that system call, from now on.
bool forbid(long system_call) {
  sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(system_call), 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{4, steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(ChunkFile, GrowsInASandboxThatForbidsToAskForLimits) {
  TemporaryFolder folder;
  in_child([&] {
    OpenFile opened(folder.path());
    EXPECT_EQ(opened.error, 0);
    if (!forbid(SYS_prlimit64)) return;  // no sandboxes here
    EXPECT_GT(opened.file->fill_stock(100), 0u);
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

TEST(ChunkFile, UnmapsWhatIsClosedAndGivesUnusedEndsBackToTheDisk) {
  TemporaryFolder folder;
  OpenFile opened(folder.path());
  struct stat before, after;
  stat(opened.file->path(), &before);
  while (ChunkHeader* const chunk = opened.file->pop()) {
    TraceWriter writer;
    writer.open(chunk, 1, 1, kChunkHoldsEvents);
    writer.append(Event{});
    writer.close();
  }

  opened.file->sweep(3);
  EXPECT_EQ(opened.file->mapped_extents(), 1u) << "while unused ends are left";
  opened.file->sweep();

  EXPECT_EQ(opened.file->mapped_extents(), 0u);
  stat(opened.file->path(), &after);
  EXPECT_EQ(after.st_size, before.st_size);
  EXPECT_LE(after.st_blocks * 512, static_cast<long>(kHeaderBytes + (kChunksPerExtent + 4) * 4096));
  EXPECT_EQ(test::read_trace(opened.file->path()).event_count(), kChunksPerExtent);
}

TEST(ChunkFile, LeavesOpenChunksAlone) {
  TemporaryFolder folder;
  OpenFile opened(folder.path());
  TraceWriter writer;
  writer.open(opened.file->pop(), 1, 1, kChunkHoldsEvents);

  opened.file->sweep();
  while (writer.has_room()) writer.append(Event{});

  EXPECT_EQ(opened.file->mapped_extents(), 1u);
  EXPECT_GT(test::read_trace(opened.file->path()).event_count(), 1000u);
}

}  // namespace
}  // namespace cuheap
