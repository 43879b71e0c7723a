#include "tracer/format/varint.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace cuheap {
namespace {

constexpr std::uint64_t kBorders[] = {0,     1,     127,              128,        16383,
                                      16384, (1ull << 63) - 1, 1ull << 63, std::numeric_limits<std::uint64_t>::max()};

TEST(Varint, ReturnsWhatWasWritten) {
  for (const std::uint64_t value : kBorders) {
    std::uint8_t bytes[kMaxVarintBytes];
    const std::uint8_t* const end = encode_varint(bytes, value);
    std::uint64_t read = ~value;

    EXPECT_EQ(decode_varint(bytes, end, &read), end);

    EXPECT_EQ(read, value);
  }
}

TEST(Varint, SmallNumbersTakeOneByte) {
  std::uint8_t bytes[kMaxVarintBytes];
  EXPECT_EQ(encode_varint(bytes, 127) - bytes, 1);
  EXPECT_EQ(encode_varint(bytes, 128) - bytes, 2);
}

TEST(Varint, RefusesEveryTruncation) {
  for (const std::uint64_t value : kBorders) {
    std::uint8_t bytes[kMaxVarintBytes];
    const std::uint8_t* const end = encode_varint(bytes, value);
    for (const std::uint8_t* cut = bytes; cut != end; ++cut) {
      std::uint64_t read = 0;
      EXPECT_EQ(decode_varint(bytes, cut, &read), nullptr);
    }
  }
}

TEST(Varint, RefusesMoreThan64Bits) {
  const std::uint8_t eleven[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01};
  const std::uint8_t too_big[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
  std::uint64_t read = 0;
  EXPECT_EQ(decode_varint(eleven, eleven + sizeof eleven, &read), nullptr);
  EXPECT_EQ(decode_varint(too_big, too_big + sizeof too_big, &read), nullptr);
}

TEST(Varint, FoldingSignsIsItsOwnInverse) {
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1}, std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(unfold_sign(fold_sign(value)), value);
  }
  EXPECT_EQ(fold_sign(-1), 1u);
}

}  // namespace
}  // namespace cuheap
