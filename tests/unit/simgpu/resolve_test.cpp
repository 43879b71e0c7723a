#include <dlfcn.h>

#include <fstream>

#include "fixture.h"

namespace cuheap::sim::test {
namespace {

void* exported(const char* symbol) {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return ::dlsym(library, symbol);
}

struct Answer {
  void* address = reinterpret_cast<void*>(1);
  CUdriverProcAddressQueryResult status{};
  std::string result;
};

Answer resolve(const char* name, int version, cuuint64_t flags = 0) {
  Answer answer;
  answer.result = name_of(cuGetProcAddress_v2(name, &answer.address, version, flags, &answer.status));
  return answer;
}

}  // namespace

TEST(GetProcAddress, TheVersionPicksTheSymbol) {
  EXPECT_EQ(resolve("cuMemAlloc", 2000).address, exported("cuMemAlloc"));
  EXPECT_EQ(resolve("cuMemAlloc", 3020).address, exported("cuMemAlloc_v2"));
  EXPECT_EQ(resolve("cuMemAlloc", 12080).address, exported("cuMemAlloc_v2"));
  EXPECT_EQ(resolve("cuCtxCreate", 11040).address, exported("cuCtxCreate_v3"));
  EXPECT_EQ(resolve("cuCtxGetDevice", 12080).address, exported("cuCtxGetDevice"));
  EXPECT_EQ(resolve("cuCtxGetDevice", 13000).address, exported("cuCtxGetDevice_v2"));
  EXPECT_EQ(resolve("cuGetProcAddress", 11030).address, exported("cuGetProcAddress"));
  EXPECT_EQ(resolve("cuGetProcAddress", 12000).address, exported("cuGetProcAddress_v2"));
}

TEST(GetProcAddress, TheFlagPicksTheStreamFlavourWhereThereIsOne) {
  EXPECT_EQ(resolve("cuMemAllocAsync", 11020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM).address, exported("cuMemAllocAsync_ptsz"));
  EXPECT_EQ(resolve("cuMemcpyHtoD", 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM).address, exported("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(resolve("cuMemAlloc", 3020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM).address, exported("cuMemAlloc_v2"));
  EXPECT_EQ(resolve("cuMemAllocAsync", 11020, CU_GET_PROC_ADDRESS_LEGACY_STREAM).address, exported("cuMemAllocAsync"));
}

TEST(GetProcAddress, WhatIsMissingIsASuccessWithoutAnAddress) {
  const Answer unknown = resolve("cuNoSuchThing", 12000);
  EXPECT_EQ(unknown.result, "CUDA_SUCCESS");
  EXPECT_EQ(unknown.address, nullptr);
  EXPECT_EQ(unknown.status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  const Answer old = resolve("cuMemCreate", 9000);
  EXPECT_EQ(old.result, "CUDA_SUCCESS");
  EXPECT_EQ(old.address, nullptr);
  EXPECT_EQ(old.status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(resolve("cuMemAlloc", CUDA_VERSION + 10).result, "CUDA_ERROR_INVALID_VALUE");
  void* address = nullptr;
  EXPECT_CU(cuGetProcAddress_v2("cuMemAlloc", &address, 12000, 0, nullptr));
}

TEST(GetProcAddress, EveryExportIsThereAndEveryTableRowIsThatExport) {
  size_t rows = 0;
#define SIMGPU_PROC(name, version, per_thread, symbol)                                                  \
  {                                                                                                     \
    ++rows;                                                                                             \
    const Answer answer = resolve(name, version, per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0); \
    EXPECT_NE(answer.address, nullptr) << #symbol;                                                      \
    EXPECT_EQ(answer.address, exported(#symbol)) << #symbol;                                            \
  }
#include "proc_table.inc"
#undef SIMGPU_PROC
  EXPECT_GT(rows, 600u);
  std::ifstream exports(SIMGPU_EXPORTS);
  size_t names = 0;
  for (std::string name; std::getline(exports, name); ++names) EXPECT_NE(exported(name.c_str()), nullptr) << name;
  EXPECT_GT(names, 600u);
}

TEST(GetProcAddress, UnimplementedFunctionsSayNotSupported) {
  cuInit(0);
  EXPECT_CU_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate(nullptr, nullptr));
  const void* table = &table;
  const CUuuid id{};
  EXPECT_CU_ERROR(CUDA_ERROR_NOT_FOUND, cuGetExportTable(&table, &id));
  EXPECT_EQ(table, nullptr);
}

}  // namespace cuheap::sim::test
