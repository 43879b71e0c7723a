#include "shim/hooks/entry_names.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "shim/driver/elf_symbols.h"

namespace cuheap {
namespace {

constexpr const char* kHooks[] = {
#define CUHEAP_HOOK(name, need, action) #name,
#define CUHEAP_PASS(name, why)
#include "shim/hooks/entry_points.inc"
#undef CUHEAP_HOOK
#undef CUHEAP_PASS
};
constexpr const char* kPasses[] = {
#define CUHEAP_HOOK(name, need, action)
#define CUHEAP_PASS(name, why) #name,
#include "shim/hooks/entry_points.inc"
#undef CUHEAP_HOOK
#undef CUHEAP_PASS
};

std::set<std::string> driver_functions() {
  std::set<std::string> names;
  LoadedObject driver;
  if (dlopen(SIMGPU_CUDA, RTLD_NOW | RTLD_LOCAL) == nullptr || !find_object("libcuda.so.1", &driver)) return names;
  driver.for_each_function([](const char* name, void* context) { static_cast<std::set<std::string>*>(context)->insert(name); }, &names);
  return names;
}

TEST(EntryNames, AreFoundExactly) {
  for (const char* name : kHooks) EXPECT_GE(find_entry_number(name), 0) << name;

  for (const char* name : {"cuMemAlloc_v3", "cuMemAlloc_v", "cuMemAllo", "cudaMalloc", "cublasCreate_v2", "cudnnCreate", "cu", "c", ""})
    EXPECT_EQ(find_entry_number(name), -1) << name;
  EXPECT_EQ(find_entry_number(nullptr), -1);
}

TEST(EntryNames, NumberTheHookTable) {
  int number = 0;
  for (const char* name : kHooks) EXPECT_EQ(find_entry_number(name), number++) << name;
}

TEST(EntryNames, AreInOneListOnly) {
  std::multiset<std::string> all(std::begin(kHooks), std::end(kHooks));
  all.insert(std::begin(kPasses), std::end(kPasses));

  for (const std::string& name : all) EXPECT_EQ(all.count(name), 1u) << name;
}

// The self-audit: no memory function of the public API is unclassified.
TEST(EntryNames, CoverEveryMemoryFunctionOfTheDriver) {
  const std::set<std::string> functions = driver_functions();
  ASSERT_GT(functions.size(), 600u);

  for (const std::string& name : functions) EXPECT_TRUE(!is_memory_name(name.c_str()) || is_classified(name.c_str())) << name;
}

TEST(EntryNames, AreNamesOfTheDriver) {
  std::set<std::string> functions = driver_functions();
  functions.insert({"cuMulticastBindMem_v2", "cuMulticastBindAddr_v2"});  // 13.1

  for (const char* name : kHooks) EXPECT_TRUE(functions.contains(name)) << name;
  for (const char* name : kPasses) EXPECT_TRUE(functions.contains(name)) << name;
}

TEST(EntryNames, NeverIncludeTheExportTables) {
  EXPECT_EQ(find_entry_number("cuGetExportTable"), -1);
}

TEST(EntryNames, AreWhatTheLibraryShows) {
  std::ifstream map(SHIM_FOLDER "/exports.map");
  std::set<std::string> shown;
  for (std::string line; std::getline(map, line);) {
    line.erase(0, line.find_first_not_of(' '));
    if (line.starts_with("cu") && !line.starts_with("cuheap_")) shown.insert(line.substr(0, line.find(';')));
  }

  EXPECT_EQ(shown, std::set<std::string>(std::begin(kHooks), std::end(kHooks)));
}

}  // namespace
}  // namespace cuheap
