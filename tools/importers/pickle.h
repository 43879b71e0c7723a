// Pickle: the data in a Python pickle, protocols 2 to 5, and nothing but data. An opcode that could import, call or
// build an object is refused; nothing recurses; memory is a small multiple of the file. First step of importing a
// snapshot.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cuheap {

class Pickle {
 public:
  enum class Type : std::uint8_t { None, Bool, Int, BigInt, Float, String, List, Tuple, Dict };
  using Ref = std::uint32_t;  // of a value; values that the pickle shares have one Ref

  /// Strings stay in `bytes`, which must outlive the Pickle. Throws Error naming `file` and the offset in it.
  Pickle(std::span<const std::uint8_t> bytes, const std::string& file);

  Ref root() const { return root_; }
  Type type(Ref value) const { return values_[value].type; }
  /// An Int or Bool; nothing else is a number here.
  std::optional<std::int64_t> integer(Ref value) const;
  std::optional<std::string_view> string(Ref value) const;
  /// Elements of a List or Tuple; empty for the rest.
  std::span<const Ref> items(Ref value) const;
  /// The last value under `key` of a Dict, or none.
  std::optional<Ref> find(Ref dict, std::string_view key) const;

 private:
  class Parser;
  struct Value {
    std::uint64_t bits = 0;    // Int, Bool: the number; String: offset; List, Tuple, Dict: index of its elements
    std::uint32_t length = 0;  // String
    Type type = Type::None;
  };
  std::span<const std::uint8_t> bytes_;
  std::vector<Value> values_;
  std::vector<std::vector<Ref>> elements_;  // a Dict holds key, value, key, value ...
  Ref root_ = 0;
};

}  // namespace cuheap
