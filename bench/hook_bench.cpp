// What a hook costs: cuMemAlloc + cuMemFree through libcuheap.so against the bare calls, on a driver that does nothing
// (tests/programs/odd_driver), in one process. Stacks on and off need a process each, since options are read once: the
// program runs itself twice. Twenty frames lie between main and the call, one site, as in a hot loop.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "bench/compare.h"
#include "shim/driver/cuda_api.h"
#include "tracer/format/trace_format.h"

namespace {

struct Calls {
  CUresult (*init)(unsigned);
  CUresult (*allocate)(CUdeviceptr*, std::size_t);
  CUresult (*free)(CUdeviceptr);
};
Calls bare, hooked;

Calls calls_of(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "hook_bench: %s\n", dlerror());
    std::exit(2);
  }
  const auto find = [library](const char* name) { return dlsym(library, name); };
  return {reinterpret_cast<decltype(Calls::init)>(find("cuInit")), reinterpret_cast<decltype(Calls::allocate)>(find("cuMemAlloc_v2")),
          reinterpret_cast<decltype(Calls::free)>(find("cuMemFree_v2"))};
}

__attribute__((noinline)) void loop_at_depth(benchmark::State& state, const Calls& calls, int depth) {
  if (depth > 0) {
    loop_at_depth(state, calls, depth - 1);
    benchmark::ClobberMemory();  // no sibling call
    return;
  }
  for (auto _ : state) {
    CUdeviceptr address = 0;
    if (calls.allocate(&address, 4096) != CUDA_SUCCESS || calls.free(address) != CUDA_SUCCESS) state.SkipWithError("refused");
    benchmark::DoNotOptimize(address);
  }
}

constexpr int kFrames = 20;
constexpr std::int64_t kPairs = 1 << 20;

/// CPU time of the thread: on a shared machine the clock on the wall measures the neighbours.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_of_pair(const Calls& calls) {
  const double start = cpu_seconds();
  CUdeviceptr address = 0;
  for (std::int64_t i = 0; i < kPairs; ++i) {
    calls.allocate(&address, 4096);
    calls.free(address);
  }
  return (cpu_seconds() - start) / kPairs;
}

void bare_pair(benchmark::State& state) { loop_at_depth(state, bare, kFrames); }

void hooked_pair(benchmark::State& state) {
  // The ratio is taken within the run: the same loop on bare calls, just before.
  const double bare_seconds = seconds_of_pair(bare);
  const double start = cpu_seconds();
  loop_at_depth(state, hooked, kFrames);
  const double seconds = (cpu_seconds() - start) / static_cast<double>(kPairs);
  state.counters["bare_ns"] = benchmark::Counter(bare_seconds * 1e9, benchmark::Counter::kAvgThreads);
  state.counters["times_bare"] = benchmark::Counter(seconds / bare_seconds, benchmark::Counter::kAvgThreads);
  state.counters["added_ns_per_event"] = benchmark::Counter((seconds - bare_seconds) * 1e9 / 2, benchmark::Counter::kAvgThreads);
}

/// Events lost and bytes per event of the only trace in the folder.
void print_trace(const std::filesystem::path& folder, const char* label) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    cuheap::FileHeader header{};
    std::ifstream(entry.path(), std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof(header));
    std::uint64_t lost = 0;
    for (const std::uint64_t count : header.lost_events) lost += count;
    std::printf("stacks %s: events lost %llu, trace %.1f MiB\n", label, static_cast<unsigned long long>(lost),
                static_cast<double>(entry.file_size()) / (1 << 20));
  }
}

int run_with(const char* stacks, int argc, char** argv) {
  std::string folder = std::filesystem::temp_directory_path() / "hook-bench-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 2;
  const pid_t child = fork();
  if (child == 0) {
    setenv("CUHEAP_STACKS", stacks, 1);
    setenv("CUHEAP_DIR", folder.c_str(), 1);
    setenv("CUHEAP_POOL", "off", 1);
    setenv("HOOK_BENCH_CHILD", stacks, 1);
    execv("/proc/self/exe", argv);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  print_trace(folder, stacks);
  std::filesystem::remove_all(folder);
  static_cast<void>(argc);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

int measure(const std::string& stacks, int argc, char** argv) {
  bare = calls_of(HOOK_BENCH_DRIVER);
  hooked = calls_of(HOOK_BENCH_LIBRARY);
  if (hooked.init(0) != CUDA_SUCCESS) return 2;
  benchmark::RegisterBenchmark("Hook/bare_pair", bare_pair)->Iterations(kPairs);
  const std::string name = stacks == "native" ? "Hook/pair_with_stacks" : "Hook/pair_without_stacks";
  for (const int threads : {1, 2}) benchmark::RegisterBenchmark(name.c_str(), hooked_pair)->Iterations(kPairs)->Threads(threads);
  return cuheap::bench::run_and_compare(argc, argv, {{"Hook/pair_with", "Hook/bare_pair"}});
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* const stacks = std::getenv("HOOK_BENCH_CHILD")) return measure(stacks, argc, argv);
  const int with = run_with("native", argc, argv);
  const int without = run_with("off", argc, argv);
  return with != 0 ? with : without;
}
