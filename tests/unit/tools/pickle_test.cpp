#include "tools/importers/pickle.h"

#include <gtest/gtest.h>

#include "tests/unit/tools/pickles.h"
#include "tools/model/error.h"

namespace cuheap {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::string error_of(const Bytes& bytes) {
  try {
    const Pickle pickle(bytes, "f.pickle");
  } catch (const Error& error) { return error.what(); }
  return "";
}

TEST(Pickle, ReadsNumbersOfEveryWidth) {
  const Bytes bytes = PickleBytes()
                          .begin_list()
                          .op("K\x07")
                          .op(std::string("M\x01\x02", 3))
                          .op("J\xfe\xff\xff\xff")
                          .number(1ull << 40)
                          .end_list()
                          .done();

  const Pickle pickle(bytes, "f");
  const auto items = pickle.items(pickle.root());

  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(pickle.integer(items[0]), 7);
  EXPECT_EQ(pickle.integer(items[1]), 0x201);
  EXPECT_EQ(pickle.integer(items[2]), -2);
  EXPECT_EQ(pickle.integer(items[3]), std::int64_t{1} << 40);
}

TEST(Pickle, ExtendsTheSignOfShortLongs) {
  const Bytes bytes = PickleBytes().op(std::string("\x8a\x01\xff", 3)).done();

  const Pickle pickle(bytes, "f");

  EXPECT_EQ(pickle.integer(pickle.root()), -1);
}

TEST(Pickle, CallsLongerNumbersBigInsteadOfCuttingThem) {
  const Bytes bytes = PickleBytes().op(std::string("\x8a\x09\x01\x00\x00\x00\x00\x00\x00\x00\x01", 11)).done();

  const Pickle pickle(bytes, "f");

  EXPECT_EQ(pickle.type(pickle.root()), Pickle::Type::BigInt);
  EXPECT_EQ(pickle.integer(pickle.root()), std::nullopt);
}

TEST(Pickle, FindsTheLastValueOfAKey) {
  const Bytes bytes =
      PickleBytes().begin_dict().text("a").number(1).text("b").number(2).text("a").number(3).end_dict().done();

  const Pickle pickle(bytes, "f");

  EXPECT_EQ(pickle.integer(*pickle.find(pickle.root(), "a")), 3);
  EXPECT_EQ(pickle.find(pickle.root(), "c"), std::nullopt);
}

TEST(Pickle, SharesMemoisedValues) {
  const Bytes bytes = PickleBytes().begin_list().text("x").op("\x94").op(std::string("h\x00", 2)).end_list().done();

  const Pickle pickle(bytes, "f");
  const auto items = pickle.items(pickle.root());

  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0], items[1]);
}

TEST(Pickle, RefusesEverythingThatCouldRunCode) {
  for (const char* const raw :
       {"cos\nsystem\n", "\x93", "R", "b", "\x81", "\x92", "i", "o", "\x82\x01", "Pid\n", "Q"}) {
    const std::string line = error_of(PickleBytes().text("x").text("y").op(raw).done());
    EXPECT_NE(line.find("refused"), std::string::npos) << raw << ": " << line;
  }
}

TEST(Pickle, NamesTheByteOfDamage) {
  const std::string line = error_of(PickleBytes().text("abc").op("\x01").done());

  EXPECT_NE(line.find("f.pickle: at byte 7"), std::string::npos) << line;
}

TEST(Pickle, NeverLoopsOnAContainerThatHoldsItself) {
  const Bytes bytes = PickleBytes().op("]\x94").op(std::string("h\x00", 2)).op("a").done();

  const Pickle pickle(bytes, "f");

  EXPECT_EQ(pickle.items(pickle.root())[0], pickle.root());
}

TEST(Pickle, AHugeMemoNumberCostsNoMemory) {
  EXPECT_NE(error_of(PickleBytes().text("x").op("r\xff\xff\xff\xff").done()).find("damaged"), std::string::npos);
}

TEST(Pickle, AHugeTextLengthIsATruncatedFile) {
  EXPECT_NE(error_of(PickleBytes().op("X\xff\xff\xff\x7f").done()).find("truncated"), std::string::npos);
}

TEST(Pickle, RefusesOtherProtocols) {
  EXPECT_NE(error_of({'(', 'l', '.'}).find("no pickle of protocol 2 to 5"), std::string::npos);
  EXPECT_NE(error_of(PickleBytes(6).text("x").done()).find("protocol 6"), std::string::npos);
  for (const char protocol : {'\2', '\3', '\4', '\5'}) EXPECT_EQ(error_of(PickleBytes(protocol).text("x").done()), "");
}

TEST(Pickle, EveryPrefixIsAnErrorAndNoCrash) {
  const Bytes bytes = snapshot_bytes({{0x1000, 4096, false, {{0x1000, 512}}}}, {{"alloc", 0x1000, 512, 5}});

  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(error_of(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size))), "") << size;
  }
  EXPECT_EQ(error_of(bytes), "");
}

}  // namespace
}  // namespace cuheap
