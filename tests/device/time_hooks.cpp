// time_hooks LIBRARY: times driver calls bare, hooked without pool and pooled, by running itself in turns (so that a drift of
// the machine hits all alike), and the VMM calls bare. Prints rows for docs/measured.md: medians over rounds.
//
//   time_hooks LIBRARY             all modes, a table
//   time_hooks --measure           one round in this process, machine-readable; used by the above
#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

struct Driver {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  template <typename Function>
  Function* find(const char* name) const {
    void* const symbol = library != nullptr ? dlsym(library, name) : nullptr;
    if (symbol == nullptr) {
      std::fprintf(stderr, "time_hooks: no %s in libcuda.so.1\n", name);
      std::exit(2);
    }
    return reinterpret_cast<Function*>(symbol);
  }
};

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "time_hooks: %s failed with %d\n", what, static_cast<int>(result));
  std::exit(1);
}

template <typename Action>
double median_ns(int rounds, int per_round, Action action) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < per_round; ++i) action();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    times.push_back(taken.count() / per_round);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds) / 2];
}

void measure_pairs(const Driver& driver) {
  auto* const alloc = driver.find<CUresult(CUdeviceptr*, size_t)>("cuMemAlloc_v2");
  auto* const release = driver.find<CUresult(CUdeviceptr)>("cuMemFree_v2");
  auto* const info = driver.find<CUresult(size_t*, size_t*)>("cuMemGetInfo_v2");
  for (const size_t bytes : {size_t{4096}, size_t{1} << 20, size_t{20} << 20, size_t{256} << 20}) {
    const double ns = median_ns(25, 20, [&] {
      CUdeviceptr memory = 0;
      check(alloc(&memory, bytes), "cuMemAlloc");
      check(release(memory), "cuMemFree");
    });
    std::printf("cuMemAlloc+cuMemFree %zu KiB\t%.0f\n", bytes >> 10, ns);
  }
  std::printf("cuMemGetInfo\t%.0f\n", median_ns(25, 20, [&] {
    size_t free_bytes = 0, total = 0;
    check(info(&free_bytes, &total), "cuMemGetInfo");
  }));
}

void measure_vmm(const Driver& driver) {
  auto* const reserve = driver.find<CUresult(CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long)>("cuMemAddressReserve");
  auto* const unreserve = driver.find<CUresult(CUdeviceptr, size_t)>("cuMemAddressFree");
  using Create = CUresult(CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long);
  auto* const create = driver.find<Create>("cuMemCreate");
  auto* const release = driver.find<CUresult(CUmemGenericAllocationHandle)>("cuMemRelease");
  auto* const map = driver.find<CUresult(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)>("cuMemMap");
  auto* const unmap = driver.find<CUresult(CUdeviceptr, size_t)>("cuMemUnmap");
  auto* const access = driver.find<CUresult(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t)>("cuMemSetAccess");
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemAccessDesc grant{};
  grant.location = prop.location;
  grant.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  for (const size_t bytes : {size_t{2} << 20, size_t{20} << 20, size_t{64} << 20, size_t{256} << 20}) {
    CUdeviceptr range = 0;
    check(reserve(&range, bytes, 0, 0, 0), "cuMemAddressReserve");
    double times[5] = {};
    constexpr int kRounds = 20;
    for (int round = 0; round < kRounds; ++round) {
      CUmemGenericAllocationHandle handle = 0;
      const auto timed = [&](double& sum, auto&& call, const char* what) {
        const auto start = std::chrono::steady_clock::now();
        check(call(), what);
        sum += std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kRounds;
      };
      timed(times[0], [&] { return create(&handle, bytes, &prop, 0); }, "cuMemCreate");
      timed(times[1], [&] { return map(range, bytes, 0, handle, 0); }, "cuMemMap");
      timed(times[2], [&] { return access(range, bytes, &grant, 1); }, "cuMemSetAccess");
      timed(times[3], [&] { return unmap(range, bytes); }, "cuMemUnmap");
      timed(times[4], [&] { return release(handle); }, "cuMemRelease");
    }
    check(unreserve(range, bytes), "cuMemAddressFree");
    const char* const names[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease"};
    for (int i = 0; i < 5; ++i) std::printf("%s %zu MiB\t%.0f\n", names[i], bytes >> 20, times[i]);
  }
}

int measure(bool with_vmm) {
  const Driver driver;
  check(driver.find<CUresult(unsigned)>("cuInit")(0), "cuInit");
  CUcontext context = nullptr;
  check(driver.find<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0), "cuDevicePrimaryCtxRetain");
  check(driver.find<CUresult(CUcontext)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  measure_pairs(driver);
  if (with_vmm) measure_vmm(driver);
  return 0;
}

using Times = std::map<std::string, std::vector<double>>;

bool run_round(const char* self, const char* library, const char* pool, Times& times) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  char folder[] = "/tmp/time_hooks.XXXXXX";
  if (mkdtemp(folder) == nullptr) return false;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    close(ends[0]);
    setenv("CUHEAP_DIR", folder, 1);
    setenv("CUHEAP_POOL", pool, 1);
    if (library != nullptr) setenv("LD_PRELOAD", library, 1);
    execl(self, self, library != nullptr ? "--measure" : "--measure-vmm", nullptr);
    _exit(127);
  }
  close(ends[1]);
  FILE* const lines = fdopen(ends[0], "r");
  char line[256];
  while (std::fgets(line, sizeof line, lines) != nullptr) {
    char* const tab = std::strchr(line, '\t');
    if (tab != nullptr) times[std::string(line, static_cast<size_t>(tab - line))].push_back(std::atof(tab + 1));
  }
  std::fclose(lines);
  int status = 0;
  waitpid(child, &status, 0);
  const std::string remove = std::string("rm -rf ") + folder;
  return std::system(remove.c_str()) == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--measure") == 0) return measure(false);
  if (argc == 2 && std::strcmp(argv[1], "--measure-vmm") == 0) return measure(true);
  if (argc != 2) {
    std::fprintf(stderr, "usage: time_hooks LIBRARY (the path of libcuheap.so)\n");
    return 2;
  }
  Times bare, direct, pooled;
  for (int round = 0; round < 5; ++round) {
    if (!run_round("/proc/self/exe", nullptr, "off", bare) || !run_round("/proc/self/exe", argv[1], "off", direct) ||
        !run_round("/proc/self/exe", argv[1], "on", pooled)) {
      std::fprintf(stderr, "time_hooks: a round failed\n");
      return 1;
    }
  }
  std::printf("| call | bare ns | recorded ns | added ns | pooled ns |\n|---|---|---|---|---|\n");
  for (const auto& [name, times] : bare) {
    const double b = median(times);
    if (direct.contains(name)) {
      const double recorded = median(direct[name]);
      std::printf("| %s | %.0f | %.0f | %+.0f | %.0f |\n", name.c_str(), b, recorded, recorded - b, median(pooled[name]));
    } else {
      std::printf("| %s | %.0f | | | |\n", name.c_str(), b);
    }
  }
  return 0;
}
