// Events read per second, from a file of ten million: sizes and lifetimes as a training step makes them (sizes of the
// caching allocator's classes, stack discipline with a long-lived tenth), one to four threads.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "bench/compare.h"
#include "tools/reader/trace_file_writer.h"
#include "tools/reader/trace_reader.h"

namespace {

using namespace cuheap;

constexpr std::size_t kSites = 2000;

std::string file_of(std::size_t events, unsigned threads) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("cuheap_bench_" + std::to_string(events) + "_" + std::to_string(threads) + ".cuheap"))
                               .string();
  TraceFileWriter writer(path, {.start_ns = 1});
  SiteId parent = 0;
  for (std::uint32_t i = 1; i <= kSites; ++i) {
    parent = writer.define_source_site(
        i % 20 == 0 ? 0 : parent,
        writer.define_code(Language::Python, "function" + std::to_string(i % 300), "train.py"), i);
  }
  std::mt19937_64 random(7);
  constexpr std::array<std::uint64_t, 6> kSizes{512, 2048, 65536, 1 << 20, 8 << 20, 20 << 20};
  std::vector<std::vector<std::uint64_t>> live(threads);
  std::uint64_t time = 1;
  for (std::size_t i = 0; i < events; ++i) {
    const unsigned thread = static_cast<unsigned>(random() % threads);
    Event e;
    e.time_ns = time += random() % 4000;
    e.thread = thread + 1;
    e.floor = Floor::Framework;
    e.family = Family::Tensor;
    e.site = 1 + static_cast<SiteId>(random() % kSites);
    auto& own = live[thread];
    if (own.size() > 64 && random() % 2 == 0) {
      const std::size_t at = random() % 10 == 0 ? random() % own.size() : own.size() - 1;
      e.kind = EventKind::Free;
      e.address = own[at];
      own[at] = own.back();
      own.pop_back();
    } else {
      e.kind = EventKind::Allocate;
      e.address = (random() % (1ull << 26)) * 512;
      e.size = kSizes[random() % kSizes.size()] + 512 * (random() % 8);
      own.push_back(e.address);
    }
    writer.write(e);
  }
  writer.finish(time);
  return path;
}

void open_and_stream(benchmark::State& state) {
  const std::size_t events = static_cast<std::size_t>(state.range(0));
  const std::string path = file_of(events, static_cast<unsigned>(state.range(1)));
  for (auto _ : state) {
    const Trace trace = open_trace(path);
    std::uint64_t bytes = 0, seen = 0;
    trace.events->for_each([&](std::span<const Event> batch) {
      for (const Event& event : batch) bytes += event.size;
      seen += batch.size();
    });
    benchmark::DoNotOptimize(bytes);
    if (seen != events) state.SkipWithError("events are missing");
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(events) * state.iterations());
  state.counters["bytes_per_event"] =
      static_cast<double>(std::filesystem::file_size(path)) / static_cast<double>(events);
  std::filesystem::remove(path);
}

void stream_only(benchmark::State& state) {
  const std::size_t events = static_cast<std::size_t>(state.range(0));
  const std::string path = file_of(events, static_cast<unsigned>(state.range(1)));
  const Trace trace = open_trace(path);
  for (auto _ : state) {
    std::uint64_t bytes = 0;
    trace.events->for_each([&](std::span<const Event> batch) {
      for (const Event& event : batch) bytes += event.size;
    });
    benchmark::DoNotOptimize(bytes);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(events) * state.iterations());
  std::filesystem::remove(path);
}

/// The bare call: every byte of the same file read and added up, nothing understood.
void read_bytes(benchmark::State& state) {
  const std::string path = file_of(static_cast<std::size_t>(state.range(0)), static_cast<unsigned>(state.range(1)));
  std::vector<std::uint64_t> buffer(std::size_t{1} << 17);
  for (auto _ : state) {
    std::ifstream file(path, std::ios::binary);
    std::uint64_t sum = 0;
    while (file.read(reinterpret_cast<char*>(buffer.data()), static_cast<std::streamsize>(buffer.size() * 8)) || file.gcount() > 0)
      for (std::size_t i = 0; i < static_cast<std::size_t>(file.gcount()) / 8; ++i) sum += buffer[i];
    benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(std::filesystem::file_size(path)) * state.iterations());
  std::filesystem::remove(path);
}

// CUHEAP_BENCH_EVENTS makes the file small where only its working is tested.
std::int64_t events_wanted() {
  const char* const text = std::getenv("CUHEAP_BENCH_EVENTS");
  return text != nullptr ? std::atoll(text) : 10'000'000;
}

void shapes(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t threads : {1, 4}) bench->Args({events_wanted(), threads});
  bench->ArgNames({"events", "threads"})->Unit(benchmark::kMillisecond);
}

BENCHMARK(open_and_stream)->Name("Reader/open_and_stream")->Apply(shapes);
BENCHMARK(stream_only)->Name("Reader/stream")->Apply(shapes);
BENCHMARK(read_bytes)->Name("Reader/bytes")->Apply(shapes);

}  // namespace

int main(int argc, char** argv) {
  return cuheap::bench::run_and_compare(argc, argv, {{"Reader/open_and_stream/", "Reader/bytes/*"}, {"Reader/stream/", "Reader/bytes/*"}});
}
