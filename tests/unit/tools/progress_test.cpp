#include "tools/commands/progress.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/unit/tools/trace_files.h"

namespace cuheap {
namespace {

using namespace std::chrono_literals;

/// A stream that can be read back.
class Screen {
 public:
  Screen() : file_(std::tmpfile()) {}
  ~Screen() { std::fclose(file_); }
  std::FILE* file() { return file_; }
  std::string text() {
    std::string result;
    std::rewind(file_);
    for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_)) result += static_cast<char>(c);
    return result;
  }

 private:
  std::FILE* file_;
};

/// Reads all events, and dawdles.
void pass_over(const Trace& trace) {
  trace.events->for_each([](std::span<const Event>) { std::this_thread::sleep_for(50ms); });
}

TEST(Progress, ShowsWhatTakesLongAndWipesItsLine) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap");
  Screen screen;
  Progress progress({screen.file(), true, 1ms, 1ms});
  const Trace trace = progress.open(folder / "a.cuheap");
  pass_over(trace);
  pass_over(trace);
  progress.end();
  const std::string text = screen.text();
  EXPECT_NE(text.find("reading a.cuheap, pass 1 of its 4 events"), std::string::npos) << text;
  EXPECT_NE(text.find("pass 2 of its 4 events"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\r\x1b[K")) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  pass_over(trace);  // the trace outlives it, and nothing is shown any more
  EXPECT_EQ(screen.text(), text);
}

TEST(Progress, IsSilentWhereNobodyLooks) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap");
  Screen screen;
  Progress progress({screen.file(), false, 0ms, 1ms});
  pass_over(progress.open(folder / "a.cuheap"));
  progress.end();
  EXPECT_EQ(screen.text(), "");
}

TEST(Progress, IsSilentAboutWhatIsQuick) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap");
  Screen screen;
  Progress progress({screen.file(), true, 1h, 1ms});
  const Trace trace = progress.open(folder / "a.cuheap");
  EXPECT_EQ(events_of(trace).size(), 4u);
  progress.end();
  EXPECT_EQ(screen.text(), "");
}

}  // namespace
}  // namespace cuheap
