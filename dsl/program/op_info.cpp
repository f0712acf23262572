#include "program/op_info.h"

#include <algorithm>
#include <stdexcept>

namespace ligerdsl::program {
namespace {

// The table's words are parsed at compile time; an unknown word is a compile error.
constexpr AttrInfo kAttributes[] = {
#define LIGERDSL_ATTRIBUTE(name, number, kind, most, names) \
  {AttrKey::name, #name, AttrKind::kind, most, names},
#include "ligerdsl/dsl/ops.def"
};

consteval std::string_view next_word(std::string_view& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

consteval uint64_t bit(std::string_view name) {
  for (const AttrInfo& attribute : kAttributes) {
    if (name == attribute.name) return uint64_t{1} << static_cast<int>(attribute.key);
  }
  throw "an operation names an attribute that has no row";
}

struct Attributes {
  uint64_t needs = 0, takes = 0;
};

consteval Attributes attributes(std::string_view text) {
  Attributes attributes;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    const bool optional = word.ends_with('?');
    if (optional) word.remove_suffix(1);
    attributes.takes |= bit(word);
    if (!optional) attributes.needs |= bit(word);
  }
  return attributes;
}

consteval Term term(std::string_view word) {
  struct Word {
    std::string_view text;
    Term term;
  };
  constexpr Word words[] = {
      {"value", Term::value},
      {"test", Term::test},
      {"scalar", Term::scalar},
      {"tile", Term::tile},
      {"view", Term::view},
      {"index*", Term::index_of_each},
      {"row*", Term::row_of_each},
      {"alignment_offset?", Term::alignment_offset},
      {"block", Term::block},
      {"ptr", Term::ptr},
      {"pointee", Term::pointee},
      {"mask?", Term::mask},
      {"other?", Term::other},
      {"offset", Term::offset},
      {"i1", Term::i1},
      {"i32", Term::i32},
      {"i64", Term::i64},
      {"integer", Term::integer},
      {"any", Term::any},
      {"any*", Term::any_number_of},
  };
  for (const Word& known : words) {
    if (word == known.text) return known.term;
  }
  throw "a signature contains an unknown word";
}

consteval Terms terms(std::string_view text) {
  Terms terms;
  for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
    terms.terms[terms.count++] = term(word);
  }
  return terms;
}

consteval OpInfo row(OpCode code, const char* name, Family family, Dtypes dtypes,
                     std::string_view signature, Effect effect, std::string_view words) {
  const size_t arrow = signature.find("->");
  const Terms operands = terms(signature.substr(0, arrow));
  const Terms results = arrow == signature.npos ? Terms{} : terms(signature.substr(arrow + 2));
  const bool reaches =
      operands.count > 0 && (operands.terms[0] == Term::view || operands.terms[0] == Term::ptr);
  if ((reads(effect) || writes(effect)) && !reaches)
    throw "an operation that accesses memory needs a view or pointer as its first operand";
  const Attributes attrs = attributes(words);
  return {code, name, family, dtypes, operands, results, effect, attrs.needs, attrs.takes};
}

constexpr OpInfo kOperations[] = {
#define LIGERDSL_OP(name, number, family, dtypes, signature, effect, attributes) \
  row(OpCode::name, #name, Family::family, Dtypes::dtypes, signature, Effect::effect, attributes),
#include "ligerdsl/dsl/ops.def"
};

constexpr size_t kNumbers = 128;  // larger than the number of every operation
constexpr uint8_t kNone = 255;

consteval std::array<uint8_t, kNumbers> index_by_number() {
  std::array<uint8_t, kNumbers> index;
  index.fill(kNone);
  for (size_t i = 0; i < std::size(kOperations); ++i) {
    uint8_t& place = index[static_cast<size_t>(kOperations[i].code)];
    if (place != kNone) throw "two operations have the same number";
    place = static_cast<uint8_t>(i);
  }
  return index;
}

constexpr std::array<uint8_t, kNumbers> kIndex = index_by_number();

}  // namespace

const OpInfo* find(OpCode code) {
  const auto number = static_cast<size_t>(code);
  return number < kNumbers && kIndex[number] != kNone ? &kOperations[kIndex[number]] : nullptr;
}

const OpInfo& info(OpCode code) {
  if (const OpInfo* found = find(code)) return *found;
  throw std::runtime_error("there is no operation with number " +
                           std::to_string(static_cast<int>(code)) +
                           "; record the program with this version of the library");
}

std::span<const OpInfo> operations() {
  return kOperations;
}

const AttrInfo* find(AttrKey key) {
  for (const AttrInfo& attribute : kAttributes) {
    if (attribute.key == key) return &attribute;
  }
  return nullptr;
}

const char* opName(OpCode code) {
  const OpInfo* found = find(code);
  return found ? found->name : nullptr;
}

const char* attrName(AttrKey key) {
  if (key == AttrKey::value_int || key == AttrKey::value_float)
    return "value";  // the type of the value distinguishes the two attributes
  const AttrInfo* found = find(key);
  return found ? found->name : nullptr;
}

bool accepts(Dtypes dtypes, DType dtype) {
  switch (dtypes) {
    case Dtypes::any:
      return true;
    case Dtypes::numbers:
      return dtype != DType::i1 && !is_fp8(dtype);
    case Dtypes::integers:
      return is_integer(dtype) && dtype != DType::i1;
    case Dtypes::integers_and_i1:
      return is_integer(dtype);
    case Dtypes::words:
      return dtype == DType::i32 || dtype == DType::i64;
    case Dtypes::floats:
      return is_float(dtype) && !is_fp8(dtype);
    case Dtypes::dot_operands:
      return is_float(dtype) || dtype == DType::i8;
    case Dtypes::f32:
      return dtype == DType::f32;
    case Dtypes::i32:
      return dtype == DType::i32;
    case Dtypes::i1:
      return dtype == DType::i1;
    case Dtypes::atomics:
      return accepts(Dtypes::floats, dtype) || accepts(Dtypes::words, dtype);
  }
  return false;
}

const char* wanted(Dtypes dtypes) {
  switch (dtypes) {
    case Dtypes::any:
      return "any type";
    case Dtypes::numbers:
      return "a number type; convert an i1 with .to(i32)";
    case Dtypes::integers:
      return "an integer type";
    case Dtypes::integers_and_i1:
      return "an integer type or i1";
    case Dtypes::words:
      return "i32 or i64";
    case Dtypes::floats:
      return "a float type; convert with .to(f32)";
    case Dtypes::dot_operands:
      return "f32, f16, bf16, fp8 or i8";
    case Dtypes::f32:
      return "f32; convert with .to(f32)";
    case Dtypes::i32:
      return "i32; convert with .to(i32)";
    case Dtypes::i1:
      return "i1; compare first, as in x != 0";
    case Dtypes::atomics:
      return "i32, i64, f16, bf16 or f32";
  }
  return "";
}

bool fitsCombiner(OpCode code) {
  return isElementwise(code) || code == OpCode::constant || code == OpCode::yield;
}

bool canCast(DType from, DType to) {
  const auto fits = [](DType fp8, DType other) {
    return !is_fp8(fp8) || accepts(Dtypes::floats, other);
  };
  return from == to || (fits(from, to) && fits(to, from));
}

bool canBitcast(DType from, DType to) {
  return from != DType::i1 && to != DType::i1 && size_of(from) == size_of(to);
}

bool roundsToTf32(const Op& dot) {
  return dot.integer(AttrKey::input_precision) == static_cast<int64_t>(InputPrecision::tf32);
}

bool isElementwise(OpCode code) {
  switch (info(code).family) {
    case Family::elementwise:
    case Family::arithmetic:
    case Family::integer:
    case Family::sign:
    case Family::math:
      return true;
    case Family::creation:
    case Family::shape:
    case Family::reduction:
    case Family::contraction:
    case Family::memory:
    case Family::atomic:
    case Family::control:
    case Family::hint:
      return false;
  }
  return false;
}

bool isDynamicPersistent(const Program& program) {
  return std::any_of(program.body.ops.begin(), program.body.ops.end(),
                     [](const Op& op) { return op.find(AttrKey::independent) != nullptr; });
}

bool isIdentifier(std::string_view text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (text.empty() || !letter(text[0])) return false;
  for (char c : text) {
    if (!letter(c) && !(c >= '0' && c <= '9')) return false;
  }
  return true;
}

bool isTileExtent(int64_t extent) {
  if (extent <= 0 || extent > kMaxTileElements) return false;
  while (extent % 2 == 0) extent /= 2;
  return extent <= 31;
}

int64_t tileElements(const Shape& shape) {
  int64_t product = 1;
  for (int64_t extent : shape) {
    if (extent <= 0 || extent > kMaxTileElements / product) return -1;
    product *= extent;
  }
  return product;
}

Shape partitionShape(const Shape& tile_shape) {
  Shape shape;
  for (int64_t extent : tile_shape) {
    if (extent != 0) shape.push_back(extent);
  }
  return shape;
}

}  // namespace ligerdsl::program
