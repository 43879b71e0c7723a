#include "tools/report/html.h"

#include <gtest/gtest.h>

#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/unit/analysis/trace_builder.h"
#include "tests/unit/report/sample_trace.h"
#include "tools/analysis/leaks.h"
#include "tools/analysis/summary.h"

namespace cuheap {
namespace {

std::string report_of(const Trace& trace) {
  std::ostringstream out;
  write_report(trace, out);
  return out.str();
}

nlohmann::json head_of(const std::string& page) {
  const std::string opening = "<script type=\"application/json\" id=\"cuheap-head\">";
  const std::size_t from = page.find(opening) + opening.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST(WriteReport, MakesOneFileThatAsksForNoOther) {
  const std::string page = report_of(sample::serving_trace(2000));

  EXPECT_NE(page.find("<script type=\"module\">"), std::string::npos);
  EXPECT_EQ(page.find("<script src"), std::string::npos);
  EXPECT_EQ(page.find("<link rel=\"stylesheet\""), std::string::npos);
  EXPECT_EQ(page.find("https://"), std::string::npos);
  EXPECT_EQ(page.find("<!--cuheap:data-->"), std::string::npos);
}

TEST(WriteReport, CannotBeEndedByACommandLine) {
  // The sample's command line holds a closing script tag.
  const std::string page = report_of(sample::serving_trace(2000));

  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_NE(head_of(page)["processes"][0]["meta"]["command"].get<std::string>().find("</script><b>"), std::string::npos);
}

TEST(WriteReport, SaysWhetherCuheapsPoolServed) {
  test::TraceBuilder b;
  const SiteId site = b.push(0, {"main", "/a.cpp", 5, "a", FrameLanguage::Native});
  b.allocate(Floor::Allocation, Family::Device, 1, 1 << 20, site);
  EXPECT_EQ(head_of(report_of(b.build()))["processes"][0]["pooled"], false);
  b.allocate(Floor::Physical, Family::PoolGranule, 2, 1 << 21, site);
  EXPECT_EQ(head_of(report_of(b.build()))["processes"][0]["pooled"], true);
}

TEST(WriteReport, StatesTheFiguresOfTheSummary) {
  const Trace trace = sample::serving_trace(20000);
  const Summary summary = summarize(trace);

  const nlohmann::json head = head_of(report_of(trace));

  ASSERT_FALSE(head["tracks"].empty());
  for (const nlohmann::json& track : head["tracks"]) {
    const auto device = std::find_if(summary.devices.begin(), summary.devices.end(),
                                     [&](const DeviceSummary& row) { return row.state.device == track["device"]; });
    ASSERT_NE(device, summary.devices.end());
    for (const Floor floor : {Floor::Physical, Floor::Allocation, Floor::Framework}) {
      if (floor_name(floor) != track["floor"]) continue;
      const FloorState& state = device->state[floor];
      EXPECT_EQ(track["peak"], state.peak_live);
      EXPECT_EQ(track["end"], state.live);
      EXPECT_EQ(track["held_peak"], state.peak_held);
      EXPECT_EQ(track["allocations"], state.allocations);
      EXPECT_EQ(track["frees"], state.frees);
    }
  }
  EXPECT_EQ(head["events"], summary.events);
}

TEST(WriteReport, SaysWhatWasFreedOnlyAtTheEnd) {
  const Trace trace = sample::serving_trace(20000);
  const LeakReport report = leaks(trace);
  ASSERT_GT(report.freed_late_bytes, 0u);  // else this asks nothing

  const nlohmann::json head = head_of(report_of(trace));

  EXPECT_EQ(head["freed_late_bytes"], report.freed_late_bytes);
  EXPECT_EQ(head["freed_late_blocks"], report.freed_late_blocks);
}

TEST(WriteReport, OfAnEmptyTraceIsAPage) {
  const nlohmann::json head = head_of(report_of(sample::empty_trace()));

  EXPECT_TRUE(head["tracks"].empty());
  EXPECT_TRUE(head["spaces"].empty());
}

TEST(WriteReport, TellsWhenTheProgramLastAskedForMemory) {
  const Trace trace = sample::serving_trace(2000);
  std::uint64_t last = 0;
  trace.events->for_each([&](std::span<const Event> events) {
    for (const Event& event : events)
      if (event.kind == EventKind::Allocate || event.kind == EventKind::OutOfMemory) last = event.time_ns;
  });

  const nlohmann::json head = head_of(report_of(trace));

  EXPECT_EQ(head["last_request_ns"], last - trace.start_ns);
  EXPECT_LT(head["last_request_ns"], head["duration_ns"]);
}

TEST(WriteReport, SaysThatPythonFramesAreMissing) {
  Trace trace = sample::serving_trace(500);
  trace.processes.front().meta["python"] = "3.11.7";
  EXPECT_EQ(head_of(report_of(trace))["python_note"], "");  // the sample has some

  for (Frame& frame : trace.frames) frame.language = FrameLanguage::Native;
  const nlohmann::json head = head_of(report_of(trace));
  const std::string note = head["python_note"];
  EXPECT_NE(note.find("cuheap.phase()"), std::string::npos);
  EXPECT_EQ(head["notes"].back(), note);
}

TEST(WriteReport, SurvivesAStringThatIsNoUtf8) {
  Trace trace = sample::serving_trace(500);
  trace.processes.front().meta["command"] = "\xff\xfe broken";

  EXPECT_NO_THROW(head_of(report_of(trace)));
}

}  // namespace
}  // namespace cuheap
