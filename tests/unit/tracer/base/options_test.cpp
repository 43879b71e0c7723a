#include "tracer/base/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

namespace cuheap {
namespace {

Options options_of(std::vector<const char*> environment) {
  environment.push_back(nullptr);
  Options options;
  read_options(options, environment.data());
  return options;
}

TEST(Options, HaveTheirDefaults) {
  const Options options = options_of({"PATH=/bin", "XCUHEAP_DIR=/no"});
  EXPECT_STREQ(options.dir.value, "cuheap-run");
  EXPECT_EQ(options.stacks, Stacks::Native);
  EXPECT_EQ(options.pool, PoolMode::Auto);
  EXPECT_EQ(options.pool_free, PoolFree::Sync);
  EXPECT_EQ(options.max_size, 0u);
  EXPECT_FALSE(options.zero);
}

TEST(Options, ReadEveryType) {
  const Options options = options_of({"CUHEAP_DIR=/tmp/run dir", "CUHEAP_STACKS=off", "CUHEAP_POOL=on", "CUHEAP_POOL_FREE=ordered",
                                      "CUHEAP_MAX_SIZE=10GiB", "CUHEAP_CHECK=1", "CUHEAP_POISON=yes", "CUHEAP_VERBOSE=2"});
  EXPECT_STREQ(options.dir.value, "/tmp/run dir");
  EXPECT_EQ(options.stacks, Stacks::Off);
  EXPECT_EQ(options.pool, PoolMode::On);
  EXPECT_EQ(options.pool_free, PoolFree::Ordered);
  EXPECT_EQ(options.max_size, std::uint64_t{10} << 30);
  EXPECT_TRUE(options.check);
  EXPECT_TRUE(options.poison);
  EXPECT_EQ(options.verbose, 2u);
}

TEST(Options, KeepTheDefaultWhereAValueIsWrong) {
  const std::string too_long = "CUHEAP_DIR=" + std::string(2000, 'x');
  testing::internal::CaptureStderr();
  const Options options = options_of({"CUHEAP_POOL=sometimes", "CUHEAP_MAX_SIZE=-1", "CUHEAP_ZERO=2", too_long.c_str(), "CUHEAP_STACKS="});
  fflush(stderr);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(options.pool, PoolMode::Auto);
  EXPECT_EQ(options.max_size, 0u);
  EXPECT_FALSE(options.zero);
  EXPECT_STREQ(options.dir.value, "cuheap-run");
  EXPECT_EQ(options.stacks, Stacks::Native);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 4);
  EXPECT_NE(said.find("cuheap: CUHEAP_POOL=sometimes is ignored: expected auto, on or off"), std::string::npos);
}

TEST(Options, ParseSizes) {
  const auto size = [](const char* text) {
    std::uint64_t value = 0;
    return parse_size(text, &value) ? static_cast<std::int64_t>(value) : -1;
  };
  EXPECT_EQ(size("0"), 0);
  EXPECT_EQ(size("512"), 512);
  EXPECT_EQ(size("4K"), 4096);
  EXPECT_EQ(size("3MiB"), 3 << 20);
  EXPECT_EQ(size("2GB"), std::int64_t{2} << 30);
  EXPECT_EQ(size("1TiB"), std::int64_t{1} << 40);
  for (const char* const wrong : {"", "K", "1.5G", "-1", " 1", "1X", "1KiBs", "99999999999999999999", "99999999999999TiB"})
    EXPECT_EQ(size(wrong), -1) << wrong;
}

TEST(Options, NameThoseThatAreSet) {
  std::vector<std::string> set;
  const Options options = options_of({"CUHEAP_POOL=off", "CUHEAP_MAX_SIZE=4K"});
  for_each_set_option(
      options,
      [](const char* name, const char* value, void* out) {
        static_cast<std::vector<std::string>*>(out)->push_back(std::string(name) + "=" + value);
      },
      &set);
  EXPECT_EQ(set, (std::vector<std::string>{"CUHEAP_POOL=off", "CUHEAP_MAX_SIZE=4096"}));
}

}  // namespace
}  // namespace cuheap
