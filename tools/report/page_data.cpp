#include "tools/report/page_data.h"

#include <algorithm>
#include <set>
#include <string>

#include "tools/analysis/python_frames.h"
#include "tools/report/page_annotations.h"
#include "tools/report/page_answers.h"
#include "tools/report/page_names.h"
#include "tools/report/page_series.h"

namespace cuheap {
namespace {

using nlohmann::json;

constexpr std::size_t kMostVerdicts = 200;

/// When the program last asked for memory: what follows is its end, which may be the larger part of a short recording.
class LastRequest : public LiveSetObserver {
 public:
  void after(const Event& event, const LiveSet&) override {
    if (event.kind == EventKind::Allocate || event.kind == EventKind::OutOfMemory) time_ns_ = event.time_ns;
  }
  std::uint64_t since(std::uint64_t start_ns) const { return time_ns_ - std::min(start_ns, time_ns_); }

 private:
  std::uint64_t time_ns_ = 0;
};

json notes_json(const Trace& trace) {
  json notes = trace.notes;
  if (const char* const note = missing_python_frames(trace)) notes.push_back(note);
  return notes;
}

/// Processes that cuheap's own pool took memory for.
class Pooled : public LiveSetObserver {
 public:
  void born(Block& block, const Event&) override {
    if (block.family == Family::PoolGranule) processes_.insert(block.process);
  }
  bool has(std::size_t process) const { return processes_.contains(static_cast<std::uint16_t>(process)); }

 private:
  std::set<std::uint16_t> processes_;
};

json processes_json(const Trace& trace, const Pooled& pooled) {
  json list = json::array();
  for (const Process& process : trace.processes) {
    const auto number = static_cast<std::size_t>(&process - trace.processes.data());
    json meta = json::object();
    for (const auto& [key, value] : process.meta) meta[key] = value;
    list.push_back({{"pid", process.pid}, {"rank", process.rank}, {"ended_orderly", process.ended_orderly},
                    {"pooled", pooled.has(number)}, {"meta", std::move(meta)}});
  }
  return list;
}

json devices_json(const Trace& trace) {
  json list = json::array();
  for (const TraceDevice& device : trace.devices) {
    const auto same = [&](const json& other) { return other["device"] == device.ordinal; };
    if (std::find_if(list.begin(), list.end(), same) != list.end()) continue;  // ranks that share a device
    list.push_back({{"device", device.ordinal}, {"name", device.name}, {"total", device.total_bytes}});
  }
  return list;
}

json tracks_json(const SeriesSurvey& survey, const SeriesRecorder& recorder) {
  json list = json::array();
  for (std::size_t t = 0; t < survey.tracks().size(); ++t) {
    const TrackTotals& track = survey.tracks()[t];
    list.push_back({{"device", track.device}, {"floor", floor_name(track.floor)}, {"peak", track.peak},
                    {"peak_moment", recorder.moment_of(track.peak_events)}, {"end", track.end},
                    {"held_peak", track.held_peak}, {"held_end", track.held_end},
                    {"allocations", track.allocations}, {"frees", track.frees}, {"sites", recorder.site_count(t)}});
  }
  return list;
}

/// The address space at a moment: figures into `list`, the picture into a section.
void add_space(const char* name, const FragmentationReport& report, std::size_t moment, const ReportOptions& options,
               PageNames& names, PageData& data) {
  json floors = json::array();
  for (const FloorFragmentation& floor : report.floors) floors.push_back(fragmentation_json(floor, names));
  std::size_t left_out = 0;
  const std::string section = std::string("space_") + name;
  data.sections.push_back(space_section(section, report, options.max_blocks, names, left_out));
  data.head["spaces"].push_back({{"name", name}, {"moment", moment}, {"section", section}, {"floors", std::move(floors)},
                                 {"segments_left_out", left_out}});
}

}  // namespace

PageData build_page_data(const Trace& trace, const ReportOptions& options) {
  PageNames names(trace);
  PeakFinder peak({}, Floor::None);
  SeriesSurvey survey(names);
  PageAnnotations annotations(trace);
  LastRequest last_request;
  Pooled pooled;
  LiveSet first;
  replay(trace, first, {&peak, &survey, &annotations, &last_request, &pooled});
  annotations.finish();

  LeakReport leak_report = leaks(trace);
  if (leak_report.verdicts.size() > kMostVerdicts) leak_report.verdicts.resize(kMostVerdicts);
  const std::vector<OomReport> oom_reports = ooms(trace, &leak_report);

  std::vector<std::uint64_t> kept{peak.moment().events};
  for (const OomReport& oom : oom_reports) kept.push_back(oom.at.events);
  SeriesRecorder recorder(names, survey, trace.start_ns, std::move(kept), options);
  SurvivalPictures survival(trace, leak_report.verdicts);
  LiveSet second;
  replay(trace, second, {&recorder, &survival});
  recorder.finish(trace.end_ns);

  PageData data;
  data.head = {{"version", 1},
               {"cuheap", CUHEAP_VERSION},
               {"trace", trace.path},
               {"ground", ground_name(trace.ground)},
               {"loss", {{"events", trace.lost_events()}, {"reasons", trace.loss_reasons()}}},
               {"start_wall_ms", trace.processes.empty() ? 0 : trace.processes.front().start_wall_ns / 1000000},
               {"duration_ns", trace.end_ns - trace.start_ns},
               {"last_request_ns", last_request.since(trace.start_ns)},
               {"events", first.events()},
               {"exact", recorder.is_complete()},
               {"moments", recorder.moment_count()},
               {"peak_moment", recorder.moment_of(peak.moment().events)},
               {"top_floor", floor_name(first.top_floor())},
               {"sites_judged", leak_report.sites_judged},
               {"freed_late_bytes", leak_report.freed_late_bytes},
               {"freed_late_blocks", leak_report.freed_late_blocks},
               {"processes", processes_json(trace, pooled)},
               {"devices", devices_json(trace)},
               {"tracks", tracks_json(survey, recorder)},
               {"phases", annotations.phases()},
               {"marks", annotations.marks()},
               {"ooms", json::array()},
               {"leaks", json::array()},
               {"notes", notes_json(trace)},
               {"python_note", missing_python_frames(trace) == nullptr ? "" : missing_python_frames(trace)},
               {"spaces", json::array()}};
  for (std::size_t i = 0; i < leak_report.verdicts.size(); ++i) {
    json leak = leak_json(leak_report.verdicts[i], trace, names);
    leak["survival"] = survival.picture(i);
    data.head["leaks"].push_back(std::move(leak));
  }
  for (const OomReport& oom : oom_reports) {
    json entry = oom_json(oom, trace, names);
    entry["moment"] = recorder.moment_of(oom.at.events);
    data.head["ooms"].push_back(std::move(entry));
  }
  if (first.events() > 0) {
    add_space("peak", fragmentation(trace, peak.moment()), recorder.moment_of(peak.moment().events), options, names, data);
    add_space("end", fragmentation(trace, kEndOfTrace), recorder.moment_count() - 1, options, names, data);
  }
  for (PageSection& section : recorder.sections()) data.sections.push_back(std::move(section));
  data.sections.push_back(annotations.driver_section());
  data.sections.push_back(names.section());
  return data;
}

}  // namespace cuheap
