// Random traffic (tests/programs/traffic.cpp) bare, under the library and pooled: the same answers to every call, no two
// blocks in one place, no byte of one owner with the next. More of it by hand:
//   CUHEAP_TRAFFIC="FIRST COUNT STEPS" build/dev/tests/traffic_test
#include <gtest/gtest.h>

#include "tests/e2e/host.h"

namespace cuheap::testing {
namespace {

struct Seeds {
  unsigned first = 1, count = 50, steps = 300;
};

Seeds seeds_asked_for() {
  Seeds seeds;
  const char* text = std::getenv("CUHEAP_TRAFFIC");
  if (text != nullptr && std::sscanf(text, "%u %u %u", &seeds.first, &seeds.count, &seeds.steps) != 3) {
    ADD_FAILURE() << "CUHEAP_TRAFFIC=\"" << text << "\" is not FIRST COUNT STEPS";
  }
  return seeds;
}

using Environment = std::map<std::string, std::string>;

RunResult run(const std::string& line, const Environment& environment, bool bare) {
  if (bare) {
    Environment whole = bare_environment(line);
    whole["SIMGPU_DEVICES"] = "2x16GiB";
    return run_program({.command = host_command(line), .environment = whole});
  }
  Environment whole = environment;
  whole["SIMGPU_DEVICES"] = "2x16GiB";
  whole["CUHEAP_STACKS"] = "off";
  return Host(line, whole).result;
}

/// The first line that differs, with what came before it.
std::string difference(const std::string& bare, const std::string& other) {
  std::istringstream a(bare), b(other);
  std::string x, y, before;
  while (true) {
    const bool more_a = static_cast<bool>(std::getline(a, x)), more_b = static_cast<bool>(std::getline(b, y));
    if (!more_a && !more_b) return "";
    if (more_a != more_b || x != y) {
      return before + "bare:  " + (more_a ? x : "(ended)") + "\nother: " + (more_b ? y : "(ended)");
    }
    before = x + "\n";
  }
}

class Traffic : public ::testing::TestWithParam<const char*> {};

TEST_P(Traffic, HasTheSameAnswersAndKeepsItsBytes) {
  const Environment kinds[] = {{{"CUHEAP_POOL", "off"}},
                               {{"CUHEAP_POOL", "on"}, {"CUHEAP_CHECK", "1"}},
                               {{"CUHEAP_POOL", "on"}, {"CUHEAP_POOL_FREE", "ordered"}}};
  constexpr unsigned kAtOnce = 10;
  const Seeds seeds = seeds_asked_for();
  for (unsigned first = seeds.first; first < seeds.first + seeds.count; first += kAtOnce) {
    const unsigned count = std::min(kAtOnce, seeds.first + seeds.count - first);
    const std::string line = std::string("traffic ") + GetParam() + " " + std::to_string(first) + " " + std::to_string(count) + " " +
                             std::to_string(seeds.steps);
    const RunResult bare = run(line, {}, true);
    ASSERT_EQ(bare.exit_code, 0) << line << "\n" << bare.errors;
    ASSERT_EQ(bare.output.find("WRONG"), std::string::npos) << line << ": the program itself is wrong";
    for (const Environment& kind : kinds) {
      const RunResult other = run(line, kind, false);
      std::string settings;
      for (const auto& [name, value] : kind) settings += name + "=" + value + " ";

      EXPECT_EQ(difference(bare.output, other.output), "") << settings << line;
      EXPECT_EQ(other.exit_code, 0) << settings << line << ": signal " << other.signal;
      EXPECT_EQ(other.errors.find("CUHEAP_CHECK"), std::string::npos) << settings << line << "\n" << other.errors;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Traffic, ::testing::Values("roomy", "exact", "short"), [](const auto& mode) { return mode.param; });

}  // namespace
}  // namespace cuheap::testing
