#include "tracer/base/message.h"

#include <gtest/gtest.h>
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
