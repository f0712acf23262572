#include "program/op_info.h"

#include <algorithm>

namespace ligerdsl::program {

const char* opName(OpCode code) {
  switch (code) {
    case OpCode::program_id:
      return "program_id";
    case OpCode::num_programs:
      return "num_programs";
    case OpCode::constant:
      return "constant";
    case OpCode::arange:
      return "arange";
    case OpCode::dim:
      return "dim";
    case OpCode::stride:
      return "stride";
    case OpCode::lead:
      return "lead";
    case OpCode::lead_limit:
      return "lead_limit";
    case OpCode::splat:
      return "splat";
    case OpCode::expand_dims:
      return "expand_dims";
    case OpCode::broadcast:
      return "broadcast";
    case OpCode::reshape:
      return "reshape";
    case OpCode::permute:
      return "permute";
    case OpCode::cast:
      return "cast";
    case OpCode::select:
      return "select";
    case OpCode::add:
      return "add";
    case OpCode::sub:
      return "sub";
    case OpCode::mul:
      return "mul";
    case OpCode::div:
      return "div";
    case OpCode::rem:
      return "rem";
    case OpCode::min:
      return "min";
    case OpCode::max:
      return "max";
    case OpCode::bit_and:
      return "bit_and";
    case OpCode::bit_or:
      return "bit_or";
    case OpCode::bit_xor:
      return "bit_xor";
    case OpCode::shl:
      return "shl";
    case OpCode::shr:
      return "shr";
    case OpCode::compare:
      return "compare";
    case OpCode::fma:
      return "fma";
    case OpCode::neg:
      return "neg";
    case OpCode::abs:
      return "abs";
    case OpCode::floor:
      return "floor";
    case OpCode::ceil:
      return "ceil";
    case OpCode::exp:
      return "exp";
    case OpCode::exp2:
      return "exp2";
    case OpCode::log:
      return "log";
    case OpCode::log2:
      return "log2";
    case OpCode::sqrt:
      return "sqrt";
    case OpCode::rsqrt:
      return "rsqrt";
    case OpCode::tanh:
      return "tanh";
    case OpCode::erf:
      return "erf";
    case OpCode::sigmoid:
      return "sigmoid";
    case OpCode::reduce:
      return "reduce";
    case OpCode::scan:
      return "scan";
    case OpCode::load_tile:
      return "load_tile";
    case OpCode::store_tile:
      return "store_tile";
    case OpCode::view_ptr:
      return "view_ptr";
    case OpCode::addptr:
      return "addptr";
    case OpCode::load:
      return "load";
    case OpCode::store:
      return "store";
    case OpCode::atomic_rmw:
      return "atomic_rmw";
    case OpCode::for_range:
      return "for_range";
    case OpCode::if_else:
      return "if_else";
    case OpCode::while_loop:
      return "while_loop";
    case OpCode::yield:
      return "yield";
    case OpCode::assume:
      return "assume";
    case OpCode::assume_divisible:
      return "assume_divisible";
    case OpCode::device_print:
      return "device_print";
  }
  return nullptr;
}

const char* attrName(AttrKey key) {
  switch (key) {
    case AttrKey::axis:
      return "axis";
    case AttrKey::value_int:
      return "value";
    case AttrKey::value_float:
      return "value";
    case AttrKey::fast:
      return "fast";
    case AttrKey::permutation:
      return "permutation";
    case AttrKey::predicate:
      return "predicate";
    case AttrKey::reduction:
      return "reduction";
    case AttrKey::reverse:
      return "reverse";
    case AttrKey::tile_shape:
      return "tile_shape";
    case AttrKey::pad:
      return "pad";
    case AttrKey::cache:
      return "cache";
    case AttrKey::evict:
      return "evict";
    case AttrKey::has_mask:
      return "has_mask";
    case AttrKey::has_other:
      return "has_other";
    case AttrKey::atomic:
      return "atomic";
    case AttrKey::num_stages:
      return "num_stages";
    case AttrKey::unroll:
      return "unroll";
    case AttrKey::flatten:
      return "flatten";
    case AttrKey::divisor:
      return "divisor";
    case AttrKey::text:
      return "text";
    case AttrKey::no_contract:
      return "no_contract";
    case AttrKey::resident:
      return "resident";
    case AttrKey::independent:
      return "independent";
    case AttrKey::has_lead:
      return "has_lead";
  }
  return nullptr;
}

bool writesOperand(OpCode code) {
  return code == OpCode::store_tile || code == OpCode::store || code == OpCode::atomic_rmw;
}

bool pointsIntoOperand(OpCode code) {
  return code == OpCode::view_ptr || code == OpCode::addptr || code == OpCode::splat || code == OpCode::broadcast ||
         code == OpCode::reshape || code == OpCode::permute || code == OpCode::expand_dims;
}

bool isElementwise(OpCode code) {
  return code >= OpCode::cast && code <= OpCode::sigmoid;
}

bool runsByTickets(const Program& program) {
  return std::any_of(program.body.ops.begin(), program.body.ops.end(),
                     [](const Op& op) { return op.find(AttrKey::independent) != nullptr; });
}

bool isIdentifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
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
