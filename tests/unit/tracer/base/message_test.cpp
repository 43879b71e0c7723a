#include "tracer/base/message.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace cuheap {
namespace {

// What `say` writes to fd 2.
template <typename Say>
std::string said_by(Say&& say) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const int kept = dup(2);
  dup2(ends[1], 2);
  say();
  dup2(kept, 2);
  close(kept);
  close(ends[1]);
  char text[2048];
  const ssize_t size = read(ends[0], text, sizeof(text));
  close(ends[0]);
  return {text, static_cast<std::size_t>(size)};
}

// Says a line while `descriptor` is fd 2. A call that blocks ends the test.
void say_to(int descriptor) {
  const int kept = dup(2);
  dup2(descriptor, 2);
  alarm(20);
  MessageLine().text("to nobody").send();
  alarm(0);
  dup2(kept, 2);
  close(kept);
}

bool is_pending(int signal) {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, signal) == 1;
}

TEST(MessageLine, WritesOneLineWithThePrefix) {
  EXPECT_EQ(said_by([] { MessageLine().text("n=").number(0).text(" m=").number(18446744073709551615u).send(); }),
            "cuheap: n=0 m=18446744073709551615\n");
}

TEST(MessageLine, CutsWhatIsTooLong) {
  const std::string line = said_by([] { MessageLine().text(std::string(5000, 'x').c_str()).text("y").send(); });
  EXPECT_EQ(line.size(), 8u + 480 + 1);
  EXPECT_EQ(line.back(), '\n');
}

TEST(MessageLine, PrintsSizesInBinaryUnits) {
  EXPECT_EQ(said_by([] { MessageLine().bytes(1023).text(" ").bytes(1536).text(" ").bytes(std::uint64_t{80} << 30).send(); }),
            "cuheap: 1023 B 1.5 KiB 80 GiB\n");
}

TEST(MessageLine, IsDroppedWhenItsReaderIsGone) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  say_to(ends[1]);  // SIGPIPE would end the test
  close(ends[1]);
  EXPECT_FALSE(is_pending(SIGPIPE));
}

TEST(MessageLine, IsDroppedWhereItWouldBlock) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  const char zeros[4096] = {};
  while (write(ends[1], zeros, sizeof(zeros)) > 0) {}
  fcntl(ends[1], F_SETFL, 0);
  say_to(ends[1]);
  close(ends[0]);
  close(ends[1]);
}

TEST(MessageLine, IsDroppedAtTheLimitOfFileSizes) {
  char path[] = "/tmp/cuheap-message-XXXXXX";
  const int file = mkstemp(path);
  unlink(path);
  ASSERT_EQ(write(file, "0123456789", 10), 10);
  rlimit before, small;
  getrlimit(RLIMIT_FSIZE, &before);
  small = before;
  small.rlim_cur = 10;
  setrlimit(RLIMIT_FSIZE, &small);
  say_to(file);  // SIGXFSZ would end the test
  setrlimit(RLIMIT_FSIZE, &before);
  struct stat status;
  fstat(file, &status);
  EXPECT_EQ(status.st_size, 10);
  EXPECT_FALSE(is_pending(SIGXFSZ));
  close(file);
}

TEST(Message, IsSaidOnce) {
  EXPECT_NE(said_by([] { message::stacks_turned_off(); }), "");
  const std::string second = said_by([] {
    message::stacks_turned_off();
    MessageLine().text("end").send();
  });
  EXPECT_EQ(second, "cuheap: end\n");
}

TEST(Message, KeepsErrno) {
  const int kept = dup(2);
  close(2);  // so that writing fails
  errno = EDOM;
  message::trace_stopped("/x", ENOSPC);
  const int after = errno;
  dup2(kept, 2);
  close(kept);
  EXPECT_EQ(after, EDOM);
}

}  // namespace
}  // namespace cuheap
