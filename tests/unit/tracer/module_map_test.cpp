#include "tracer/module_map.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <exception>
#include <map>
#include <string>

namespace cuheap {
namespace {

struct Known {
  std::uint64_t base, size;
  std::string path, build_id;
};

class ModuleMapTest : public ::testing::Test {
 protected:
  void refresh() {
    ModuleScan scan;
    ASSERT_TRUE(scan.run());
    map_.merge(scan, [this](const ModuleRecord& module) {
      known_[module.id] = {module.base, module.size, {module.path.data, module.path.size}, {module.build_id.data, module.build_id.size}};
      return true;
    });
  }
  const Known* module_at(const void* address) const {
    const Module* const module = map_.find(reinterpret_cast<std::uint64_t>(address));
    return module != nullptr ? &known_.at(module->id) : nullptr;
  }

  ModuleMap map_;
  std::map<std::uint32_t, Known> known_;
};

TEST_F(ModuleMapTest, AgreesWithTheLoaderAboutEveryModule) {
  refresh();
  for (const void* const address : {reinterpret_cast<const void*>(&loader_generation), reinterpret_cast<const void*>(&dlopen),
                                    reinterpret_cast<const void*>(&std::terminate)}) {
    Dl_info info;
    ASSERT_NE(dladdr(address, &info), 0);
    const Known* const module = module_at(address);
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(module->base, reinterpret_cast<std::uint64_t>(info.dli_fbase));
    EXPECT_EQ(module->path.front(), '/');
    EXPECT_GE(module->build_id.size(), 16u);
  }
}

TEST_F(ModuleMapTest, HoldsNoAddressOutsideOfModules) {
  refresh();
  int local = 0;
  EXPECT_EQ(module_at(&local), nullptr);
  EXPECT_EQ(module_at(nullptr), nullptr);
}

TEST_F(ModuleMapTest, GivesNoNewIdsWhenNothingChanged) {
  refresh();
  const std::size_t count = known_.size();
  refresh();
  EXPECT_EQ(known_.size(), count);
}

TEST_F(ModuleMapTest, GivesAnotherLibraryAtTheSameAddressAnotherId) {
  std::map<std::uint64_t, std::uint32_t> id_at_base;
  int reused = 0;
  for (int round = 0; round < 6; ++round) {
    void* const library = dlopen(round % 2 == 0 ? FRAMES_SMALL : FRAMES_LARGE, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr);
    void* const function = dlsym(library, "call_through");
    EXPECT_NE(map_.generation(), loader_generation());

    refresh();

    EXPECT_EQ(map_.generation(), loader_generation());
    const Module* const module = map_.find(reinterpret_cast<std::uint64_t>(function));
    ASSERT_NE(module, nullptr);
    EXPECT_NE(known_.at(module->id).path.find(round % 2 == 0 ? "small" : "large"), std::string::npos);
    const auto [entry, is_new] = id_at_base.emplace(module->base, module->id);
    if (!is_new) {
      ++reused;
      EXPECT_NE(entry->second, module->id);
      entry->second = module->id;
    }
    dlclose(library);
  }
  EXPECT_GT(reused, 0) << "no address was used twice: nothing was tested";
}

TEST_F(ModuleMapTest, MarksModulesByTheirFileName) {
  const char* const patterns[] = {"libc.so", "/lib", nullptr};
  map_.set_patterns(patterns);
  refresh();
  EXPECT_EQ(map_.find(reinterpret_cast<std::uint64_t>(&getppid))->bits, 1u) << "folders do not count";
  EXPECT_EQ(map_.find(reinterpret_cast<std::uint64_t>(&loader_generation))->bits, 0u);
  EXPECT_FALSE(map_.find(reinterpret_cast<std::uint64_t>(&loader_generation))->is_ours)
      << "linked into the program, the program is the host";
}

}  // namespace
}  // namespace cuheap
