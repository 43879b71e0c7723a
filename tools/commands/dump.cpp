// cuheap dump TRACE: one line a record, so that grep and the eye can read a trace. Definitions first, then events in
// time order with the numbers of the merged trace.
#include <fmt/format.h>

#include <memory>

#include "tools/commands/arguments.h"
#include "tools/commands/command.h"
#include "tools/commands/notes.h"
#include "tools/commands/output.h"
#include "tools/commands/progress.h"

namespace cuheap {
namespace {

void dump_definitions(const Trace& trace) {
  for (std::size_t i = 0; i < trace.processes.size(); ++i) {
    const Process& p = trace.processes[i];
    fmt::print("process {} pid={} parent={} rank={} start_ns={} end_ns={} orderly={} file={}\n", i, p.pid, p.parent_pid,
               p.rank, p.start_ns, p.end_ns, p.ended_orderly, printable(p.file));
    for (const auto& [key, value] : p.meta) fmt::print("meta process={} {}={}\n", i, printable(key), printable(value));
  }
  for (const TraceDevice& d : trace.devices) {
    fmt::print("device {} process={} name={} total={} capability={}.{} multiprocessors={}", d.ordinal, d.process,
               printable(d.name), d.total_bytes, d.major, d.minor, d.multiprocessors);
    if (d.seen_as != d.ordinal) fmt::print(" seen_as={}", d.seen_as);
    if (const std::string uuid = uuid_text(d); !uuid.empty()) fmt::print(" uuid={}", uuid);
    fmt::print("\n");
  }
  for (std::size_t i = 1; i < trace.names.size(); ++i) fmt::print("name {} {}\n", i, printable(trace.names[i]));
  for (std::size_t i = 1; i < trace.sites.size(); ++i) {
    const Site& site = trace.sites[i];
    std::string text;
    for (std::uint32_t f = 0; f < site.frame_count; ++f) {
      const Frame& frame = trace.frames[site.first_frame + f];
      text += fmt::format("{}{}", f == 0 ? "" : " < ", printable(frame.function));
      if (!frame.file.empty()) text += fmt::format(" {}:{}", printable(frame.file), frame.line);
      if (!frame.module.empty()) text += fmt::format(" [{}]", printable(frame.module));
    }
    fmt::print("site {} parent={} {}\n", i, site.parent, text);
  }
}

void dump_event(const Trace& trace, const Event& e, fmt::memory_buffer& out) {
  const auto at = std::back_inserter(out);
  fmt::format_to(at, "{} {} {} {} process={} thread={} device={} address={:#x} size={}", since_start(trace, e.time_ns),
                 event_kind_name(e.kind), floor_name(e.floor), family_name(e.family), e.process, e.thread, e.device,
                 e.address, e.size);
  if (e.stream != 0) fmt::format_to(at, " stream={:#x}", e.stream);
  if (e.context != 0) fmt::format_to(at, " context={:#x}", e.context);
  if (e.extra0 != 0) fmt::format_to(at, " extra0={}", e.extra0);
  if (e.extra1 != 0) fmt::format_to(at, " extra1={}", e.extra1);
  if (e.site != 0) fmt::format_to(at, " site={}", e.site);
  if (e.phase != 0) fmt::format_to(at, " phase={}", e.phase);
  if (e.flags != 0) fmt::format_to(at, " flags={}", e.flags);
  out.push_back('\n');
}

void dump_events(const Trace& trace) {
  fmt::memory_buffer out;
  trace.events->for_each([&](std::span<const Event> events) {
    out.clear();
    for (const Event& event : events) dump_event(trace, event, out);
    std::fwrite(out.data(), 1, out.size(), stdout);
  });
}

}  // namespace

Action define_dump(CLI::App& app) {
  const auto arguments = std::make_shared<TraceArguments>();
  arguments->add_trace(app);
  return [arguments](const Program&) {
    Progress progress;
    const Trace trace = progress.open(arguments->trace);
    progress.end();  // its lines show how far it is
    for (const std::string& reason : trace.loss_reasons()) fmt::print("lost {}\n", printable(reason));
    print_notes(trace);
    dump_definitions(trace);
    dump_events(trace);
    return 0;
  };
}

}  // namespace cuheap
