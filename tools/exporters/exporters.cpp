#include "tools/exporters/exporters.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "tools/analysis/flame.h"

namespace cuheap {
namespace {

using Json = nlohmann::ordered_json;

/// Frames of a speedscope file, equal ones under one number.
class SpeedscopeFrames {
 public:
  std::size_t index_of(const Frame& frame) {
    const auto [at, is_new] =
        numbers_.emplace(std::tuple(frame.function, frame.file, frame.line, frame.module), numbers_.size());
    if (is_new) {
      Json json{{"name", frame.function}};
      if (!frame.file.empty()) json["file"] = frame.file;
      if (frame.line != 0) json["line"] = frame.line;
      if (frame.file.empty() && !frame.module.empty()) json["file"] = frame.module;
      frames_.push_back(std::move(json));
    }
    return at->second;
  }
  Json take() { return std::move(frames_); }

 private:
  std::map<std::tuple<std::string, std::string, std::uint32_t, std::string>, std::size_t> numbers_;
  Json frames_ = Json::array();
};

/// A field that holds a separator or a quote goes into quotes (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string csv_stack(const Trace& trace, SiteId site) {
  std::string text;
  const std::vector<Frame> stack = trace.stack(site);
  for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame) text += (text.empty() ? "" : ";") + frame->function;
  return csv_field(text);
}

}  // namespace

void export_folded(const Trace& trace, const LiveSites& sites, std::FILE* out) {
  for (const std::string& line : folded_stacks(trace, sites)) fmt::print(out, "{}\n", line);
}

void export_speedscope(const Trace& trace, const LiveSites& sites, const std::string& name, std::FILE* out) {
  SpeedscopeFrames frames;
  Json samples = Json::array(), weights = Json::array();
  for (const SiteBytes& site : sites.sites) {
    const std::vector<Frame> stack = trace.stack(site.site);
    Json sample = Json::array();
    for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame) sample.push_back(frames.index_of(*frame));
    samples.push_back(std::move(sample));
    weights.push_back(site.bytes);
  }
  Json profile{{"type", "sampled"}, {"name", name}, {"unit", "bytes"}, {"startValue", 0}, {"endValue", sites.total}};
  profile["samples"] = std::move(samples);
  profile["weights"] = std::move(weights);
  Json json{{"$schema", "https://www.speedscope.app/file-format-schema.json"},
            {"name", name},
            {"exporter", std::string("cuheap ") + CUHEAP_VERSION},
            {"activeProfileIndex", 0}};
  json["shared"]["frames"] = frames.take();
  json["profiles"] = Json::array();
  json["profiles"].push_back(std::move(profile));
  fmt::print(out, "{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void export_csv(const Trace& trace, std::FILE* out) {
  fmt::print(
      out,
      "time_ns,kind,floor,family,process,thread,device,address,size,stream,context,extra0,extra1,phase,flags,stack\n");
  std::vector<std::string> stacks(trace.sites.size());  // made once a site
  fmt::memory_buffer text;
  trace.events->for_each([&](std::span<const Event> events) {
    text.clear();
    for (const Event& e : events) {
      std::string& stack = stacks[e.site];
      if (e.site != 0 && stack.empty()) stack = csv_stack(trace, e.site);
      const std::uint64_t time = e.time_ns > trace.start_ns ? e.time_ns - trace.start_ns : 0;
      fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{:#x},{},{:#x},{:#x},{},{},{},{},{}\n", time,
                     event_kind_name(e.kind), floor_name(e.floor), family_name(e.family), e.process, e.thread, e.device,
                     e.address, e.size, e.stream, e.context, e.extra0, e.extra1, csv_field(trace.names.at(e.phase)),
                     e.flags, stack);
    }
    std::fwrite(text.data(), 1, text.size(), out);
  });
}

}  // namespace cuheap
