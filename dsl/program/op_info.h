// The table of operations (lib/include/ligerdsl/dsl/ops.def) as C++, for the builder, the verifier,
// the printer, the interpreter, the launch rules and the importer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "program/program.h"

// A switch over an enum must name all members or have a default.
#pragma GCC diagnostic error "-Wswitch"

namespace ligerdsl::program {

// One enum per family, so that a switch over all its members needs no default. static_cast converts
// an OpCode of the family, because both enums have the same numbers.
enum class Family : uint8_t {
  creation,
  shape,
  elementwise,
  arithmetic,
  integer,
  sign,
  math,
  reduction,
  contraction,
  memory,
  atomic,
  control,
  hint
};
enum class CreationOp : uint16_t {
#define LIGERDSL_CREATION(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};
enum class ShapeOp : uint16_t {
#define LIGERDSL_SHAPE(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};
enum class ElementwiseOp : uint16_t {  // elementwise ops outside the families below
#define LIGERDSL_ELEMENTWISE(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};
enum class ArithmeticOp : uint16_t {  // two numbers of any dtype
#define LIGERDSL_ARITHMETIC(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};
enum class IntegerOp : uint16_t {  // two integers
#define LIGERDSL_INTEGER(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};
enum class SignOp : uint16_t {  // one number of any dtype
#define LIGERDSL_SIGN(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};
enum class MathOp : uint16_t {  // one float
#define LIGERDSL_MATH(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};
enum class ReductionOp : uint16_t {
#define LIGERDSL_REDUCTION(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};
enum class ContractionOp : uint16_t {
#define LIGERDSL_CONTRACTION(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};
enum class MemoryOp : uint16_t {
#define LIGERDSL_MEMORY(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};
enum class AtomicOp : uint16_t {
#define LIGERDSL_ATOMIC(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};
enum class ControlOp : uint16_t {
#define LIGERDSL_CONTROL(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};
enum class HintOp : uint16_t {
#define LIGERDSL_HINT(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};

// Dtypes of an operation's values. `words` are i32 and i64, `dot_operands` are floats, fp8 and i8,
// and `atomics` are the types of atomic addition.
enum class Dtypes : uint8_t {
  any,
  numbers,
  integers,
  integers_and_i1,
  words,
  floats,
  dot_operands,
  f32,
  i32,
  i1,
  atomics
};
bool accepts(Dtypes dtypes, DType dtype);
const char* wanted(Dtypes dtypes);  // "f32; convert with .to(f32)"

// Effect of an operation on memory through its first operand.
//   address  none; the resulting pointer points into the first operand's memory
//   order    none, but the operation is not reordered
//   regions  the effects of the operation's regions
enum class Effect : uint8_t { pure, address, read, write, read_write, order, regions };
constexpr bool reads(Effect effect) {
  return effect == Effect::read || effect == Effect::read_write;
}
constexpr bool writes(Effect effect) {
  return effect == Effect::write || effect == Effect::read_write;
}

// One entry in the list of an operation's operands or results.
enum class Term : uint8_t {
  value,   // scalar or tile of the operation's dtypes; all `value`s have one type
  test,    // i1 of the values' shape
  scalar,  // scalar or pointer
  tile,    // tile, of values or pointers
  view,
  index_of_each,     // index*: i32 or i64 scalars, one per dimension of the view
  row_of_each,       // row*: like index*, without the last dimension
  alignment_offset,  // alignment_offset?: an i32 scalar
  block,             // tile or scalar with the shape of tile_shape
  ptr,               // pointer or tile of pointers; all `ptr`s have one type
  pointee,           // scalar or tile that ptr points to
  mask,              // mask?: i1 of ptr's shape
  other,             // other?: type of pointee
  offset,            // i32 or i64 of ptr's shape
  i1,
  i32,
  i64,            // scalars
  integer,        // i32 or i64 scalar; all `integer`s have one type
  any,            // checked by the operation's own rules
  any_number_of,  // any*
};
struct Terms {
  std::array<Term, 8> terms{};
  size_t count = 0;
  constexpr std::span<const Term> all() const { return {terms.data(), count}; }
  constexpr bool has(Term term) const {
    for (Term own : all()) {
      if (own == term) return true;
    }
    return false;
  }
};

struct OpInfo {
  OpCode code;
  const char* name;
  Family family;
  Dtypes dtypes;
  Terms operands, results;
  Effect effect;
  uint64_t needs, takes;  // bit masks of the required and the accepted attributes, by AttrKey
};

const OpInfo* find(OpCode code);  // null if there is no such operation
const OpInfo& info(OpCode code);  // throws std::runtime_error with the number
std::span<const OpInfo> operations();

enum class AttrKind : uint8_t { flag, choice, count, integer, real, text, list };
struct AttrInfo {
  AttrKey key;
  const char* name;
  AttrKind kind;
  int64_t most;             // flag, choice, count: largest value
  std::string_view values;  // choice: names, separated by blanks
};
const AttrInfo* find(AttrKey key);  // null if there is no such attribute

const char* opName(OpCode code);    // "load_tile"; nullptr for an unknown number
const char* attrName(AttrKey key);  // "tile_shape"; nullptr for an unknown number

bool canCast(DType from, DType to);     // fp8 casts only from or to f16, bf16 and f32
bool canBitcast(DType from, DType to);  // types of equal width, except i1
bool isElementwise(OpCode code);        // cast, select, add ... sigmoid
bool roundsToTf32(const Op& dot);       // the dot rounds its f32 operands
// Returns true if a combiner may contain the op, on scalars: elementwise ops, constants and the
// yield.
bool fitsCombiner(OpCode code);

inline constexpr int64_t kMaxTileElements = int64_t{1} << 20;

// Returns true if the kernel is dynamic persistent (KernelBuilder::dynamic_persistent). Its first
// two arguments are then the counter and the number of programs.
bool isDynamicPersistent(const Program& program);
bool isIdentifier(std::string_view text);

// Returns true for a dimension c * 2^n with odd c <= 31.
bool isTileExtent(int64_t extent);

// Returns the product of the dimensions, or -1 if it exceeds kMaxTileElements or a dimension is not
// positive.
int64_t tileElements(const Shape& shape);

// Returns the shape of a partition's tile: tile_shape without its squeezed (0) entries.
Shape partitionShape(const Shape& tile_shape);

}  // namespace ligerdsl::program
