// cuheap rehearse --on DEVICE -- CMD: runs a program on the make-believe GPU and answers what it takes, where, whether
// it fits, and what else it would fit on. Everything it says is simulated, and says so.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "tools/analysis/summary.h"
#include "tools/commands/answers.h"
#include "tools/commands/command.h"
#include "tools/commands/device_table.h"
#include "tools/commands/launch.h"
#include "tools/commands/progress.h"
#include "tools/model/error.h"

namespace cuheap {
namespace {

constexpr std::size_t kSitesShown = 8;
// What contexts of PyTorch programs were seen to take in public reports (pytorch#86509 and others): kernels loaded lazily,
// all of them at once. Not measured here.
constexpr std::uint64_t kContextLow = 287'000'000, kContextHigh = 667'000'000;

enum class Answer : std::uint8_t { Fits, Close, DoesNotFit };

/// Close: what the context takes decides.
Answer answer_of(std::uint64_t physical, std::uint64_t total) {
  if (physical + kContextHigh <= total) return Answer::Fits;
  return physical + kContextLow <= total ? Answer::Close : Answer::DoesNotFit;
}

struct RehearseArguments {
  LaunchOptions launch;
  bool json = false;
};

/// What one device of the rehearsal has to give.
struct Need {
  std::int16_t device = 0;
  std::string name;
  std::uint64_t total = 0;
  std::uint64_t framework = 0, allocation = 0, physical = 0;
  std::uint64_t context = 0;  // an estimate of the table, not measured in this run
  std::uint64_t ooms = 0;
  std::uint64_t bytes() const { return physical + context; }
  bool fits() const { return ooms == 0 && bytes() <= total; }
};

const KnownDevice* known(const std::string& name) {
  const auto devices = known_devices();
  const auto found = std::find_if(devices.begin(), devices.end(), [&](const KnownDevice& d) { return name == d.name; });
  return found == devices.end() ? nullptr : &*found;
}

/// Of a device that is not in the table: the largest of the table.
std::uint64_t context_bytes(const std::string& name) {
  if (const KnownDevice* const device = known(name)) return device->context_bytes;
  std::uint64_t most = 0;
  for (const KnownDevice& device : known_devices()) most = std::max(most, device.context_bytes);
  return most;
}

std::vector<Need> needs_of(const Summary& summary) {
  std::vector<Need> needs;
  for (const DeviceSummary& device : summary.devices) {
    if (device.state.device == kHostDevice) continue;
    Need need;
    need.device = device.state.device;
    need.name = device.name;
    need.total = device.total_bytes;
    need.framework = peak_of(device.state[Floor::Framework], Floor::Framework).bytes;
    need.allocation = peak_of(device.state[Floor::Allocation], Floor::Allocation).bytes;
    need.physical = peak_of(device.state[Floor::Physical], Floor::Physical).bytes;
    need.context = context_bytes(device.name);
    for (const Floor floor : {Floor::Allocation, Floor::Framework}) need.ooms += device.state[floor].ooms;
    if (need.physical != 0 || need.ooms != 0) needs.push_back(need);
  }
  return needs;
}

struct Fit {
  const KnownDevice* device;
  std::uint64_t need;
  std::int64_t margin;
  bool fits;
};

/// The table of devices against the largest need of a device. An out-of-memory in the rehearsal makes the need a lower
/// bound: what did not fit did not happen.
std::vector<Fit> fits_of(const std::vector<Need>& needs) {
  std::uint64_t most = 0;
  for (const Need& need : needs) most = std::max(most, need.physical);
  std::vector<Fit> fits;
  for (const KnownDevice& device : known_devices()) {
    const std::uint64_t need = most + device.context_bytes;
    fits.push_back({&device, need, static_cast<std::int64_t>(device.total_bytes) - static_cast<std::int64_t>(need),
                    need <= device.total_bytes});
  }
  std::stable_sort(fits.begin(), fits.end(),
                   [](const Fit& a, const Fit& b) { return a.device->total_bytes < b.device->total_bytes; });
  return fits;
}

std::string size_with_sign(std::int64_t bytes) {
  return (bytes < 0 ? "-" : "+") + size_text(static_cast<std::uint64_t>(bytes < 0 ? -bytes : bytes));
}

Json rehearsal_json(const Trace& trace, const Summary& summary, const std::vector<Need>& needs,
                    const RehearseArguments& arguments, int status) {
  Json json = summary_json(trace, summary);
  json["on"] = arguments.launch.simgpu;
  json["device_table"] = device_table_version();
  json["exit_status"] = status;
  json["fits"] = std::all_of(needs.begin(), needs.end(), [](const Need& need) { return need.fits(); });
  json["needs"] = Json::array();
  for (const Need& need : needs) {
    json["needs"].push_back({{"device", need.device},
                             {"name", printable(need.name)},
                             {"total", need.total},
                             {"framework", need.framework},
                             {"allocation", need.allocation},
                             {"physical", need.physical},
                             {"context_estimate", need.context},
                             {"context_low", kContextLow},
                             {"context_high", kContextHigh},
                             {"need", need.bytes()},
                             {"is_lower_bound", need.ooms != 0},
                             {"ooms", need.ooms},
                             {"fits", need.fits()}});
  }
  json["would_fit"] = Json::array();
  const bool any_oom = std::any_of(needs.begin(), needs.end(), [](const Need& need) { return need.ooms != 0; });
  for (const Fit& fit : fits_of(needs)) {
    json["would_fit"].push_back({{"device", fit.device->key},
                                 {"name", fit.device->name},
                                 {"total", fit.device->total_bytes},
                                 {"need", fit.need},
                                 {"margin", fit.margin},
                                 {"fits", fit.fits},
                                 {"is_lower_bound", any_oom}});
  }
  return json;
}

std::string answer_text(const Need& need) {
  if (need.ooms != 0) return fmt::format("DOES NOT FIT: {} out of memory", count_text(need.ooms));
  switch (answer_of(need.physical, need.total)) {
    case Answer::Fits:
      return fmt::format("fits, {} or more to spare", size_text(need.total - need.physical - kContextHigh));
    case Answer::Close:
      return fmt::format("CLOSE: fits if the context takes no more than {}", size_text(need.total - need.physical));
    case Answer::DoesNotFit:
      break;
  }
  return fmt::format("DOES NOT FIT by {} or more", size_text(need.physical + kContextLow - need.total));
}

void print_need(const Need& need, std::FILE* out) {
  fmt::print(out, "device {}  {}  {}: {}\n", need.device, printable(need.name), size_text(need.total), answer_text(need));
  if (need.framework != 0) fmt::print(out, "  tensors at most             {:>11}\n", size_text(need.framework));
  fmt::print(out, "  CUDA allocations at most    {:>11}\n", size_text(need.allocation));
  fmt::print(out, "  from the driver at most     {:>11}\n", size_text(need.physical));
  fmt::print(out, "  context, an estimate       ~{:>11}  ({} to {} in others' reports; not measured here)\n", size_text(need.context),
             size_text(kContextLow), size_text(kContextHigh));
  fmt::print(out, "  needs {}                 {:>11}\n", need.ooms != 0 ? "more than" : "about    ",
             size_text(need.bytes()));
}

void print_rehearsal(const Trace& trace, const Summary& summary, const std::vector<Need>& needs,
                     const RehearseArguments& arguments, std::FILE* out) {
  fmt::print(out, "\nrehearsal, simulated on {} (device table {}); no kernel ran, so values are not real\n",
             arguments.launch.simgpu, device_table_version());
  print_losses(trace, out);
  if (needs.empty()) fmt::print(out, "the program took no device memory\n");
  for (const Need& need : needs) print_need(need, out);
  const std::vector<std::string> names = top_site_names(trace, summary);
  for (std::size_t i = 0; i < std::min(kSitesShown, names.size()); ++i) {
    const SiteSummary& site = summary.top_sites[i];
    if (site.floor != summary.top_sites.front().floor || site.peak_bytes == 0) break;
    if (i == 0) fmt::print(out, "where, at the peak ({} floor)\n", floor_name(site.floor));
    fmt::print(out, "  {:>11}  {}\n", size_text(site.peak_bytes), printable(names[i]));
  }
  if (needs.empty()) return;
  const bool any_oom = std::any_of(needs.begin(), needs.end(), [](const Need& need) { return need.ooms != 0; });
  fmt::print(out, "what else it would fit on{}\n", needs.size() > 1 ? fmt::format(", {} of each", needs.size()) : "");
  for (const Fit& fit : fits_of(needs)) {
    const Answer answer = answer_of(fit.need - fit.device->context_bytes, fit.device->total_bytes);
    fmt::print(out, "  {:<12}{:>11}  {:<13}{:>12}\n", fit.device->key, size_text(fit.device->total_bytes),
               answer == Answer::DoesNotFit ? "does not fit"
               : any_oom                    ? "unknown"
               : answer == Answer::Close    ? "close"
                                            : "fits",
               size_with_sign(fit.margin));
  }
  fmt::print(
      out, "library workspaces differ between generations: rehearse with --on DEVICE before you rely on a close one\n");
}

int rehearse(const RehearseArguments& arguments) {
  const LaunchResult result = launch(arguments.launch);
  if (!result.started) return result.status;
  if (result.directory.empty())
    throw Error(fmt::format("nothing was recorded, so there is nothing to answer: {}", result.not_recorded));
  Progress progress;
  Trace trace;
  try {
    trace = progress.open(result.directory);
  } catch (const Error&) {
    progress.end();
    tell(result.status == 0 ? "the program never initialised CUDA: it takes no device memory"
                            : fmt::format("the program ended with {} before it initialised CUDA: what it takes is not known",
                                          result.status));
    std::error_code ignored;
    std::filesystem::remove(result.directory, ignored);  // only if it is empty
    return result.status;
  }
  const Summary summary = summarize(trace);
  progress.end();
  const std::vector<Need> needs = needs_of(summary);
  if (arguments.json) {
    print_json(rehearsal_json(trace, summary, needs, arguments, result.status));
  } else {
    print_rehearsal(trace, summary, needs, arguments, stderr);
    if (result.status != 0)
      tell(fmt::format("the program ended with status {}: what it would have taken later is not in these numbers",
                       result.status));
    tell(fmt::format("recorded into {}; next: cuheap report {}", result.directory, result.directory));
  }
  return result.status;
}

}  // namespace

Action define_rehearse(CLI::App& app) {
  const auto arguments = std::make_shared<RehearseArguments>();
  arguments->launch.simgpu = "h100-80g";
  app.add_option("--on", arguments->launch.simgpu, "device, or several by comma: h100-80g, 24GiB, 2xa100-80g")
      ->capture_default_str();
  app.add_option("-o,--output", arguments->launch.directory, "run directory; default: cuheap-<command>-<date>-<pid>");
  app.add_option("--pool", arguments->launch.pool,
                 "serve allocations from cuheap's own pool: auto, on or off; default: off")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  app.add_flag("--json", arguments->json, "print JSON on stdout (docs/json.md); the program's stdout goes to stderr");
  return [arguments](const Program& program) {
    check_device_spec(arguments->launch.simgpu, "--on");
    arguments->launch.command = program;
    arguments->launch.stdout_to_stderr = arguments->json;
    // What plain CUDA would take is the question, unless somebody asks for the pool.
    if (arguments->launch.pool.empty()) arguments->launch.pool = "off";
    return rehearse(*arguments);
  };
}

}  // namespace cuheap
