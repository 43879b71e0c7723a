#include "tools/importers/pickle.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "tools/model/error.h"

namespace cuheap {
namespace {

// Names as in the format's own documentation (Lib/pickletools.py). What is not here is refused.
enum Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kBinFloat = 'G',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kShortBinUnicode = 0x8c,
  kBinUnicode = 'X',
  kBinUnicode8 = 0x8d,
  kShortBinBytes = 'C',
  kBinBytes = 'B',
  kBinBytes8 = 0x8e,
  kShortBinString = 'U',
  kBinString = 'T',
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kAppend = 'a',
  kAppends = 'e',
  kList = 'l',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kDict = 'd',
  kSetItem = 's',
  kSetItems = 'u',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kBinGet = 'h',
  kLongBinGet = 'j',
  kProto = 0x80,
  kFrame = 0x95,
};

constexpr unsigned kOldest = 2, kNewest = 5;

bool is_dangerous(std::uint8_t opcode) {
  // GLOBAL INST OBJ NEWOBJ REDUCE BUILD EXT1 EXT2 EXT4 NEWOBJ_EX STACK_GLOBAL PERSID BINPERSID
  return std::memchr("cio\x81Rb\x82\x83\x84\x92\x93PQ", opcode, 13) != nullptr;
}

}  // namespace

class Pickle::Parser {
 public:
  Parser(Pickle& out, const std::string& file) : out_(out), in_(out.bytes_), file_(file) {}

  void run() {
    if (in_.size() < 2 || in_[0] != kProto) fail("no pickle of protocol 2 to 5 begins here");
    if (in_[1] < kOldest || in_[1] > kNewest) fail(fmt::format("pickle protocol {}; 2 to 5 are read", in_[1]));
    for (at_ = 2;;) {
      opcode_at_ = at_;
      const std::uint8_t opcode = static_cast<std::uint8_t>(number(1));
      if (opcode == kStop) break;
      if (!push_scalar(opcode) && !push_text(opcode) && !build(opcode) && !memo(opcode)) refuse(opcode);
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("the pickle ends with an unfinished value");
    out_.root_ = stack_.back();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("{}: at byte {}: {}", file_, opcode_at_, what));
  }
  [[noreturn]] void refuse(std::uint8_t opcode) const {
    if (is_dangerous(opcode))
      fail(fmt::format("opcode {:#04x} would import or call Python code; a memory snapshot never does: refused",
                       opcode));
    fail(fmt::format("opcode {:#04x} does not occur in memory snapshots: damaged, or another kind of pickle", opcode));
  }

  std::span<const std::uint8_t> take(std::uint64_t size) {
    if (size > in_.size() - at_) {
      fail(fmt::format("the file ends here (it has {} bytes): truncated, write the snapshot again or copy it whole",
                       in_.size()));
    }
    const auto taken = in_.subspan(at_, static_cast<std::size_t>(size));
    at_ += static_cast<std::size_t>(size);
    return taken;
  }
  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0;
    const auto bytes = take(size);
    for (std::size_t i = 0; i < size; ++i) value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
    return value;
  }

  Ref make(Type type, std::uint64_t bits = 0, std::uint32_t length = 0) {
    if (out_.values_.size() == std::numeric_limits<Ref>::max()) fail("more values than 32 bits can count");
    out_.values_.push_back({bits, length, type});
    return static_cast<Ref>(out_.values_.size() - 1);
  }
  Ref make_container(Type type, std::vector<Ref> elements = {}) {
    const Ref value = make(type, out_.elements_.size());
    out_.elements_.push_back(std::move(elements));
    return value;
  }
  void push(Ref value) { stack_.push_back(value); }

  Ref pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("an opcode finds too few values: damaged");
    const Ref value = stack_.back();
    stack_.pop_back();
    return value;
  }
  std::vector<Ref> pop_to_mark() {
    if (marks_.empty()) fail("an opcode finds no mark: damaged");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Ref> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return values;
  }
  /// The container below, which takes elements.
  std::vector<Ref>& container(Type type) {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()) || out_.values_[stack_.back()].type != type) {
      fail("an element comes without its list or dictionary: damaged");
    }
    return out_.elements_[out_.values_[stack_.back()].bits];
  }
  void add(std::vector<Ref>& elements, const std::vector<Ref>& values) {
    elements.insert(elements.end(), values.begin(), values.end());
  }
  std::vector<Ref> pairs(std::vector<Ref> values) const {
    if (values.size() % 2 != 0) fail("a dictionary with a key and no value: damaged");
    return values;
  }

  void push_long(std::uint64_t size) {
    const auto bytes = take(size);
    std::uint64_t value = 0;
    const bool negative = size != 0 && (bytes[size - 1] & 0x80) != 0;
    for (std::size_t i = 0; i < 8; ++i) {
      value |= static_cast<std::uint64_t>(i < size ? bytes[i] : negative ? 0xff : 0) << (8 * i);
    }
    push(make(size <= 8 ? Type::Int : Type::BigInt, value));
  }

  bool push_scalar(std::uint8_t opcode) {
    switch (opcode) {
      case kNone:
        push(make(Type::None));
        return true;
      case kNewTrue:
        push(make(Type::Bool, 1));
        return true;
      case kNewFalse:
        push(make(Type::Bool, 0));
        return true;
      case kBinInt:
        push(make(Type::Int,
                  static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(number(4))))));
        return true;
      case kBinInt1:
        push(make(Type::Int, number(1)));
        return true;
      case kBinInt2:
        push(make(Type::Int, number(2)));
        return true;
      case kLong1:
        push_long(number(1));
        return true;
      case kLong4:
        push_long(number(4));
        return true;
      case kBinFloat:
        take(8);
        push(make(Type::Float));
        return true;
      default:
        return false;
    }
  }

  bool push_text(std::uint8_t opcode) {
    std::size_t width = 0;
    switch (opcode) {
      case kShortBinUnicode:
      case kShortBinBytes:
      case kShortBinString:
        width = 1;
        break;
      case kBinUnicode:
      case kBinBytes:
      case kBinString:
        width = 4;
        break;
      case kBinUnicode8:
      case kBinBytes8:
        width = 8;
        break;
      default:
        return false;
    }
    const std::uint64_t size = number(width);
    const std::size_t at = at_;
    take(size);
    if (size > std::numeric_limits<std::uint32_t>::max()) fail("a text of more than 4 GiB");
    push(make(Type::String, at, static_cast<std::uint32_t>(size)));
    return true;
  }

  void push_tuple(std::size_t size) {
    std::vector<Ref> values(size);
    while (size-- > 0) values[size] = pop();
    push(make_container(Type::Tuple, std::move(values)));
  }

  bool build(std::uint8_t opcode) {
    switch (opcode) {
      case kMark:
        marks_.push_back(stack_.size());
        return true;
      case kPop:
        pop();
        return true;
      case kPopMark:
        pop_to_mark();
        return true;
      case kEmptyDict:
        push(make_container(Type::Dict));
        return true;
      case kEmptyList:
        push(make_container(Type::List));
        return true;
      case kEmptyTuple:
        push_tuple(0);
        return true;
      case kTuple1:
        push_tuple(1);
        return true;
      case kTuple2:
        push_tuple(2);
        return true;
      case kTuple3:
        push_tuple(3);
        return true;
      case kTuple:
        push(make_container(Type::Tuple, pop_to_mark()));
        return true;
      case kList:
        push(make_container(Type::List, pop_to_mark()));
        return true;
      case kDict:
        push(make_container(Type::Dict, pairs(pop_to_mark())));
        return true;
      case kAppend: {
        const Ref value = pop();
        container(Type::List).push_back(value);
        return true;
      }
      case kAppends: {
        const std::vector<Ref> values = pop_to_mark();
        add(container(Type::List), values);
        return true;
      }
      case kSetItem: {
        const Ref value = pop(), key = pop();
        add(container(Type::Dict), {key, value});
        return true;
      }
      case kSetItems: {
        const std::vector<Ref> values = pairs(pop_to_mark());
        add(container(Type::Dict), values);
        return true;
      }
      default:
        return false;
    }
  }

  bool memo(std::uint8_t opcode) {
    switch (opcode) {
      case kProto:
        number(1);
        return true;
      case kFrame:
        number(8);
        return true;  // a hint for streaming readers
      case kMemoize:
        put(memo_.size());
        return true;
      case kBinPut:
        put(number(1));
        return true;
      case kLongBinPut:
        put(number(4));
        return true;
      case kBinGet:
        get(number(1));
        return true;
      case kLongBinGet:
        get(number(4));
        return true;
      default:
        return false;
    }
  }

  void put(std::uint64_t slot) {
    const Ref value = pop();
    push(value);
    // Every slot needs an opcode of its own, so that a lying number cannot ask for gigabytes.
    if (slot > in_.size()) fail(fmt::format("memo number {} in a file of {} bytes: damaged", slot, in_.size()));
    if (slot >= memo_.size()) memo_.resize(static_cast<std::size_t>(slot) + 1, kNoValue);
    memo_[static_cast<std::size_t>(slot)] = value;
  }
  void get(std::uint64_t slot) {
    if (slot >= memo_.size() || memo_[static_cast<std::size_t>(slot)] == kNoValue)
      fail("refers to a value that was never stored: damaged");
    push(memo_[static_cast<std::size_t>(slot)]);
  }

  static constexpr Ref kNoValue = std::numeric_limits<Ref>::max();
  Pickle& out_;
  std::span<const std::uint8_t> in_;
  const std::string& file_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::vector<Ref> stack_, memo_;
  std::vector<std::size_t> marks_;
};

Pickle::Pickle(std::span<const std::uint8_t> bytes, const std::string& file) : bytes_(bytes) {
  Parser(*this, file).run();
}

std::optional<std::int64_t> Pickle::integer(Ref value) const {
  const Value& v = values_[value];
  if (v.type != Type::Int && v.type != Type::Bool) return std::nullopt;
  return static_cast<std::int64_t>(v.bits);
}

std::optional<std::string_view> Pickle::string(Ref value) const {
  const Value& v = values_[value];
  if (v.type != Type::String) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes_.data()) + v.bits, v.length);
}

std::span<const Pickle::Ref> Pickle::items(Ref value) const {
  const Value& v = values_[value];
  if (v.type != Type::List && v.type != Type::Tuple) return {};
  return elements_[v.bits];
}

std::optional<Pickle::Ref> Pickle::find(Ref dict, std::string_view key) const {
  if (values_[dict].type != Type::Dict) return std::nullopt;
  const std::vector<Ref>& pairs = elements_[values_[dict].bits];
  for (std::size_t i = pairs.size(); i >= 2; i -= 2) {
    if (string(pairs[i - 2]) == key) return pairs[i - 1];
  }
  return std::nullopt;
}

}  // namespace cuheap
