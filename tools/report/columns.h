// Columns: the page's data as named number columns, packed so that a browser unpacks them with DecompressionStream.
// Layout of a section: the columns' bytes one after the other, then zlib-deflated as a whole. Column codes:
//   uint   LEB128 of each value
//   delta  LEB128 of zigzag(value - previous value), previous of the first is 0
//   text   UTF-8 strings, each ended by a zero byte
// The decoder is web/src/columns.ts; values stay below 2^53, the page's numbers are doubles.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace cuheap {

class PageSection {
 public:
  explicit PageSection(std::string name) : name_(std::move(name)) {}

  void add_uint(std::string_view column, std::span<const std::uint64_t> values);
  void add_delta(std::string_view column, std::span<const std::int64_t> values);
  void add_text(std::string_view column, std::span<const std::string> values);

  const std::string& name() const { return name_; }
  /// What the page needs to unpack it: {"bytes", "columns": [{"name","code","offset","count"}]}.
  nlohmann::json description() const;
  std::string packed_base64() const;

 private:
  void open_column(std::string_view column, std::string_view code, std::size_t count);

  std::string name_;
  std::string bytes_;
  nlohmann::json columns_ = nlohmann::json::array();
};

std::string base64(std::string_view bytes);

}  // namespace cuheap
