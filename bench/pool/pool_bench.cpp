// What the pool costs apart from the driver: alloc+free pairs that hit, on a driver whose calls cost nothing, and best fit
// among many holes. Budget of design 11 for the pair: 150 ns on one thread without tracing.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "bench/compare.h"
#include "shim/pool/pool.h"
#include "tracer/base/process.h"

namespace cuheap {
namespace {

// Every call succeeds at once. Handles and addresses are counters; there is no budget and no bookkeeping.
struct FreeOfCharge {
  DriverTable table = {};
  static inline std::atomic<std::uint64_t> next_handle{1};
  static inline std::atomic<std::uint64_t> next_address{std::uint64_t{0x7f} << 40};

  FreeOfCharge() {
    table.cuMemCreate = [](CUmemGenericAllocationHandle* out, size_t, const CUmemAllocationProp*, unsigned long long) {
      *out = next_handle.fetch_add(1);
      return CUDA_SUCCESS;
    };
    table.cuMemRelease = [](CUmemGenericAllocationHandle) { return CUDA_SUCCESS; };
    table.cuMemAddressReserve = [](CUdeviceptr* out, size_t size, size_t, CUdeviceptr, unsigned long long) {
      *out = next_address.fetch_add(size);
      return CUDA_SUCCESS;
    };
    table.cuMemAddressFree = [](CUdeviceptr, size_t) { return CUDA_SUCCESS; };
    table.cuMemMap = [](CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long) { return CUDA_SUCCESS; };
    table.cuMemUnmap = [](CUdeviceptr, size_t) { return CUDA_SUCCESS; };
    table.cuMemSetAccess = [](CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; };
    table.cuMemGetAllocationGranularity = [](size_t* out, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
      *out = kGranuleBytes;
      return CUDA_SUCCESS;
    };
    table.cuMemGetInfo_v2 = [](size_t* free, size_t* total) {
      *free = 64 * kPoolGiB;
      *total = 80 * kPoolGiB;
      return CUDA_SUCCESS;
    };
    table.cuDeviceGet = [](CUdevice* out, int ordinal) {
      *out = ordinal;
      return CUDA_SUCCESS;
    };
    table.cuDeviceGetAttribute = [](int* out, CUdevice_attribute, CUdevice) {
      *out = 1;
      return CUDA_SUCCESS;
    };
    table.cuDeviceTotalMem_v2 = [](size_t* out, CUdevice) {
      *out = 80 * kPoolGiB;
      return CUDA_SUCCESS;
    };
    table.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
    table.cuCtxPushCurrent_v2 = [](CUcontext) { return CUDA_SUCCESS; };
    table.cuCtxPopCurrent_v2 = [](CUcontext*) { return CUDA_SUCCESS; };
    table.cuEventCreate = [](CUevent* out, unsigned) {
      *out = reinterpret_cast<CUevent>(next_handle.fetch_add(1));
      return CUDA_SUCCESS;
    };
    table.cuEventDestroy_v2 = [](CUevent) { return CUDA_SUCCESS; };
    table.cuEventQuery = [](CUevent) { return CUDA_SUCCESS; };
    table.cuEventSynchronize = [](CUevent) { return CUDA_SUCCESS; };
    table.cuCtxRecordEvent = [](CUcontext, CUevent) { return CUDA_SUCCESS; };
    table.cuMemAlloc_v2 = [](CUdeviceptr* out, size_t bytes) {
      *out = next_address.fetch_add(bytes);
      return CUDA_SUCCESS;
    };
    table.cuMemFree_v2 = [](CUdeviceptr) { return CUDA_SUCCESS; };
  }
};

class Nowhere final : public EventSink {
 public:
  void record(const Event&) override {}
};

struct Bench {
  FreeOfCharge driver;
  Nowhere sink;
  std::unique_ptr<Pool> pool = std::make_unique<Pool>();
  AllocationRequest request;

  explicit Bench(bool ordered) {
    if (!process::claim()) std::abort();
    PoolConfig config;
    config.driver = &driver.table;
    config.sink = &sink;
    config.is_forced = true;
    config.ordered_free = ordered;
    config.has_context_events = true;
    pool->start(config);
    request.caller.device = 0;
    request.caller.context = 0x1000;
  }
  CUdeviceptr get(std::size_t bytes) {
    request.bytes = bytes;
    CUdeviceptr out = 0;
    std::uint8_t flags = 0;
    if (pool->allocate(request, &out, &flags) != CUDA_SUCCESS || flags != kEventPooled) std::abort();
    return out;
  }
  void drop(CUdeviceptr address) {
    if (pool->release(request.caller, address) != CUDA_SUCCESS) std::abort();
  }
  /// About `holes` holes, each between two live blocks; sizes uniform over eight units.
  void make_holes(std::size_t holes, std::size_t unit) {
    std::mt19937_64 random(1);
    std::vector<CUdeviceptr> blocks;
    for (std::size_t i = 0; i < 2 * holes; ++i) blocks.push_back(get(unit * (1 + random() % 8)));
    for (std::size_t i = 0; i < blocks.size(); i += 2) drop(blocks[i]);
  }
};

void hit(benchmark::State& state, bool ordered) {
  Bench bench(ordered);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  bench.drop(bench.get(bytes));
  for (auto _ : state) {
    const CUdeviceptr block = bench.get(bytes);
    benchmark::DoNotOptimize(block);
    bench.drop(block);
  }
  if (!bench.pool->is_valid()) state.SkipWithError("the pool's books are wrong");
}

void hit_sync(benchmark::State& state) { hit(state, false); }
void hit_ordered(benchmark::State& state) { hit(state, true); }
BENCHMARK(hit_sync)->Name("Pool/alloc_free_pair/free:sync")->Arg(20001)->Arg(3 << 20)->Arg(100 << 20);
BENCHMARK(hit_ordered)->Name("Pool/alloc_free_pair/free:ordered")->Arg(20001)->Arg(3 << 20)->Arg(100 << 20);

void hit_with_holes(benchmark::State& state) {
  Bench bench(false);
  bench.make_holes(static_cast<std::size_t>(state.range(0)), 64 << 10);
  for (auto _ : state) {
    const CUdeviceptr block = bench.get(200 << 10);
    benchmark::DoNotOptimize(block);
    bench.drop(block);
  }
}
BENCHMARK(hit_with_holes)->Name("Pool/alloc_free_pair/holes")->Arg(1024);

void bare_pair(benchmark::State& state) {
  FreeOfCharge driver;
  for (auto _ : state) {
    CUdeviceptr block = 0;
    driver.table.cuMemAlloc_v2(&block, 20001);
    benchmark::DoNotOptimize(block);
    driver.table.cuMemFree_v2(block);
  }
}
BENCHMARK(bare_pair)->Name("Pool/bare_pair");

void best_fit(benchmark::State& state) {
  FreeIndex index;
  std::mt19937_64 random(7);
  std::uint64_t at = kPoolGiB;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    const std::uint64_t size = (1 + random() % 512) * kPinPageBytes;
    if (!index.insert({at, size})) state.SkipWithError("no memory");
    at += size + kPinPageBytes;
  }
  for (auto _ : state) {
    const FreeRange range = index.best_fit((1 + random() % 256) * kPinPageBytes, kPinPageBytes);
    benchmark::DoNotOptimize(range);
    if (!index.remove(range) || !index.insert(range)) state.SkipWithError("the index lost a range");
  }
  if (!index.is_valid()) state.SkipWithError("the index is not valid");
}
BENCHMARK(best_fit)->Name("FreeIndex/best_fit_remove_insert/holes")->Arg(64)->Arg(1024)->Arg(16384);

/// The peer: what the C++ library offers for the same two questions, the smallest hole that fits and the hole at an address.
void best_fit_in_std_maps(benchmark::State& state) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size;
  std::map<std::uint64_t, std::uint64_t> by_address;
  std::mt19937_64 random(7);
  std::uint64_t at = kPoolGiB;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    const std::uint64_t size = (1 + random() % 512) * kPinPageBytes;
    by_size.emplace(size, at);
    by_address.emplace(at, size);
    at += size + kPinPageBytes;
  }
  for (auto _ : state) {
    const auto found = by_size.lower_bound({(1 + random() % 256) * kPinPageBytes, 0});
    if (found == by_size.end()) continue;
    const auto [size, address] = *found;
    by_size.erase(found);
    by_address.erase(address);
    benchmark::DoNotOptimize(address);
    by_size.emplace(size, address);
    by_address.emplace(address, size);
  }
}
BENCHMARK(best_fit_in_std_maps)->Name("FreeIndex/std_maps/holes")->Arg(64)->Arg(1024)->Arg(16384);

// A miss: plan, claim and commit of two new handles; the driver costs nothing, so this is our part of the slow path.
void grow(benchmark::State& state) {
  Bench bench(false);
  std::vector<CUdeviceptr> blocks;
  for (auto _ : state) {
    blocks.push_back(bench.get(4 << 20));
    if (blocks.size() == 4096) {
      state.PauseTiming();
      for (const CUdeviceptr block : blocks) bench.drop(block);
      blocks.clear();
      static_cast<void>(bench.pool->relieve(bench.request.caller.device, ~std::size_t{0}));
      state.ResumeTiming();
    }
  }
}
BENCHMARK(grow)->Name("Pool/grow_by_4MiB");

/// The calls that a growth makes of the driver, alone.
void bare_growth(benchmark::State& state) {
  FreeOfCharge driver;
  const CUmemAllocationProp properties{};
  const CUmemAccessDesc access{};
  for (auto _ : state) {
    for (int i = 0; i < 2; ++i) {
      CUmemGenericAllocationHandle handle = 0;
      driver.table.cuMemCreate(&handle, kGranuleBytes, &properties, 0);
      driver.table.cuMemMap(kPoolGiB, kGranuleBytes, 0, handle, 0);
    }
    benchmark::DoNotOptimize(driver.table.cuMemSetAccess(kPoolGiB, 2 * kGranuleBytes, &access, 1));
  }
}
BENCHMARK(bare_growth)->Name("Pool/bare_growth");

}  // namespace
}  // namespace cuheap

int main(int argc, char** argv) {
  return cuheap::bench::run_and_compare(argc, argv, {{"Pool/alloc_free_pair/", "Pool/bare_pair"},
                                                     {"Pool/grow_by_4MiB", "Pool/bare_growth"},
                                                     {"FreeIndex/best_fit_remove_insert/holes", "FreeIndex/std_maps/holes*"}});
}
