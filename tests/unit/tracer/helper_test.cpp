#include "tracer/helper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "tests/unit/tracer/trace_file.h"
#include "tracer/base/process.h"

namespace cuheap {
namespace {

class HelperTest : public ::testing::Test {
 protected:
  HelperTest() {
    bool about_directory = false;
    EXPECT_TRUE(process::claim());
    EXPECT_EQ(file_->open({folder_.path().c_str(), process::pid(), 0}, &about_directory), 0);
  }
  ~HelperTest() override {
    EXPECT_TRUE(helper_.stop());
    file_->close();
    process::disown();
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<ChunkFile> file_ = std::make_unique<ChunkFile>();
  Helper helper_;
};

// The status file of the thread of that name, or empty.
std::string status_of_thread(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm");
    std::string found;
    std::getline(comm, found);
    if (found != name) continue;
    std::ifstream status(task.path() / "status");
    return {std::istreambuf_iterator<char>(status), {}};
  }
  return {};
}

TEST_F(HelperTest, HasANameAndBlocksEverySignalButOne) {
  ASSERT_EQ(helper_.start(*file_), 0);
  std::string status;
  while (status.empty()) status = status_of_thread("cuheap");

  const std::size_t at = status.find("SigBlk:\t");
  ASSERT_NE(at, std::string::npos);
  const std::uint64_t blocked = std::stoull(status.substr(at + 8, 16), nullptr, 16);
  constexpr std::uint64_t kUnblockable = 1u << (SIGKILL - 1) | 1u << (SIGSTOP - 1) | std::uint64_t{3} << 31;  // 32 and 33 are libc's own
  constexpr std::uint64_t kOfASandbox = std::uint64_t{1} << (SIGSYS - 1);  // blocked, it would end the process
  EXPECT_EQ(blocked | kUnblockable, ~kOfASandbox);
}

TEST_F(HelperTest, LeavesTheSignalMaskOfItsMakerAlone) {
  sigset_t before{}, after{};
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  ASSERT_EQ(helper_.start(*file_), 0);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < NSIG; ++signal) EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
}

TEST_F(HelperTest, RefillsTheStock) {
  ASSERT_EQ(helper_.start(*file_), 0);
  for (int i = 0; i < 2000; ++i) {
    ChunkHeader* chunk = nullptr;
    while ((chunk = file_->pop()) == nullptr) std::this_thread::yield();
    ASSERT_EQ(chunk->magic, kChunkMagic);
  }
}

// Unwoken, it would sleep on for nearly the 50 ms of an idle helper's nap, each time. On a busy machine one time may be slow.
TEST_F(HelperTest, IsWokenFromItsNapWhenTheStockIsLow) {
  using Clock = std::chrono::steady_clock;
  static std::atomic<int> naps;
  ASSERT_TRUE(helper_.add_task([] { ++naps; }, 1));
  ASSERT_EQ(helper_.start(*file_), 0);
  auto fastest = Clock::duration::max();
  for (int i = 0; i < 5 && fastest > std::chrono::milliseconds(25); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(250));  // idle for so long, it takes its longest naps
    const int before = naps;
    while (naps == before) std::this_thread::yield();
    const auto begin = Clock::now();
    while (!file_->is_low()) ASSERT_NE(file_->pop(), nullptr);
    const std::size_t low = file_->stock_size();
    helper_.wake();
    while (file_->stock_size() <= low) std::this_thread::yield();
    fastest = std::min(fastest, Clock::now() - begin);
  }
  EXPECT_LT(fastest, std::chrono::milliseconds(25));
}

TEST_F(HelperTest, RunsTasks) {
  static std::atomic<int> runs;
  runs = 0;
  ASSERT_TRUE(helper_.add_task([] { ++runs; }, 1'000'000));
  ASSERT_EQ(helper_.start(*file_), 0);
  while (runs < 5) std::this_thread::yield();
  ASSERT_TRUE(helper_.stop());
  const int at_end = runs;
  EXPECT_FALSE(helper_.is_running());
  EXPECT_EQ(runs, at_end);
}

}  // namespace
}  // namespace cuheap
