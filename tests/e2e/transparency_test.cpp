// The host cannot tell: every program prints the same lines and ends the same way bare, under the library, and pooled.
#include <gtest/gtest.h>

#include "tests/e2e/host.h"

namespace cuheap::testing {
namespace {

class Transparency : public ::testing::TestWithParam<const char*> {};

RunResult run_bare(const std::string& line) {
  return run_program({.command = host_command(line), .environment = bare_environment(line)});
}

void expect_same(const RunResult& bare, const Host& host) {
  EXPECT_EQ(host.result.output, bare.output);
  EXPECT_EQ(host.result.exit_code, bare.exit_code);
  EXPECT_EQ(host.result.signal, bare.signal);
}

TEST_P(Transparency, DirectRunPrintsWhatABareOnePrints) {
  const RunResult bare = run_bare(GetParam());

  expect_same(bare, Host(GetParam(), {{"CUHEAP_POOL", "off"}}));

  EXPECT_EQ(bare.signal, std::string(GetParam()) == "exits kill" ? SIGKILL : 0);
  EXPECT_FALSE(bare.output.empty());
}

TEST_P(Transparency, PooledRunPrintsWhatABareOnePrints) {
  expect_same(run_bare(GetParam()), Host(GetParam(), {{"CUHEAP_POOL", "on"}}));
}

constexpr const char* kHosts[] = {"families",
                                  "vmm",
                                  "look_up",
                                  "lookup_next",
                                  "no_cuda",
                                  "forks before",
                                  "forks after",
                                  "exits return",
                                  "exits now",
                                  "exits quick",
                                  "exits kill",
                                  "exits static",
                                  "threads",
                                  "contexts destroy",
                                  "contexts reset",
                                  "contexts release",
                                  "dead_context destroy",
                                  "dead_context reset",
                                  "dead_context race",
                                  "free_async",
                                  "kept_graphs",
                                  "other_devices late",
                                  "other_devices early",
                                  "refusals",
                                  "memory_info",
                                  "capture",
                                  "attributes",
                                  "peers",
                                  "null",
                                  "capture_ends destroyed",
                                  "capture_ends reset",
                                  "capture_ends refused",
                                  "capture_threads",
                                  "other_contexts context",
                                  "other_contexts async",
                                  "other_contexts peer",
                                  "other_needs handle",
                                  "other_needs graph",
                                  "other_needs context",
                                  "annotated",
                                  "constructor_blocks @libconstructor_blocks_library.so",
                                  "start_child @families",
                                  "tensors @libc10_cuda.so",
                                  "sideways throw",
                                  "sideways longjmp",
                                  "sideways cancel",
                                  "sideways signal"};
INSTANTIATE_TEST_SUITE_P(Every, Transparency, ::testing::ValuesIn(kHosts), [](const auto& parameter) {
  std::string name = parameter.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace cuheap::testing
