#include "shim/driver/driver.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

namespace cuheap {
namespace {

// One story in one test: a process meets its driver once.
TEST(Driver, AnswersForAnAbsentLibraryAndThenIsTheLoadedOne) {
  ASSERT_FALSE(find_driver());
  CUdeviceptr address = 0;
  EXPECT_EQ(driver().cuInit(0), CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(driver().cuMemAlloc_v2(&address, 1024), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_FALSE(has(driver().cuMemAlloc_v2));
  EXPECT_EQ(driver_range().end, 0u);

  // A program that looks for a device, closes what it opened, and later opens another libcuda.
  void* const first = dlopen(ODD_DRIVER, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(first, nullptr) << dlerror();
  EXPECT_EQ(driver().cuInit(0), CUDA_SUCCESS);
  EXPECT_FALSE(is_driver_simulated());
  dlclose(first);

  void* const library = dlopen(SIMGPU_CUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();

  ASSERT_TRUE(find_driver_again());
  EXPECT_EQ(driver().cuInit(0), CUDA_SUCCESS);
  EXPECT_TRUE(is_driver_found());
  EXPECT_TRUE(is_driver_simulated());
  for (std::size_t i = 0; i < kDriverSlotCount; ++i)
    EXPECT_EQ(driver_function(kDriverSlots[i]), dlsym(library, kDriverSlots[i].name)) << kDriverSlots[i].name;
  EXPECT_TRUE(has(driver().cuMemAlloc_v2));
  // Since 13.1; this one is a 13.0.
  EXPECT_FALSE(has(driver().cuMulticastBindMem_v2));
  EXPECT_EQ(driver().cuMulticastBindMem_v2(0, 0, 0, 0, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace cuheap
