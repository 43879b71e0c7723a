// Every prefix of a golden file opens; every flipped byte of it is survived.
#include <gtest/gtest.h>

#include "tests/unit/tools/trace_files.h"
#include "tools/model/error.h"
#include "tools/reader/trace_reader.h"

namespace cuheap {
namespace {

std::vector<std::string> golden_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(CUHEAP_GOLDEN)) {
    if (entry.path().extension() == kTraceExtension) files.push_back(entry.path().string());
  }
  return files;
}

TEST(GoldenFiles, AreThere) {
  EXPECT_GE(golden_files().size(), 2u);
}

TEST(GoldenFiles, OpenAtEveryPrefix) {
  TestFolder folder;
  for (const std::string& golden : golden_files()) {
    std::filesystem::copy_file(golden, folder / "a.cuheap", std::filesystem::copy_options::overwrite_existing);
    std::size_t most = events_of(open_trace(golden)).size();
    for (std::size_t size = std::filesystem::file_size(golden); size-- > 0;) {
      std::filesystem::resize_file(folder / "a.cuheap", size);
      const std::size_t events = events_of(open_trace(folder / "a.cuheap")).size();
      ASSERT_LE(events, most) << golden << " cut to " << size;
      most = events;
    }
    EXPECT_EQ(most, 0u);
  }
}

TEST(GoldenFiles, SurviveEveryFlippedByte) {
  TestFolder folder;
  for (const std::string& golden : golden_files()) {
    const std::vector<char> good = bytes_of(golden);
    store_bytes(folder / "a.cuheap", good);
    std::fstream file(folder / "a.cuheap", std::ios::binary | std::ios::in | std::ios::out);
    const auto patch = [&](std::size_t at, char byte) {
      file.seekp(static_cast<std::streamoff>(at));
      file.put(byte);
      file.flush();
    };
    std::size_t opened = 0;
    for (std::size_t at = 0; at < good.size(); ++at) {
      patch(at, static_cast<char>(~good[at]));
      try {
        const Trace trace = open_trace(folder / "a.cuheap");
        for (const Event& event : events_of(trace)) ASSERT_LT(event.site, trace.sites.size());
        ++opened;
      } catch (const Error&) { ASSERT_LT(at, sizeof(FileHeader)); }
      patch(at, good[at]);
    }
    EXPECT_GT(opened, good.size() - sizeof(FileHeader));
  }
}

}  // namespace
}  // namespace cuheap
