// What the tiny hosts leave in their traces.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/e2e/host.h"

namespace cuheap::testing {
namespace {

void expect_lived(Host& host, std::uint64_t size, Family family) {
  const Event allocation = host.allocation(size);
  EXPECT_EQ(allocation.family, family) << size;
  EXPECT_TRUE(host.is_freed(allocation)) << size;
  EXPECT_TRUE(host.has_frame(allocation.site, "main")) << size;
}

void expect_whole(Host& host) {
  EXPECT_EQ(host.trace().lost_events(), 0u) << (host.trace().loss_reasons().empty() ? "" : host.trace().loss_reasons()[0]);
  EXPECT_TRUE(host.trace().damage.empty());
  EXPECT_EQ(host.result.errors, "");
}

TEST(Preload, RecordsEveryFamilyWithItsStack) {
  Host host("families");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  expect_whole(host);
  expect_lived(host, 20001, Family::Device);
  expect_lived(host, 20003, Family::Managed);
  expect_lived(host, 20004, Family::Pinned);
  expect_lived(host, 20005, Family::Pinned);
  expect_lived(host, 20006, Family::Registered);
  expect_lived(host, 20007, Family::AsyncPool);
  expect_lived(host, 20008, Family::AsyncPool);
  expect_lived(host, 100 * 50 * 4, Family::Array);
  expect_lived(host, 10 * 20 * 30 * 2 * 2, Family::Array);
}

TEST(Preload, CountsAPitchedAllocationByItsPitch) {
  Host host("families");

  std::vector<Event> all = host.events(EventKind::Allocate);
  std::erase_if(all, [](const Event& event) { return event.family != Family::Pitch; });
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].size % 20, 0u);
  EXPECT_GE(all[0].size, 20000u);
}

TEST(Preload, PutsHostMemoryOnNoDevice) {
  Host host("families");

  EXPECT_EQ(host.allocation(20001).device, 0);
  EXPECT_EQ(host.allocation(20004).device, -1);
  EXPECT_EQ(host.allocation(20006).device, -1);
}

TEST(Preload, DescribesDeviceAndGround) {
  Host host("families");

  ASSERT_EQ(host.trace().devices.size(), 1u);
  EXPECT_EQ(host.trace().devices[0].total_bytes, std::uint64_t{8} << 30);
  EXPECT_EQ(host.trace().ground, Ground::Simulated);
  EXPECT_TRUE(host.trace().processes[0].ended_orderly);
  EXPECT_TRUE(host.trace().processes[0].meta.contains("driver"));
}

TEST(Preload, NamesTheFunctionThatAllocated) {
  Host host("families");

  const std::vector<Frame> stack = host.trace().stack(host.allocation(20007).site);
  ASSERT_FALSE(stack.empty());
  EXPECT_NE(stack[0].function.find("stream_ordered"), std::string::npos) << stack[0].function;
}

TEST(Preload, KeepsAReleasedHandleAliveWhileItIsMapped) {
  Host host("vmm");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  expect_whole(host);
  const std::vector<Event> made = host.events(EventKind::Allocate), ended = host.events(EventKind::Free);
  const std::vector<Event> unmapped = host.events(EventKind::Unmap);
  ASSERT_EQ(made.size(), 2u);
  ASSERT_EQ(ended.size(), 2u);
  ASSERT_EQ(unmapped.size(), 1u);
  EXPECT_EQ(made[0].floor, Floor::Physical);
  EXPECT_EQ(made[0].family, Family::Handle);
  EXPECT_EQ(ended[0].address, made[0].address);
  EXPECT_GE(ended[0].time_ns, unmapped[0].time_ns);
  EXPECT_EQ(host.events(EventKind::Map).size(), 2u);
  EXPECT_EQ(host.events(EventKind::Reserve).size(), 1u);
  EXPECT_EQ(host.events(EventKind::Unreserve).size(), 1u);
}

TEST(Preload, NamesTheDeviceThatHadNoMemoryAndNotTheCurrentOne) {
  Host host("other_needs handle");

  const std::vector<Event> refused = host.events(EventKind::OutOfMemory);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].device, 1);
}

// Bare, the address comes again at once, so this is for the pool alone: it keeps what an executable graph knows.
TEST(Preload, PoolKeepsWhatAChildGraphKnows) {
  Host host("child_graphs", {{"CUHEAP_POOL", "on"}});

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  const std::string& output = host.result.output;
  EXPECT_EQ(output.find("another's now 1"), std::string::npos) << output;
  EXPECT_NE(output.find("another's now 0"), output.rfind("another's now 0")) << output;
}

TEST(Preload, RecordsAContextsEndBeforeWhatFollowsFromIt) {
  Host host("contexts destroy", {{"CUHEAP_POOL", "on"}});

  std::vector<Event> ends = host.events(EventKind::ContextEnd), given_back = host.events(EventKind::Free);
  std::erase_if(given_back, [](const Event& event) { return event.family != Family::PoolGranule; });
  ASSERT_FALSE(ends.empty());
  ASSERT_FALSE(given_back.empty());
  EXPECT_LT(ends[0].time_ns, given_back[0].time_ns);
}

TEST(Preload, SeesEveryWayToReachTheDriver) {
  Host host("look_up");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  expect_whole(host);
  for (std::uint64_t size : {20010, 20011, 20012, 20013, 20015, 20016}) expect_lived(host, size, Family::Device);
  expect_lived(host, 20014, Family::AsyncPool);
  EXPECT_EQ(host.allocation(20014).stream, 2u);  // the thread's own default stream
}

// NVIDIA's own runtime asks for some 440 functions at its first call, for both meanings of stream 0.
TEST(Preload, IsWhatTheRealRuntimeFinds) {
  if (!std::filesystem::exists(CUHEAP_REAL_RUNTIME)) GTEST_SKIP() << "no " CUHEAP_REAL_RUNTIME;
  const std::string line = "real_runtime " CUHEAP_REAL_RUNTIME;
  const RunResult bare = run_program({.command = host_command(line), .environment = bare_environment(line)});
  Host host(line);

  ASSERT_EQ(bare.exit_code, 0) << bare.output << bare.errors;
  ASSERT_EQ(host.result.exit_code, 0) << host.result.output << host.result.errors;
  EXPECT_NE(host.result.output.find("\ndriver functions 0\n"), std::string::npos) << host.result.output;
  const auto number = [](const std::string& text, const char* label) {
    return std::atoi(text.c_str() + text.find(label) + std::strlen(label));
  };
  EXPECT_GT(number(bare.output, "driver functions "), 50) << bare.output;
  EXPECT_EQ(number(host.result.output, "hooks "), number(bare.output, "driver functions "));
}

TEST(Preload, LeavesNoFileWithoutCuda) {
  Host host("no_cuda");

  EXPECT_EQ(host.result.exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(host.directory()));
  EXPECT_NE(host.result.output.find("threads 1\n"), std::string::npos) << host.result.output;
}

TEST(Preload, RecordsAChildThatWasForkedBeforeCuda) {
  Host host("forks before");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  ASSERT_EQ(host.traces(), 2u);
  expect_whole(host);
  expect_lived(host, 20031, Family::Device);
  expect_lived(host, 20033, Family::Device);
  EXPECT_NE(host.allocation(20031).process, host.allocation(20033).process);
}

TEST(Preload, IsSilentInAChildThatWasForkedAfterCuda) {
  Host host("forks after");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  ASSERT_EQ(host.traces(), 1u);
  expect_whole(host);
  EXPECT_EQ(host.allocation(20030).family, Family::Device);
  EXPECT_EQ(host.allocation(20032).family, Family::None);
  expect_lived(host, 20033, Family::Device);
}

TEST(Preload, RecordsAProgramStartedByVforkAndExec) {
  Host host("start_child @families");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  ASSERT_EQ(host.traces(), 2u);
  expect_lived(host, 20120, Family::Device);
  expect_lived(host, 20001, Family::Device);
}

class Exits : public ::testing::TestWithParam<const char*> {};

TEST_P(Exits, LosesNothingThatHadHappened) {
  Host host(std::string("exits ") + GetParam());

  ASSERT_EQ(host.traces(), 1u) << host.result.errors;
  EXPECT_EQ(host.allocation(20040).family, Family::Device);
  EXPECT_FALSE(host.is_freed(host.allocation(20040)));
}
INSTANTIATE_TEST_SUITE_P(Every, Exits, ::testing::Values("return", "now", "quick", "kill", "static"),
                         [](const auto& parameter) { return std::string(parameter.param); });

TEST(Preload, SeesAFreeInAStaticDestructor) {
  Host host("exits static");

  expect_lived(host, 20041, Family::Device);
}

TEST(Preload, LosesNothingOfManyShortThreads) {
  Host host("short_threads 20000");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  expect_whole(host);
  EXPECT_EQ(host.events(EventKind::Allocate).size(), host.events(EventKind::Free).size());
  std::size_t seen = 0;
  std::uint64_t bytes = 0;
  for (const Event& event : host.events(EventKind::Allocate)) seen += event.size == 20160;
  for (const auto& entry : std::filesystem::directory_iterator(host.directory())) bytes += entry.file_size();
  EXPECT_EQ(seen, 20'000u);
  // A thread that starts before the one before it is known to be gone takes a chunk of its own; how many do is chance.
  EXPECT_LE(bytes, std::uint64_t{64} << 20) << "one chunk each would be 1250 MiB";
}

TEST(Preload, CountsEveryEventOfEveryThread) {
  Host host("threads");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  expect_whole(host);
  EXPECT_EQ(host.events(EventKind::Allocate).size(), 2000u);
  EXPECT_EQ(host.events(EventKind::Free).size(), 2000u);
}

TEST(Preload, EndsTheBlocksOfADestroyedContext) {
  Host host("contexts destroy");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  const std::vector<Event> ends = host.events(EventKind::ContextEnd);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].context, host.allocation(20072).context);
  // The dead block's free is refused by the driver, and recorded so.
  EXPECT_EQ(host.fate(host.allocation(20073), EventKind::FreeFailed).kind, EventKind::FreeFailed);
  expect_lived(host, 20074, Family::Device);
}

TEST(Preload, TellsTheContextBeforeAResetFromTheOneAfter) {
  Host host("contexts reset");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  const std::vector<Event> ends = host.events(EventKind::ContextEnd);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_LT(host.allocation(20070).time_ns, ends[0].time_ns);
  EXPECT_LT(ends[0].time_ns, host.allocation(20071).time_ns);
  expect_lived(host, 20071, Family::Device);
}

TEST(Preload, EndsThePrimaryContextWithItsLastHolder) {
  Host host("contexts release");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  const std::vector<Event> ends = host.events(EventKind::ContextEnd);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_LT(host.allocation(20076).time_ns, ends[0].time_ns);
  EXPECT_LT(ends[0].time_ns, host.allocation(20077).time_ns);
}

TEST(Preload, RecordsWhatTheDriverRefused) {
  Host host("refusals");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  const std::vector<Event> out_of_memory = host.events(EventKind::OutOfMemory);
  ASSERT_EQ(out_of_memory.size(), 1u);
  EXPECT_EQ(out_of_memory[0].size, std::uint64_t{1} << 46);
  EXPECT_TRUE(host.has_frame(out_of_memory[0].site, "main"));
  EXPECT_EQ(host.events(EventKind::AllocateFailed).size(), 2u);  // zero bytes, no context
  EXPECT_EQ(host.events(EventKind::FreeFailed).size(), 4u);      // inner, double, foreign, host
}

TEST(Preload, SamplesMemoryInfo) {
  Host host("memory_info");

  // Three times the host asked with both out-parameters; once we asked, at the first allocation.
  const std::vector<Event> samples = host.events(EventKind::MemoryInfo);
  ASSERT_EQ(samples.size(), 4u);
  EXPECT_EQ(samples[0].extra0, std::uint64_t{8} << 30);
  EXPECT_EQ(samples[0].size - samples[1].size, std::uint64_t{64} << 20);
  EXPECT_EQ(samples[1].size, samples[2].size);
  EXPECT_EQ(samples[0].size, samples[3].size);
}

/// Bytes of the pool's granules when that event happened.
std::uint64_t granules_at(Host& host, const Event& when) {
  std::uint64_t held = 0;
  std::map<std::uint64_t, std::uint64_t> sizes;
  for (const Event& event : host.events()) {
    if (event.family != Family::PoolGranule || event.time_ns > when.time_ns) continue;
    if (event.kind == EventKind::Allocate) held += sizes[event.address] = event.size;
    if (event.kind == EventKind::Free) held -= sizes[event.address];
  }
  return held;
}

TEST(Preload, TracesTheDriversFreeMemoryAndNotWhatThePoolWouldGive) {
  Host host("memory_info", {{"CUHEAP_POOL", "on"}});

  const std::vector<Event> samples = host.events(EventKind::MemoryInfo);
  ASSERT_GE(samples.size(), 3u);
  EXPECT_GT(granules_at(host, samples[2]), 0u);
  for (const Event& sample : samples) {
    EXPECT_EQ(sample.size + granules_at(host, sample), samples[0].size + granules_at(host, samples[0]));
  }
}

TEST(Preload, TellsGraphMemoryFromMemory) {
  Host host("capture");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  EXPECT_EQ(host.allocation(20090).family, Family::Graph);
  EXPECT_EQ(host.allocation(20091).family, Family::Device);
  EXPECT_NE(host.allocation(20091).flags & kEventCapturing, 0);
  EXPECT_EQ(host.allocation(20093).flags & kEventCapturing, 0);
  EXPECT_EQ(host.events(EventKind::CaptureBegin).size(), 2u);
  EXPECT_EQ(host.events(EventKind::CaptureEnd).size(), 2u);
}

TEST(Preload, PutsEventsIntoTheirPhases) {
  Host host("annotated");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  const auto phase = [&host](std::uint64_t size) { return host.trace().names.at(host.allocation(size).phase); };
  EXPECT_EQ(phase(20100), "load");
  EXPECT_EQ(phase(20101), "inner");
  EXPECT_EQ(phase(20102), "load");
  EXPECT_EQ(host.events(EventKind::PhaseBegin).size(), 2u);
  EXPECT_EQ(host.events(EventKind::PhaseEnd).size(), 2u);
  ASSERT_EQ(host.events(EventKind::Mark).size(), 1u);
  EXPECT_EQ(host.trace().names.at(host.events(EventKind::Mark)[0].extra0), "step");
  EXPECT_EQ(host.allocation(20103).floor, Floor::Framework);
  EXPECT_TRUE(host.has_frame(host.allocation(20103).site, "main"));
  EXPECT_TRUE(host.is_freed(host.allocation(20103)));
}

TEST(Preload, DoesNotWaitForTheLoaderInAHook) {
  Host host("constructor_blocks @libconstructor_blocks_library.so");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors << " signal " << host.result.signal;
  expect_lived(host, 20111, Family::Device);
}

TEST(Preload, DoesNotWaitForTheLoaderWhenCudaIsInitialised) {
  Host host("constructor_starts @libconstructor_starts_library.so");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors << " signal " << host.result.signal;
  expect_lived(host, 20290, Family::Device);
}

TEST(Preload, HearsTheThreadAfterACallWasLeftSideways) {
  for (const char* how : {"throw", "longjmp", "cancel"}) {
    Host host(std::string("sideways ") + how);

    ASSERT_EQ(host.result.exit_code, 0) << how << host.result.errors;
    EXPECT_EQ(host.allocation(20135).family, Family::Device) << how;
  }
}

TEST(Preload, CountsWhatASignalHandlerDidInsideOurWork) {
  Host host("sideways signal");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors << " signal " << host.result.signal;
  const std::vector<Event> made = host.events(EventKind::Allocate);
  const auto handled = std::count_if(made.begin(), made.end(), [](const Event& event) { return event.size == 20133; });
  const std::uint64_t lost = host.trace().processes[0].lost_events[static_cast<std::size_t>(LossReason::Reentered)];
  EXPECT_GE(static_cast<std::uint64_t>(handled) + lost, 200u);
}

TEST(Preload, HearsTheFrameworkFloor) {
  Host host("tensors @libc10_cuda.so");

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  expect_whole(host);
  EXPECT_NE(host.result.output.find("reports 8\n"), std::string::npos) << host.result.output;
  for (std::uint64_t size : {20140, 20141, 20142, 20144}) {
    EXPECT_EQ(host.allocation(size).floor, Floor::Framework) << size;
    EXPECT_EQ(host.allocation(size).family, Family::Tensor) << size;
    EXPECT_TRUE(host.has_frame(host.allocation(size).site, "run_tensors")) << size;
  }
  EXPECT_EQ(host.allocation(20142).device, 1);
  EXPECT_EQ(host.allocation(64).kind, EventKind::None);  // a CPU tensor
  EXPECT_TRUE(host.is_freed(host.allocation(20140)));
  EXPECT_FALSE(host.is_freed(host.allocation(20141)));
  EXPECT_EQ(host.events(EventKind::OutOfMemory).size(), 2u);
  ASSERT_EQ(host.events(EventKind::Totals).size(), 3u);
  EXPECT_EQ(host.events(EventKind::Totals)[1].extra1, std::uint64_t{22} << 20);
}

TEST(Preload, SaysWhichBlocksThePoolServed) {
  Host host("families", {{"CUHEAP_POOL", "on"}});

  ASSERT_EQ(host.result.exit_code, 0) << host.result.errors;
  expect_whole(host);
  expect_lived(host, 20001, Family::Device);
  EXPECT_NE(host.allocation(20001).flags & kEventPooled, 0);
  EXPECT_EQ(host.allocation(20003).flags & kEventPooled, 0);  // managed memory is the driver's
  std::vector<Event> granules = host.events(EventKind::Allocate);
  std::erase_if(granules, [](const Event& event) { return event.family != Family::PoolGranule; });
  ASSERT_FALSE(granules.empty());
  EXPECT_EQ(granules[0].floor, Floor::Physical);
}

TEST(Preload, PoolsOnItsOwnOnTheMakeBelieveGpu) {
  Host host("families", {{"CUHEAP_POOL", "auto"}});

  EXPECT_NE(host.allocation(20001).flags & kEventPooled, 0);
}

TEST(Preload, RunsTheHostWhenItCannotRecord) {
  Host host("families", {{"CUHEAP_DIR", "/proc/no/such/folder"}, {"CUHEAP_POOL", "off"}});
  const RunResult bare = run_program({.command = host_command("families"), .environment = bare_environment("families")});

  EXPECT_EQ(host.result.exit_code, 0);
  EXPECT_EQ(host.result.output, bare.output);
  EXPECT_EQ(std::count(host.result.errors.begin(), host.result.errors.end(), '\n'), 1) << host.result.errors;
  EXPECT_NE(host.result.errors.find("/proc/no/such/folder"), std::string::npos) << host.result.errors;
}

TEST(Preload, KeepsItsOptionsInAProgramThatClearsItsEnvironment) {
  for (const char* how : {"cleared", "overwritten"}) {
    Host host(std::string("clears_environment ") + how, {{"CUHEAP_STACKS", "off"}, {"CUHEAP_POOL", "off"}});

    ASSERT_EQ(host.traces(), 1u) << how << host.result.errors;
    EXPECT_EQ(host.allocation(20300).family, Family::Device) << how;
    EXPECT_EQ(host.allocation(20300).site, 0u) << how;
  }
}

TEST(Preload, RecordsWithoutStacksWhenTold) {
  Host host("families", {{"CUHEAP_STACKS", "off"}, {"CUHEAP_POOL", "off"}});

  EXPECT_EQ(host.allocation(20001).family, Family::Device);
  EXPECT_EQ(host.allocation(20001).site, 0u);
}

}  // namespace
}  // namespace cuheap::testing
