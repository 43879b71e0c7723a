#include "tools/importers/pytorch_snapshot.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/unit/tools/pickles.h"
#include "tests/unit/tools/trace_files.h"
#include "tools/model/error.h"
#include "tools/reader/trace_reader.h"

namespace cuheap {
namespace {

struct Imported {
  PytorchSnapshot snapshot;
  ImportReport report;
  Trace trace;
  ImportCheck check;
};

Imported imported(const TestFolder& folder, const std::vector<std::uint8_t>& bytes) {
  store_bytes(folder / "s.pickle", {bytes.begin(), bytes.end()});
  Imported result;
  result.snapshot = read_pytorch_snapshot(folder / "s.pickle");
  result.report = write_as_trace(result.snapshot, folder / "s.cuheap");
  result.trace = open_trace(folder / "s.cuheap");
  result.check = check_import(result.snapshot, result.trace);
  return result;
}

TEST(PytorchSnapshot, FindsWhatLivedBeforeTheHistory) {
  TestFolder folder;
  // 0x1000 was there and is freed; 0x2000 was there and stays; 0x3000 is new.
  const Imported r = imported(
      folder, snapshot_bytes(
                  {{0x1000, 0x4000, false, {{0x2000, 200}, {0x3000, 300}}}},
                  {{"free_requested", 0x1000, 100, 5}, {"free_completed", 0x1000, 100, 5}, {"alloc", 0x3000, 300, 6}}));
  const std::vector<Event> events = events_of(r.trace);

  EXPECT_EQ(r.report.initial_blocks, 2u);
  EXPECT_EQ(r.report.initial_segments, 1u);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].family, Family::Segment);
  EXPECT_EQ(events[1].size, 100u);
  EXPECT_EQ(events[1].flags, kEventInitial);
  EXPECT_EQ(events[3].kind, EventKind::Free);
  EXPECT_EQ(events[4].size, 300u);
  EXPECT_TRUE(r.check.passed());
  EXPECT_EQ(r.trace.ground, Ground::Imported);
}

TEST(PytorchSnapshot, TakesAFreeOnceWhicheverHalfOfItIsThere) {
  TestFolder folder;
  const Imported r = imported(folder, snapshot_bytes({}, {{"alloc", 0x1000, 1, 1},
                                                          {"free_completed", 0x1000, 1, 2},
                                                          {"alloc", 0x1000, 2, 3},
                                                          {"free_requested", 0x1000, 2, 4},
                                                          {"alloc", 0x2000, 3, 5},
                                                          {"free_requested", 0x2000, 3, 6},
                                                          {"free_completed", 0x2000, 3, 7}}));

  std::size_t frees = 0;
  for (const Event& event : events_of(r.trace)) frees += event.kind == EventKind::Free ? 1 : 0;

  EXPECT_EQ(frees, 3u);
  EXPECT_EQ(r.report.unmatched_frees, 0u);
  EXPECT_TRUE(r.check.passed());
}

TEST(PytorchSnapshot, UnmapsPartsOfWhatWasMapped) {
  TestFolder folder;
  const Imported r =
      imported(folder, snapshot_bytes({{0x1000, 0x1000, true, {}}, {0x4000, 0x1000, true, {}}},
                                      {{"segment_map", 0x1000, 0x4000, 1}, {"segment_unmap", 0x2000, 0x2000, 2}}));

  EXPECT_TRUE(r.check.passed()) << (r.check.differences.empty() ? "" : r.check.differences[0]);
  EXPECT_EQ(r.report.initial_segments, 0u);
}

TEST(PytorchSnapshot, KeepsOutOfMemoryWithTheStateThen) {
  TestFolder folder;
  const Imported r = imported(
      folder, snapshot_bytes({{0x1000, 4096, false, {{0x1000, 512}}}},
                             {{"segment_alloc", 0x1000, 4096, 1}, {"alloc", 0x1000, 512, 2}, {"oom", 7, 1 << 20, 3}}));
  const std::vector<Event> events = events_of(r.trace);

  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2].kind, EventKind::OutOfMemory);
  EXPECT_EQ(events[2].size, 1u << 20);
  EXPECT_EQ(events[2].extra0, 512u);
  EXPECT_EQ(events[2].extra1, 4096u);
}

TEST(PytorchSnapshot, WhatWasFreedIsNoLongerLiveInAnOutOfMemory) {
  TestFolder folder;
  const Imported r = imported(folder, snapshot_bytes({{0x1000, 4096, false, {{0x1000, 512}}}},
                                                     {{"segment_alloc", 0x1000, 4096, 1},
                                                      {"alloc", 0x1000, 512, 2},
                                                      {"alloc", 0x1800, 700, 3},
                                                      {"free_requested", 0x1800, 700, 4},
                                                      {"oom", 7, 1 << 20, 5}}));

  EXPECT_EQ(events_of(r.trace).back().extra0, 512u);
}

TEST(PytorchSnapshot, ABlockWhoseFreeIsPendingIsDeadAlready) {
  TestFolder folder;
  // Freed, but another stream may still use it: the snapshot lists it, the program has let it go.
  const Imported r = imported(
      folder, snapshot_bytes({{0x1000, 4096, false, {{0x1000, 512}, {0x1800, 700, "active_pending_free"}}}},
                             {{"alloc", 0x1800, 700, 1}, {"free_requested", 0x1800, 700, 2}}));

  EXPECT_TRUE(r.check.passed()) << (r.check.differences.empty() ? "" : r.check.differences[0]);
  EXPECT_EQ(r.check.blocks, 1u);
  EXPECT_EQ(r.check.block_bytes, 512u);
  EXPECT_EQ(r.report.initial_blocks, 1u);
  EXPECT_EQ(r.report.unmatched_frees, 0u);
}

TEST(PytorchSnapshot, TheOrderOfEntriesStandsWhereTheirTimesRunBack) {
  TestFolder folder;
  const Imported r = imported(folder, snapshot_bytes({}, {{"alloc", 0x1000, 1, 10},
                                                          {"free_requested", 0x1000, 1, 5},  // clocks were set back
                                                          {"alloc", 0x1000, 2, 6},
                                                          {"free_requested", 0x1000, 2, 12}}));
  const std::vector<Event> events = events_of(r.trace);

  EXPECT_EQ(r.report.unmatched_frees, 0u);
  EXPECT_EQ(r.report.initial_blocks, 0u);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[1].kind, EventKind::Free);
  EXPECT_EQ(events[1].time_ns, 10'000u);
  EXPECT_EQ(events[2].time_ns, 10'000u);
  EXPECT_EQ(events[3].time_ns, 12'000u);
}

TEST(PytorchSnapshot, FramesOfTheRecorderItselfAreNotInTheStack) {
  TestFolder folder;
  const Imported r = imported(
      folder, snapshot_bytes({}, {{"alloc", 0x1000, 1, 1,
                                   {"torch::unwind::unwind()", "torch::CapturedTraceback::gather(bool, bool, bool)", "step",
                                    "torch::unwind::unwind()"}}}));

  const std::vector<Frame> stack = r.trace.stack(events_of(r.trace).at(0).site);

  ASSERT_EQ(stack.size(), 2u);
  EXPECT_EQ(stack[0].function, "step");
  EXPECT_EQ(stack[1].function, "torch::unwind::unwind()");  // the program's own call of it stays
}

TEST(PytorchSnapshot, NamesFramesInnermostFirst) {
  TestFolder folder;
  const Imported r = imported(folder, snapshot_bytes({}, {{"alloc", 0x1000, 1, 1}, {"free_requested", 0x1000, 1, 2}}));

  const std::vector<Frame> stack = r.trace.stack(events_of(r.trace)[0].site);

  ASSERT_EQ(stack.size(), 1u);
  EXPECT_EQ(stack[0], (Frame{"step", "train.py", 7, "", FrameLanguage::Python}));
}

TEST(PytorchSnapshot, PassesOverActionsItDoesNotKnow) {
  TestFolder folder;
  const Imported r = imported(folder, snapshot_bytes({}, {{"teleport", 1, 1, 1}, {"snapshot", 0, 0, 2}}));

  EXPECT_EQ(r.report.unknown_actions, 1u);
  EXPECT_EQ(r.trace.event_count, 0u);
}

TEST(PytorchSnapshot, TheCheckFindsABlockThatTheTraceLost) {
  TestFolder folder;
  Imported r = imported(folder, snapshot_bytes({{0x1000, 4096, false, {{0x1000, 512}}}}, {}));

  r.snapshot.segments[0].blocks[0].requested = 513;
  EXPECT_FALSE(check_import(r.snapshot, r.trace).passed());
  r.snapshot.segments[0].blocks[0].requested = 512;
  r.snapshot.segments[0].size = 8192;
  EXPECT_FALSE(check_import(r.snapshot, r.trace).passed());
}

TEST(PytorchSnapshot, RefusesAPickleOfSomethingElse) {
  TestFolder folder;

  try {
    imported(folder, PickleBytes().begin_dict().text("weights").number(1).end_dict().done());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no PyTorch memory snapshot"), std::string::npos);
  }
}

TEST(PytorchSnapshot, ASmallFileThatUnfoldsWithoutEndIsRefused) {
  TestFolder folder;
  // One trace of 100 shared entries, shared 100 times: 10,000 entries from a file of less.
  PickleBytes p;
  p.begin_dict().text("segments").op("]").text("device_traces").begin_list().begin_list().op("}\x94");
  for (int i = 0; i < 99; ++i) p.op(std::string("h\x00", 2));
  p.end_list().op("\x94");
  for (int i = 0; i < 99; ++i) p.op("h\x01");
  p.end_list().end_dict();

  EXPECT_THROW(imported(folder, p.done()), Error);
}

class RealSnapshots : public testing::Test {
 protected:
  static std::string folder() {
    const char* const given = std::getenv("CUHEAP_REAL_DATA");
    return (std::filesystem::path(given != nullptr ? given : CUHEAP_SOURCE_DIR "/../shared/data") / "pytorch_snapshots")
        .string();
  }
};

TEST_F(RealSnapshots, EndExactlyInTheirOwnSegments) {
  if (!std::filesystem::is_directory(folder())) {
    GTEST_SKIP() << "no real snapshots: set CUHEAP_REAL_DATA to a folder with pytorch_snapshots/*.pickle (not at "
                 << folder() << ")";
  }
  TestFolder out;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    if (entry.path().extension() != ".pickle") continue;
    const std::string trace = out / (entry.path().stem().string() + ".cuheap");
    const PytorchSnapshot snapshot = read_pytorch_snapshot(entry.path().string());
    const ImportReport report = write_as_trace(snapshot, trace);

    const ImportCheck check = check_import(snapshot, open_trace(trace));

    EXPECT_TRUE(check.passed()) << entry.path() << ": " << (check.differences.empty() ? "" : check.differences[0]);
    EXPECT_GT(check.blocks, 0u) << entry.path();
    EXPECT_EQ(report.unmatched_frees, 0u) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 1u);
}

}  // namespace
}  // namespace cuheap
