// Runs the benches of a program and then puts each figure beside its peer of the same run: another way to do the same work, or
// the bare call. Machines drift, pairs do not. Every pair is a line that begins with "ratio", which bench/run gathers.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace cuheap::bench {

/// `figure`: how the names of the runs begin; `peer`: how the name of the run to compare with begins. A "*" at its end stands
/// for the rest of the figure's own name.
struct Pair {
  const char* figure;
  const char* peer;
};

/// Prints as the library does, and keeps CPU time (of all threads, per iteration): wall time measures the neighbours too.
class Comparison : public benchmark::ConsoleReporter {
 public:
  Comparison() : ConsoleReporter(OO_Tabular) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs)
      if (run.run_type == Run::RT_Iteration && run.iterations > 0)
        times_.emplace_back(run.benchmark_name(), run.cpu_accumulated_time * 1e9 / static_cast<double>(run.iterations));
  }

  void print(std::initializer_list<Pair> pairs) const {
    for (const auto& [figure, peer] : pairs)
      for (const auto& [name, time] : times_)
        if (name.starts_with(figure)) print_pair(name, time, peer_of(peer, name.substr(std::string(figure).size())));
  }

 private:
  using Time = std::pair<std::string, double>;

  [[nodiscard]] const Time* peer_of(std::string wanted, const std::string& rest) const {
    if (wanted.ends_with('*')) wanted.replace(wanted.size() - 1, 1, rest);
    for (const Time& time : times_)
      if (time.first.starts_with(wanted)) return &time;
    return nullptr;
  }

  static void print_pair(const std::string& name, double time, const Time* peer) {
    if (peer == nullptr || peer->second <= 0) return;
    std::printf("ratio\t%s\t%.4g ns\t%s\t%.4g ns\t%.3g\n", name.c_str(), time, peer->first.c_str(), peer->second,
                time / peer->second);
  }

  std::vector<Time> times_;
};

inline int run_and_compare(int argc, char** argv, std::initializer_list<Pair> pairs) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  Comparison comparison;
  benchmark::RunSpecifiedBenchmarks(&comparison);
  comparison.print(pairs);
  return 0;
}

}  // namespace cuheap::bench
