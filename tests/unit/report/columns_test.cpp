#include "tools/report/columns.h"

#include <gtest/gtest.h>

namespace cuheap {
namespace {

TEST(PageSection, DescribesItsColumnsByOffsetAndCount) {
  PageSection section("numbers");
  section.add_uint("small", std::vector<std::uint64_t>{1, 127, 128});
  section.add_delta("rising", std::vector<std::int64_t>{5, 7, 3});

  const nlohmann::json description = section.description();

  EXPECT_EQ(description["bytes"], 7);
  EXPECT_EQ(description["columns"][0], (nlohmann::json{{"name", "small"}, {"code", "uint"}, {"offset", 0}, {"count", 3}}));
  EXPECT_EQ(description["columns"][1], (nlohmann::json{{"name", "rising"}, {"code", "delta"}, {"offset", 4}, {"count", 3}}));
}

TEST(PageSection, CutsATextAtAZeroByte) {
  PageSection section("texts");
  section.add_text("text", std::vector<std::string>{std::string("a\0b", 3), "c"});

  EXPECT_EQ(section.description()["bytes"], 4);
}

TEST(Base64, PadsAsTheStandardSays) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("\xff\xff\xfe"), "///+");
}

}  // namespace
}  // namespace cuheap
