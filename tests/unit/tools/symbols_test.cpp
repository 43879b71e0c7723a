#include "tools/reader/symbols.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tools/reader/elf_image.h"

extern "C" __attribute__((noinline)) int symbols_test_known_function(int x) {
  asm volatile("" : "+r"(x));
  return x + 1;
}

namespace cuheap {
namespace {

struct Here {
  std::string path = std::filesystem::read_symlink("/proc/self/exe").string();
  std::uint64_t base = 0, offset = 0;
  Here() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&symbols_test_known_function), &info) == 0) return;
    base = reinterpret_cast<std::uint64_t>(info.dli_fbase);
    offset = reinterpret_cast<std::uint64_t>(&symbols_test_known_function) - base;
  }
};

TEST(Symbols, NamesAFunctionOfThisProgram) {
  const Here here;
  Symbols symbols;
  const std::uint64_t offsets[] = {here.offset};

  const Symbols::Frames frames = symbols.resolve({here.path, "", here.base}, offsets)[0];

  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].function, "symbols_test_known_function");
  EXPECT_EQ(frames[0].module, std::filesystem::path(here.path).filename());
  EXPECT_EQ(frames[0].language, FrameLanguage::Native);
}

TEST(Symbols, KnowsFileAndLineWhereThereIsDebugInformation) {
  const Here here;
  Symbols symbols;
  const std::uint64_t offsets[] = {here.offset};

  const Frame frame = symbols.resolve({here.path, "", here.base}, offsets)[0][0];

  EXPECT_TRUE(frame.file.ends_with("symbols_test.cpp")) << frame.file;
  EXPECT_NEAR(frame.line, 10, 3);
}

TEST(Symbols, GivesOffsetsOfAModuleThatIsNotThere) {
  Symbols symbols;
  const std::uint64_t offsets[] = {0x1a2b, 0x10};

  const auto frames = symbols.resolve({"/nowhere/libgone.so", "", 0}, offsets);

  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0][0].function, "libgone.so+0x1a2b");
  EXPECT_EQ(frames[1][0].function, "libgone.so+0x10");
  EXPECT_EQ(symbols.notes().size(), 1u);
}

TEST(Symbols, DoesNotTrustAnotherBuild) {
  const Here here;
  Symbols symbols;
  const std::uint64_t offsets[] = {here.offset};

  const Frame frame = symbols.resolve({here.path, "not its build-id", here.base}, offsets)[0][0];

  EXPECT_NE(frame.function.find("+0x"), std::string::npos);
  ASSERT_EQ(symbols.notes().size(), 1u);
  EXPECT_NE(symbols.notes()[0].find("another build"), std::string::npos);
}

TEST(Symbols, DemanglesOnlyWhatIsMangled) {
  EXPECT_EQ(demangled("_ZN3foo3barEi"), "foo::bar(int)");
  EXPECT_EQ(demangled("main"), "main");
}

TEST(ElfImage, IsNullForWhatIsNoElfFile) {
  EXPECT_EQ(ElfImage::open("/dev/null"), nullptr);
  EXPECT_EQ(ElfImage::open("/proc/self/status"), nullptr);
}

}  // namespace
}  // namespace cuheap
