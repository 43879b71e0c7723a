// PageAnnotations: what the timeline draws besides bytes: phases, marks and the driver's own samples of the device's use.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/analysis/replay.h"
#include "tools/report/columns.h"

namespace cuheap {

class PageAnnotations : public LiveSetObserver {
 public:
  explicit PageAnnotations(const Trace& trace) : trace_(trace) {}

  void after(const Event& event, const LiveSet& set) override;
  void finish();  // ends the phases that never ended

  const nlohmann::json& phases() const { return phases_; }
  const nlohmann::json& marks() const { return marks_; }
  std::uint64_t left_out() const { return left_out_; }
  /// Samples of the driver: device, time, bytes in use.
  PageSection driver_section() const;

 private:
  struct Open {
    std::uint16_t process = 0;
    std::uint32_t thread = 0;
    PhaseId phase = 0;
    std::uint64_t begin_ns = 0;
    std::size_t depth = 0;
  };
  void begin_phase(const Event& event);
  void end_phase(const Event& event);
  void add_phase(const Open& phase, std::uint64_t end_ns);
  void add_driver_sample(const Event& event);
  std::string name(NameId id) const { return id < trace_.names.size() ? trace_.names[id] : std::string(); }
  std::uint64_t relative(std::uint64_t time_ns) const { return time_ns - std::min(time_ns, trace_.start_ns); }

  const Trace& trace_;
  std::vector<Open> open_;
  nlohmann::json phases_ = nlohmann::json::array(), marks_ = nlohmann::json::array();
  std::uint64_t left_out_ = 0;
  std::vector<std::int64_t> driver_devices_, driver_times_, driver_used_;
};

}  // namespace cuheap
