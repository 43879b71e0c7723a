#include "shim/driver/elf_symbols.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace cuheap {
namespace {

TEST(ElfSymbols, FindsWhatDlsymFinds) {
  LoadedObject libc;
  ASSERT_TRUE(find_object("libc.so.6", &libc));
  void* const handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(handle, nullptr);

  // No indirect functions here: their address is what their resolver says, and we do not run it.
  for (const char* name : {"getpid", "fork", "mmap", "qsort", "pthread_create", "environ"}) {
    EXPECT_EQ(libc.find(name), dlsym(handle, name)) << name;
  }
}

TEST(ElfSymbols, FindsNothingThatIsNotThere) {
  LoadedObject libc;
  ASSERT_TRUE(find_object("libc.so.6", &libc));

  EXPECT_EQ(libc.find("no_such_function"), nullptr);
  EXPECT_EQ(libc.find(""), nullptr);
  EXPECT_FALSE(find_object("libnowhere.so.1", &libc));
  EXPECT_EQ(find_symbol("no_such_function", nullptr), nullptr);
}

TEST(ElfSymbols, SkipsTheObjectItIsToldToSkip) {
  LoadedObject libc;
  ASSERT_TRUE(find_object("libc.so.6", &libc));

  EXPECT_EQ(find_symbol("qsort", nullptr), libc.find("qsort"));
  EXPECT_EQ(find_symbol("qsort", libc.find("getpid")), nullptr);
}

TEST(ElfSymbols, ListsAllFunctionsOfAnObject) {
  void* const handle = dlopen(SIMGPU_CUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  LoadedObject driver;
  ASSERT_TRUE(find_object("libcuda.so.1", &driver));
  std::set<std::string> names;

  driver.for_each_function([](const char* name, void* context) { static_cast<std::set<std::string>*>(context)->insert(name); }, &names);

  EXPECT_GT(names.size(), 600u);  // 661 in 12.9, 679 in 13.0
  EXPECT_TRUE(names.contains("cuMemAlloc_v2"));
  EXPECT_TRUE(names.contains("cuGetProcAddress"));
}

TEST(ElfSymbols, SeesThatTheLoaderHasDoneSomething) {
  const std::uint64_t before = loads_and_unloads();
  void* const handle = dlopen("libresolv.so.2", RTLD_NOW);
  ASSERT_NE(handle, nullptr);
  const std::uint64_t between = loads_and_unloads();
  dlclose(handle);

  EXPECT_GT(between, before);
  EXPECT_GT(loads_and_unloads(), between);
}

}  // namespace
}  // namespace cuheap
