// Every name of the committed tables is exported under the version node that real consumers ask for, and the BLAS
// stand-ins keep their state.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

std::vector<std::string> names(const std::string& table) {
  std::ifstream file(SIMGPU_SOURCE "/" + table);
  std::vector<std::string> result;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') result.push_back(line);
  }
  return result;
}

void* open_library(const std::string& name) {
  void* library = dlopen((SIMGPU_LIBRARIES "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return library;
}

struct Library {
  const char* file;  // the version node has the same name
  const char* table;
  size_t at_least;
};

class Exports : public testing::TestWithParam<Library> {};

TEST_P(Exports, HoldEveryNameUnderTheVersionNode) {
  void* library = open_library(GetParam().file);
  const std::vector<std::string> wanted = names(GetParam().table);
  ASSERT_GE(wanted.size(), GetParam().at_least);
  for (const std::string& name : wanted) { EXPECT_NE(dlvsym(library, name.c_str(), GetParam().file), nullptr) << name; }
}

INSTANTIATE_TEST_SUITE_P(Simgpu, Exports,
                         testing::Values(Library{"libcudart.so.13", "libcudart/names_13.txt", 420},
                                         Library{"libcudart.so.12", "libcudart/names_12.txt", 430},
                                         Library{"libcublas.so.13", "libraries/names_cublas.txt", 700},
                                         Library{"libcublas.so.12", "libraries/names_cublas.txt", 700},
                                         Library{"libcublasLt.so.13", "libraries/names_cublaslt.txt", 45},
                                         Library{"libcublasLt.so.12", "libraries/names_cublaslt.txt", 45}));

TEST(Stubs, AreNamedInTheCallLog) {
  char path[] = "/tmp/simgpu-log-XXXXXX";
  close(mkstemp(path));
  setenv("SIMGPU_LOG", path, 1);
  void* library = open_library("libcudart.so.13");
  auto* stub = reinterpret_cast<int (*)()>(dlsym(library, "cudaImportExternalMemory"));
  ASSERT_NE(stub, nullptr);
  EXPECT_EQ(stub(), 801);
  unsetenv("SIMGPU_LOG");
  std::string text;
  std::getline(std::ifstream(path), text);
  EXPECT_NE(text.find("cudaImportExternalMemory"), std::string::npos) << text;
  unlink(path);
}

template <typename Function>
Function entry(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

TEST(Cublas, AHandleKeepsWhatItIsTold) {
  void* library = open_library("libcublas.so.13");
  void* handle = nullptr;
  ASSERT_EQ(entry<int (*)(void**)>(library, "cublasCreate_v2")(&handle), 0);
  int mode = -1;
  EXPECT_EQ(entry<int (*)(void*, int)>(library, "cublasSetMathMode")(handle, 3), 0);
  EXPECT_EQ(entry<int (*)(void*, int*)>(library, "cublasGetMathMode")(handle, &mode), 0);
  EXPECT_EQ(mode, 3);
  int x = 0;
  void* stream = nullptr;
  EXPECT_EQ(entry<int (*)(void*, void*)>(library, "cublasSetStream_v2")(handle, &x), 0);
  EXPECT_EQ(entry<int (*)(void*, void**)>(library, "cublasGetStream_v2")(handle, &stream), 0);
  EXPECT_EQ(stream, &x);
  float result = 5;
  EXPECT_EQ(
      entry<int (*)(void*, int, const float*, int, float*)>(library, "cublasSnrm2_v2")(handle, 1, nullptr, 1, &result),
      0);
  EXPECT_EQ(result, 0.0f);  // in host memory, so deterministic
  EXPECT_EQ(entry<int (*)(void*, int)>(library, "cublasSetMathMode")(nullptr, 3), 1);  // not initialised
  EXPECT_EQ(entry<int (*)(void*)>(library, "cublasDestroy_v2")(handle), 0);
}

TEST(CublasLt, TheHeuristicAnswersOneAlgorithm) {
  void* library = open_library("libcublasLt.so.13");
  void* handle = nullptr;
  void* operation = nullptr;
  ASSERT_EQ(entry<int (*)(void**)>(library, "cublasLtCreate")(&handle), 0);
  ASSERT_EQ(entry<int (*)(void**, int, int)>(library, "cublasLtMatmulDescCreate")(&operation, 68, 0), 0);
  struct {
    std::uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
  } results[2] = {};
  results[0].state = 14;
  int returned = 0;
  auto* heuristic = entry<int (*)(void*, void*, void*, void*, void*, void*, void*, int, void*, int*)>(
      library, "cublasLtMatmulAlgoGetHeuristic");
  EXPECT_EQ(heuristic(handle, operation, nullptr, nullptr, nullptr, nullptr, nullptr, 2, results, &returned), 0);
  EXPECT_EQ(returned, 1);
  EXPECT_EQ(results[0].state, 0);
  EXPECT_EQ(results[0].workspace, 0u);
}

TEST(CublasLt, AMatrixLayoutKeepsItsAttributes) {
  void* library = open_library("libcublasLt.so.13");
  void* layout = nullptr;
  const std::uint64_t wide = ~std::uint64_t{0} >> 8;
  ASSERT_EQ(entry<int (*)(void**, int, std::uint64_t, std::uint64_t, std::int64_t)>(
                library, "cublasLtMatrixLayoutCreate")(&layout, 14, 4096, 50304, 4096),
            0);
  auto* set = entry<int (*)(void*, int, const void*, size_t)>(library, "cublasLtMatrixLayoutSetAttribute");
  auto* get = entry<int (*)(void*, int, void*, size_t, size_t*)>(library, "cublasLtMatrixLayoutGetAttribute");
  const std::int32_t batch = 24;
  EXPECT_EQ(set(layout, 5, &batch, sizeof batch), 0);
  EXPECT_EQ(set(layout, 6, &wide, sizeof wide), 0);
  std::uint64_t columns = 0;
  std::uint64_t stride = 0;
  std::int32_t count = 0;
  size_t written = 0;
  EXPECT_EQ(get(layout, 3, &columns, sizeof columns, &written), 0);
  EXPECT_EQ(columns, 50304u);
  EXPECT_EQ(written, sizeof columns);
  EXPECT_EQ(get(layout, 6, &stride, sizeof stride, &written), 0);
  EXPECT_EQ(stride, wide);
  EXPECT_EQ(get(layout, 5, &count, sizeof count, &written), 0);
  EXPECT_EQ(count, batch);
  EXPECT_EQ(get(layout, 3, &columns, 4, &written), 7);  // too small a place
}

}  // namespace
