// Every way to reach a driver function but linking: dlsym, and cuGetProcAddress of both forms in all flag modes.
#include <dlfcn.h>

#include "program.h"

using Allocate = CUresult (*)(CUdeviceptr*, size_t);
using AllocateAsync = CUresult (*)(CUdeviceptr*, size_t, CUstream);
using Free = CUresult (*)(CUdeviceptr);
using Query1 = CUresult (*)(const char*, void**, int, cuuint64_t);
using Query2 = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

static void* library;

template <typename F>
static F by_dlsym(const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

static void use(const char* how, void* allocate, void* free, size_t bytes) {
  CUdeviceptr address = 0;
  if (allocate == nullptr || free == nullptr) {
    std::printf("%s: not found\n", how);
    return;
  }
  say(how, reinterpret_cast<Allocate>(allocate)(&address, bytes));
  say(how, reinterpret_cast<Free>(free)(address));
}

static void* query2(Query2 query, const char* name, int version, cuuint64_t flags) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult result = query(name, &function, version, flags, &status);
  std::printf("%s version %d flags %d -> %d, status %d, found %d\n", name, version, static_cast<int>(flags), result, status,
              function != nullptr);
  return function;
}

static void* query1(Query1 query, const char* name, int version) {
  void* function = nullptr;
  const CUresult result = query(name, &function, version, 0);
  std::printf("v1 %s version %d -> %d, found %d\n", name, version, result, function != nullptr);
  return function;
}

int main() {
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 1;
  std::printf("unknown name found %d\n", dlsym(library, "cuNoSuchFunction") != nullptr);
  say("cuInit", by_dlsym<CUresult (*)(unsigned)>("cuInit")(0));
  CUcontext context = nullptr;
  say("retain", by_dlsym<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0));
  say("current", by_dlsym<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(context));

  use("dlsym", dlsym(library, "cuMemAlloc_v2"), dlsym(library, "cuMemFree_v2"), 20010);
  const auto v1 = by_dlsym<Query1>("cuGetProcAddress");
  const auto v2 = by_dlsym<Query2>("cuGetProcAddress_v2");
  use("v1", query1(v1, "cuMemAlloc", 11030), query1(v1, "cuMemFree", 11030), 20011);
  use("v2", query2(v2, "cuMemAlloc", 12000, 0), query2(v2, "cuMemFree", 12000, 0), 20012);
  use("v2 per thread", query2(v2, "cuMemAlloc", 12000, 2), query2(v2, "cuMemFree", 12000, 2), 20013);

  const auto async = reinterpret_cast<AllocateAsync>(query2(v2, "cuMemAllocAsync", 11020, 2));
  const auto async_free = reinterpret_cast<CUresult (*)(CUdeviceptr, CUstream)>(query2(v2, "cuMemFreeAsync", 11020, 2));
  CUdeviceptr address = 0;
  say("per-thread async", async(&address, 20014, nullptr));
  say("per-thread async free", async_free(address, nullptr));

  // The door itself, by both versions of itself.
  const auto v1_again = reinterpret_cast<Query1>(query2(v2, "cuGetProcAddress", 11030, 0));
  const auto v2_again = reinterpret_cast<Query2>(query2(v2, "cuGetProcAddress", 12000, 0));
  use("v1 of v2", query1(v1_again, "cuMemAlloc", 3020), query1(v1_again, "cuMemFree", 3020), 20015);
  use("v2 of v2", query2(v2_again, "cuMemAlloc", 3020, 1), query2(v2_again, "cuMemFree", 3020, 1), 20016);

  // What is not there is not there.
  query2(v2, "cuNoSuchFunction", 12000, 0);
  query2(v2, "cuMemAlloc", 99990, 0);
  query2(v2, "cuMemAllocAsync", 11000, 0);
  void* function = nullptr;
  say("no status wanted", v2("cuMemAlloc", &function, 3020, 0, nullptr));
}
