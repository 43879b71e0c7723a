#include "tools/exporters/exporters.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/tools/trace_files.h"
#include "tools/reader/trace_reader.h"

namespace cuheap {
namespace {

template <typename F>
std::string written(F&& write) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const out = ::open_memstream(&text, &size);
  write(out);
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(Exporters, SpeedscopeNamesEachFrameOnceAndSumsToTheTotal) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap");
  const Trace trace = open_trace(folder / "a.cuheap");
  const LiveSites sites = live_at(trace, When{});

  const auto json =
      nlohmann::json::parse(written([&](std::FILE* out) { export_speedscope(trace, sites, "small", out); }));

  EXPECT_EQ(json["shared"]["frames"].size(), 2u);
  EXPECT_EQ(json["profiles"][0]["samples"].size(), 2u);
  EXPECT_EQ(json["profiles"][0]["endValue"], 40003);
  std::uint64_t sum = 0;
  for (const auto& weight : json["profiles"][0]["weights"]) sum += weight.get<std::uint64_t>();
  EXPECT_EQ(sum, 40003u);
}

TEST(Exporters, CsvHasALineAnEvent) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap");
  const Trace trace = open_trace(folder / "a.cuheap");

  const std::string text = written([&](std::FILE* out) { export_csv(trace, out); });

  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
  EXPECT_NE(text.find("100,allocate,framework,tensor,0,1,0,0x7000,20001,0x0,0x0,0,0,,0,<module>;step\n"),
            std::string::npos)
      << text;
}

TEST(Exporters, FoldedStacksAreOutermostFirst) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap");
  const Trace trace = open_trace(folder / "a.cuheap");

  const std::string text = written([&](std::FILE* out) { export_folded(trace, live_at(trace, When{}), out); });

  EXPECT_NE(text.find("<module>;step 20001\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace cuheap
