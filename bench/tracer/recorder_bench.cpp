// What one recorded event costs the host's thread, and the trace: without and with its stack, on one thread and on two.
// Workload: allocate and free in pairs, sizes by a fixed list of the kind that dense training asks for (512 B to 512 MiB, few
// distinct ones), addresses multiples of 512. Stacks are 20 frames deep, by `kSites` different call paths. Each run writes a
// real file in the folder of TMPDIR (default /tmp); the helper keeps up, and losses are reported, never hidden.
#include <benchmark/benchmark.h>
#include <execinfo.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "bench/compare.h"
#include "tracer/backtrace.h"
#include "tracer/recorder.h"

namespace {

using namespace cuheap;

constexpr int kDepth = 20;
constexpr std::uint64_t kSites = 64;
constexpr std::array<std::uint64_t, 8> kSizes = {512, 2048, 20480, 1 << 20, 2 << 20, 16 << 20, 64 << 20, 512u << 20};

class RunFolder {
 public:
  explicit RunFolder(bool stacks) {
    const char* const base = std::getenv("TMPDIR");
    std::string name = std::string(base != nullptr ? base : "/tmp") + "/cuheap-bench-XXXXXX";
    path_ = mkdtemp(name.data());
    if (!recorder().start({path_.c_str(), stacks, nullptr})) std::abort();
    file_ = recorder().trace_path();
    while (std::filesystem::file_size(file_) < (std::size_t{16} << 20)) {}  // the helper's first stock
  }
  ~RunFolder() { std::filesystem::remove_all(path_); }
  // Bytes per event over used chunks, and losses.
  void report(benchmark::State& state, double events) {
    recorder().stop();
    std::ifstream file(file_, std::ios::binary);
    FileHeader header;
    file.read(reinterpret_cast<char*>(&header), sizeof(header));
    double bytes = 0;
    double lost = 0;
    for (const std::uint64_t count : header.lost_events) lost += static_cast<double>(count);
    for (std::size_t at = kHeaderBytes; file.seekg(static_cast<std::streamoff>(at)); at += kChunkBytes) {
      ChunkHeader chunk;
      if (!file.read(reinterpret_cast<char*>(&chunk), sizeof(chunk))) break;
      if (chunk.state != ChunkState::Stock) bytes += chunk.committed;
    }
    state.counters["bytes/event"] = bytes / (events - lost);
    state.counters["lost"] = lost;
  }

 private:
  std::string path_, file_;
};

RunFolder* folder = nullptr;

Event event_of(std::uint64_t i, std::uint64_t thread) {
  Event event;
  event.kind = (i & 1) == 0 ? EventKind::Allocate : EventKind::Free;
  event.floor = Floor::Allocation;
  event.family = Family::Device;
  event.address = 0x7f0000000000u + (thread << 36) + ((i >> 1) * 2654435761u % 4096) * 512;
  if (event.kind == EventKind::Allocate) event.size = kSizes[(i >> 1) % kSizes.size()];
  return event;
}

// `path` takes one of two call sites at each of six levels: 64 different stacks of the same depth.
[[gnu::noinline]] void record_at(int depth, std::uint64_t path, std::uint64_t i, std::uint64_t thread) {
  if (depth == 0) {
    const HookScope scope;
    Event event = event_of(i, thread);
    event.site = recorder().capture_site(scope, 0).id;
    recorder().record(event);
  } else if ((path & 1) != 0) {
    record_at(depth - 1, path >> 1, i, thread);
    asm volatile("");
  } else {
    record_at(depth - 1, path >> 1, i, thread);
    asm volatile("" ::: "memory");
  }
}

void setup_without_stacks(const benchmark::State&) { folder = new RunFolder(false); }
void setup_with_stacks(const benchmark::State&) { folder = new RunFolder(true); }

void finish(benchmark::State& state) {
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
  if (state.thread_index() == 0) folder->report(state, static_cast<double>(state.iterations()) * state.threads());
}
void teardown(const benchmark::State&) {
  recorder().stop();
  delete folder;
}

void record_event(benchmark::State& state) {
  const auto thread = static_cast<std::uint64_t>(state.thread_index());
  std::uint64_t i = 0;
  for (auto _ : state) {
    const HookScope scope;
    recorder().record(event_of(i++, thread));
  }
  finish(state);
}

void record_event_with_stack(benchmark::State& state) {
  const auto thread = static_cast<std::uint64_t>(state.thread_index());
  // benchmark's own frames below main are some; the rest is ours.
  std::uint64_t i = 0;
  for (auto _ : state) {
    record_at(kDepth - 8, i % kSites, i, thread);
    ++i;
  }
  finish(state);
}

unsigned capture_ours() {
  std::uintptr_t frames[kMaxFrames];
  const Backtrace trace = capture(frames, kMaxFrames);
  benchmark::DoNotOptimize(frames);
  return trace.depth;
}

/// The peer: what the C library offers.
unsigned capture_glibc() {
  void* frames[kMaxFrames];
  const int depth = backtrace(frames, static_cast<int>(kMaxFrames));
  benchmark::DoNotOptimize(frames);
  return static_cast<unsigned>(depth);
}

template <unsigned (*Capture)()>
[[gnu::noinline]] unsigned capture_at(int depth) {
  if (depth != 0) {
    const unsigned result = capture_at<Capture>(depth - 1);
    asm volatile("");
    return result;
  }
  return Capture();
}

template <unsigned (*Capture)()>
void capture_stack(benchmark::State& state) {
  prepare_backtraces();
  unsigned depth = 0;
  for (auto _ : state) depth = capture_at<Capture>(static_cast<int>(state.range(0)));
  state.counters["frames"] = benchmark::Counter(depth, benchmark::Counter::kAvgThreads);
}

void read_clock(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(now_ns());
}

}  // namespace

BENCHMARK(read_clock)->Name("Recorder/read_clock");
void depths(benchmark::internal::Benchmark* bench) {
  for (const int depth : {2, 12, 32, 80}) bench->Arg(depth);
  bench->Threads(1)->Threads(2)->UseRealTime();
}
BENCHMARK(capture_stack<capture_ours>)->Name("Backtrace/capture")->Apply(depths);
BENCHMARK(capture_stack<capture_glibc>)->Name("Backtrace/glibc")->Apply(depths);
// Fixed numbers of events: file sizes and the page cache are part of the cost.
BENCHMARK(record_event)->Name("Recorder/record")->Setup(setup_without_stacks)->Teardown(teardown)
    ->Iterations(3'000'000)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(record_event_with_stack)->Name("Recorder/capture_and_record")->Setup(setup_with_stacks)->Teardown(teardown)
    ->Iterations(3'000'000)->Threads(1)->Threads(2)->UseRealTime();

int main(int argc, char** argv) {
  return cuheap::bench::run_and_compare(argc, argv, {{"Backtrace/capture/", "Backtrace/glibc/*"},
                                                     {"Recorder/record/", "Recorder/read_clock"},
                                                     {"Recorder/capture_and_record/", "Recorder/record/*"}});
}
