#include "tools/report/page_series.h"

#include <gtest/gtest.h>

#include <zlib.h>

#include "tests/unit/report/sample_trace.h"
#include "tools/analysis/peak.h"

namespace cuheap {
namespace {

TEST(LifetimeHistogram, FindsTheMedianWithinTenPercent) {
  LifetimeHistogram histogram;
  for (const std::uint64_t life : {900U, 1000U, 1000000U}) histogram.add(life);

  EXPECT_NEAR(static_cast<double>(histogram.median_ns()), 1000.0, 100.0);
}

TEST(LifetimeHistogram, HasNoMedianWhereNothingDied) { EXPECT_EQ(LifetimeHistogram().median_ns(), 0U); }

struct Recorded {
  Trace trace;
  PageNames names;
  PeakFinder peak{{}, Floor::None};
  SeriesSurvey survey{names};
  std::unique_ptr<SeriesRecorder> recorder;

  Recorded(Trace of, const ReportOptions& options) : trace(std::move(of)), names(trace) {
    LiveSet first;
    replay(trace, first, {&peak, &survey});
    recorder = std::make_unique<SeriesRecorder>(names, survey, trace.start_ns, std::vector{peak.moment().events}, options);
    LiveSet second;
    replay(trace, second, {recorder.get()});
    recorder->finish(trace.end_ns);
  }
};

TEST(SeriesSurvey, AgreesWithThePeakAnalysis) {
  const Recorded recorded(sample::serving_trace(20000), {});

  const LiveSites end = live_at(recorded.trace, When{When::Kind::End, 0, Floor::None});

  const auto framework = std::find_if(recorded.survey.tracks().begin(), recorded.survey.tracks().end(),
                                      [](const TrackTotals& track) { return track.floor == Floor::Framework; });
  ASSERT_NE(framework, recorded.survey.tracks().end());
  EXPECT_EQ(framework->end, end.total);
  std::uint64_t sum = 0;
  for (const NodeTotals& node : framework->nodes) sum += node.live;
  EXPECT_EQ(sum, end.total);
}

TEST(SeriesRecorder, NotesEveryChangeOfASmallTrace) {
  const Recorded recorded(sample::serving_trace(2000), {});

  EXPECT_TRUE(recorded.recorder->is_complete());
  EXPECT_GE(recorded.recorder->moment_count(), recorded.survey.changes());
}

TEST(SeriesRecorder, BoundsItsMomentsAndKeepsThePeaks) {
  const Recorded recorded(sample::serving_trace(20000), {.max_moments = 100});

  EXPECT_FALSE(recorded.recorder->is_complete());
  EXPECT_LE(recorded.recorder->moment_count(), 100U + 2 + 1 + recorded.survey.tracks().size());
  for (const TrackTotals& track : recorded.survey.tracks()) {
    const std::size_t moment = recorded.recorder->moment_of(track.peak_events);
    EXPECT_LT(moment, recorded.recorder->moment_count());
  }
}

TEST(SeriesRecorder, BoundsItsSites) {
  const Recorded recorded(sample::serving_trace(2000), {.max_sites = 2});

  for (std::size_t track = 0; track < recorded.survey.tracks().size(); ++track) {
    EXPECT_LE(recorded.recorder->site_count(track), 2U);
  }
}

TEST(PageNames, GivesStacksThatReadTheSameOneNode) {
  Trace trace;
  trace.frames = {{"main", "a.cpp", 1, "a", FrameLanguage::Native}, {"f", "a.cpp", 2, "a", FrameLanguage::Native},
                  {"f", "a.cpp", 2, "a", FrameLanguage::Native}};
  trace.sites = {{}, {0, 0, 1}, {1, 1, 1}, {1, 2, 1}};
  PageNames names(trace);

  EXPECT_EQ(names.node(2), names.node(3));
  EXPECT_NE(names.node(1), names.node(2));
  EXPECT_EQ(names.node(0), 0U);
  EXPECT_EQ(names.node(99), 0U);
}

TEST(PageNames, SurvivesACycleOfADamagedTrace) {
  Trace trace;
  trace.frames = {{"f", "", 0, "", FrameLanguage::Native}};
  trace.sites = {{}, {2, 0, 1}, {1, 0, 1}};
  PageNames names(trace);

  EXPECT_NE(names.node(1), 0U);
}

}  // namespace
}  // namespace cuheap
