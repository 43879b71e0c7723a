// cuheap export TRACE --to FORMAT: what a trace says, in the format of another tool.
#include <fmt/format.h>

#include <memory>

#include "tools/analysis/peak.h"
#include "tools/commands/arguments.h"
#include "tools/commands/command.h"
#include "tools/commands/notes.h"
#include "tools/commands/output.h"
#include "tools/commands/output_file.h"
#include "tools/commands/progress.h"
#include "tools/commands/selection.h"
#include "tools/exporters/exporters.h"

namespace cuheap {
namespace {

struct ExportArguments : TraceArguments {
  std::string format, output;
};

int run_export(const ExportArguments& arguments) {
  Progress progress;
  const Trace trace = progress.open(arguments.trace);
  const bool is_csv = arguments.format == "csv";  // every event: its lines show how far it is
  const LiveSites sites = is_csv ? LiveSites{} : live_at(trace, when_of(arguments, trace), selection_of(arguments, trace));
  progress.end();
  // The product is for a program: losses go where people look.
  for (const std::string& reason : trace.loss_reasons()) fmt::print(stderr, "LOST: {}\n", printable(reason));
  print_notes(trace);
  OutputFile out(arguments.output);
  if (is_csv) {
    export_csv(trace, out.stream());
  } else if (arguments.format == "folded") {
    export_folded(trace, sites, out.stream());
  } else {
    export_speedscope(
        trace, sites,
        fmt::format("{} {} at {}", printable(trace.path), floor_name(sites.floor), when_text(trace, sites.at.time_ns)),
        out.stream());
  }
  out.close();
  return 0;
}

}  // namespace

Action define_export(CLI::App& app) {
  const auto arguments = std::make_shared<ExportArguments>();
  arguments->add_trace(app);
  app.add_option("--to", arguments->format, "folded or speedscope (live bytes of a moment), csv (all events)")
      ->required()
      ->check(CLI::IsMember({"folded", "speedscope", "csv"}));
  app.add_option("-o,--output", arguments->output, "file to write; default: stdout");
  arguments->add_at(app);
  arguments->add_selection(app);
  return [arguments](const Program&) { return run_export(*arguments); };
}

}  // namespace cuheap
