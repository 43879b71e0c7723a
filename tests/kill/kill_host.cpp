// kill_host COUNTERS: four threads that allocate and free without end, each counting its finished calls in a file that
// outlives the process, so that whoever kills it knows what must be in the trace.
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

namespace {
constexpr int kThreads = 4;
constexpr int kKept = 16;
struct alignas(64) Counter {
  std::atomic<unsigned long> calls;
};

template <typename Function>
Function* find(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library != nullptr ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}
}  // namespace

int main(int argc, char** argv) {
  const int file = argc == 2 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
  if (file < 0 || ftruncate(file, kThreads * sizeof(Counter)) != 0) {
    std::fprintf(stderr, "usage: kill_host COUNTERS (a file that can be written)\n");
    return 2;
  }
  void* const map = mmap(nullptr, kThreads * sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  auto* const counters = static_cast<Counter*>(map);
  auto* const init = find<CUresult(unsigned)>("cuInit");
  auto* const retain = find<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
  auto* const set = find<CUresult(CUcontext)>("cuCtxSetCurrent");
  auto* const alloc = find<CUresult(CUdeviceptr*, size_t)>("cuMemAlloc_v2");
  auto* const release = find<CUresult(CUdeviceptr)>("cuMemFree_v2");
  CUcontext context = nullptr;
  if (init == nullptr || init(0) != CUDA_SUCCESS || retain(&context, 0) != CUDA_SUCCESS) return 3;

  std::thread threads[kThreads];
  for (int t = 0; t < kThreads; ++t) {
    threads[t] = std::thread([=] {
      if (set(context) != CUDA_SUCCESS) return;
      CUdeviceptr kept[kKept] = {};
      // The size names the thread: 20001 .. 20004.
      for (unsigned long i = 0;; ++i) {
        CUdeviceptr& slot = kept[i % kKept];
        if (slot != 0) {
          if (release(slot) != CUDA_SUCCESS) return;
          slot = 0;
          counters[t].calls.fetch_add(1);
        }
        if (alloc(&slot, static_cast<size_t>(20001 + t)) != CUDA_SUCCESS) return;
        counters[t].calls.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}
