// The host cannot tell: every program prints the same lines and ends the same way bare, under the library, and pooled.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/e2e/host.h"

namespace cuheap::testing {
namespace {

class Transparency : public ::testing::TestWithParam<std::string> {};

RunResult run_bare(const std::string& line) {
  return run_program({.command = host_command(line), .environment = bare_environment(line)});
}

/// How the program is written to end. One that fails on its own says nothing when it fails three times alike.
void expect_ended_as_written(const std::string& line, const RunResult& bare) {
  const bool killed = line == "exits kill";
  const int code = killed ? -1 : line == "exits now" ? 3 : line == "exits quick" ? 4 : line.starts_with("exits ") ? 5 : 0;
  EXPECT_EQ(bare.signal, killed ? SIGKILL : 0) << bare.output << bare.errors;
  EXPECT_EQ(bare.exit_code, code) << bare.output << bare.errors;
  EXPECT_FALSE(bare.output.empty());
}

void expect_same(const RunResult& bare, const Host& host) {
  EXPECT_EQ(host.result.output, bare.output);
  EXPECT_EQ(host.result.exit_code, bare.exit_code);
  EXPECT_EQ(host.result.signal, bare.signal);
}

TEST_P(Transparency, DirectRunPrintsWhatABareOnePrints) {
  const RunResult bare = run_bare(GetParam());

  expect_same(bare, Host(GetParam(), {{"CUHEAP_POOL", "off"}}));

  expect_ended_as_written(GetParam(), bare);
}

TEST_P(Transparency, PooledRunPrintsWhatABareOnePrints) {
  const RunResult bare = run_bare(GetParam());

  expect_same(bare, Host(GetParam(), {{"CUHEAP_POOL", "on"}}));

  expect_ended_as_written(GetParam(), bare);
}

// Not pooled: there cuIpcGetMemHandle is refused and says so (docs/pool.md).
TEST(Direct, SharesMemoryWithAnotherProcess) {
  const RunResult bare = run_bare("ipc");

  expect_same(bare, Host("ipc", {{"CUHEAP_POOL", "off"}}));

  expect_ended_as_written("ipc", bare);
}

// With something to say: an option that it cannot read.
TEST(Messages, DoNotGoIntoAFileOfTheHosts) {
  const RunResult bare = run_bare("own_stderr");

  expect_same(bare, Host("own_stderr", {{"CUHEAP_POOL", "off"}, {"CUHEAP_STACKS", "neither"}}));

  expect_ended_as_written("own_stderr", bare);
  EXPECT_NE(bare.output.find("file 2\nc"), std::string::npos) << bare.output;
  const Host heard("families", {{"CUHEAP_POOL", "off"}, {"CUHEAP_STACKS", "neither"}});
  EXPECT_NE(heard.result.errors.find("CUHEAP_STACKS=neither is ignored"), std::string::npos) << heard.result.errors;
}

// Another preloaded library may stand before dlsym too: whoever comes first asks the next one.
TEST(Preloads, StandBehindEachOther) {
  const std::string outer = CUHEAP_PROGRAMS "/libouter_lookup.so", ours = CUHEAP_LIBRARY;
  std::map<std::string, std::string> environment = bare_environment("look_up");
  environment["LD_PRELOAD"] = outer;
  const RunResult bare = run_program({.command = host_command("look_up"), .environment = environment});
  ASSERT_NE(bare.output.find("seen outside 1\n"), std::string::npos) << bare.output;

  Host before("look_up", {{"CUHEAP_POOL", "on"}, {"LD_PRELOAD", ours + ":" + outer}});
  expect_same(bare, before);
  EXPECT_EQ(before.allocation(20010).family, Family::Device);
  expect_same(bare, Host("look_up", {{"CUHEAP_POOL", "on"}, {"LD_PRELOAD", outer + ":" + ours}}));
}

std::vector<std::string> hosts() {
  std::ifstream file(CUHEAP_HOSTS);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  if (lines.empty()) std::abort();  // a suite without a host would be green
  return lines;
}

INSTANTIATE_TEST_SUITE_P(Every, Transparency, ::testing::ValuesIn(hosts()), [](const auto& parameter) {
  std::string name = parameter.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace cuheap::testing
