// Variable-length integers of the trace: 7 bits a byte, lowest first, the top bit says that more follow.
// Signed values are folded first (zigzag), so that small negative numbers stay short.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cuheap {

constexpr std::size_t kMaxVarintBytes = 10;

/// Writes `value` at `out`, which has kMaxVarintBytes of room; returns the byte after it.
inline std::uint8_t* encode_varint(std::uint8_t* out, std::uint64_t value) {
  while (value >= 0x80) {
    *out++ = static_cast<std::uint8_t>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<std::uint8_t>(value);
  return out;
}

/// Reads one value from [in, end); returns the byte after it, or null if the bytes end first or the value is longer
/// than 64 bits.
inline const std::uint8_t* decode_varint(const std::uint8_t* in, const std::uint8_t* end, std::uint64_t* value) {
  std::uint64_t result = 0;
  for (unsigned shift = 0; in != end && shift < 64; shift += 7) {
    const std::uint8_t byte = *in++;
    if (shift == 63 && byte > 1) return nullptr;
    result |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      return in;
    }
  }
  return nullptr;
}

constexpr std::uint64_t fold_sign(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unfold_sign(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

}  // namespace cuheap
