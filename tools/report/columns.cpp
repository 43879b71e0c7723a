#include "tools/report/columns.h"

#include <stdexcept>

#include <zlib.h>

namespace cuheap {
namespace {

void append_leb128(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

std::string deflate_bytes(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string packed(size, '\0');
  const int status = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                               reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()), 6);
  if (status != Z_OK) throw std::runtime_error("the page's data could not be compressed");
  packed.resize(size);
  return packed;
}

}  // namespace

void PageSection::open_column(std::string_view column, std::string_view code, std::size_t count) {
  columns_.push_back({{"name", column}, {"code", code}, {"offset", bytes_.size()}, {"count", count}});
}

void PageSection::add_uint(std::string_view column, std::span<const std::uint64_t> values) {
  open_column(column, "uint", values.size());
  for (const std::uint64_t value : values) append_leb128(bytes_, value);
}

void PageSection::add_delta(std::string_view column, std::span<const std::int64_t> values) {
  open_column(column, "delta", values.size());
  std::int64_t previous = 0;
  for (const std::int64_t value : values) {
    append_leb128(bytes_, zigzag(value - previous));
    previous = value;
  }
}

void PageSection::add_text(std::string_view column, std::span<const std::string> values) {
  open_column(column, "text", values.size());
  for (const std::string& value : values) {
    bytes_ += value.substr(0, value.find('\0'));
    bytes_.push_back('\0');
  }
}

nlohmann::json PageSection::description() const { return {{"bytes", bytes_.size()}, {"columns", columns_}}; }

std::string PageSection::packed_base64() const { return base64(deflate_bytes(bytes_)); }

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    const auto byte = [&](std::size_t n) { return n < left ? static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i + n])) : 0U; };
    const std::uint32_t word = byte(0) << 16 | byte(1) << 8 | byte(2);
    text.push_back(kDigits[word >> 18]);
    text.push_back(kDigits[word >> 12 & 63]);
    text.push_back(left > 1 ? kDigits[word >> 6 & 63] : '=');
    text.push_back(left > 2 ? kDigits[word & 63] : '=');
  }
  return text;
}

}  // namespace cuheap
