// A recorded kernel in plain structs, without compiler types.
//
// The builder (lib/include/ligerdsl/dsl.h) records one Program per kernel and set of
// meta-parameters. A Program serialises to versioned bytes (serialize.h). These bytes cross every
// boundary: author's binary -> libligerdsl -> libligerdsl-compiler -> worker process. The cache
// hashes them, so an edited kernel never hits an old entry.
//
// Values are SSA: every op result and every region argument has one ValueId, an index into
// Program::values. Regions nest: an op's regions may use any value defined before the op.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ligerdsl/dtype.h"

namespace ligerdsl::program {

using ValueId = uint32_t;
using Shape = std::vector<int64_t>;

inline constexpr int64_t kDynamic = INT64_MIN;  // a view dimension or stride known only at launch

enum class TypeKind : uint8_t {
  scalar = 0,    // one element of dtype
  tile = 1,      // a block of elements; shape is static, every dimension c * 2^n with odd c <= 31
  view = 2,      // global memory: base pointer + dims + strides (elements); argument or slice
  ptr = 3,       // a pointer to dtype
  ptr_tile = 4,  // a tile of pointers to dtype
};

struct Type {
  TypeKind kind = TypeKind::scalar;
  DType dtype = DType::f32;
  Shape shape;    // tile, ptr_tile: static dims; view: dims, each a number or kDynamic
  Shape strides;  // view only: strides in elements, each a number or kDynamic
  bool operator==(const Type&) const = default;
};

struct Location {
  uint32_t file = 0;  // index into Program::files
  uint32_t line = 0;
  uint32_t column = 0;
};

// All operations; ops.def defines their operands, results and effects.
enum class OpCode : uint16_t {
#define LIGERDSL_OP(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};

enum class Predicate : int64_t { eq = 0, ne = 1, lt = 2, le = 3, gt = 4, ge = 5 };
enum class ReductionKind : int64_t { sum = 0, max = 1, min = 2, custom = 3 };
enum class AtomicKind : int64_t { add = 0, max = 1, min = 2, xchg = 3 };
enum class CacheHint : int64_t {
  normal = 0,
  global = 1,
  streaming = 2
};  // global: L2 only; streaming: used once
enum class EvictHint : int64_t {
  normal = 0,
  first = 1,
  last = 2
};  // first or last to leave the cache
enum class InputPrecision : int64_t { ieee = 0, tf32 = 1 };

enum class AttrKey : uint16_t {
#define LIGERDSL_ATTRIBUTE(name, number, ...) name = number,
#include "ligerdsl/dsl/ops.def"
};

using AttrValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;

struct Attr {
  AttrKey key;
  AttrValue value;
};

struct Op;

struct Region {
  std::vector<ValueId> arguments;
  std::vector<Op> ops;
};

struct Op {
  OpCode code;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  std::vector<Attr> attrs;
  std::vector<Region> regions;
  Location loc;

  const AttrValue* find(AttrKey key) const;
  int64_t integer(AttrKey key, int64_t otherwise = 0) const;
  double number(AttrKey key, double otherwise = 0.0) const;
};

// A kernel argument. A launch packs arguments into 8-byte slots in order. A view has 1 + 2 * rank
// slots (pointer, every dim, every stride). Any other argument has one, with its bits
// zero-extended.
struct Argument {
  std::string name;
  ValueId value;
  bool read_only = false;  // a view; no argument of the kernel writes its memory
};

struct Program {
  std::string name;  // [a-zA-Z_][a-zA-Z0-9_]*; the PTX entry is ligerdsl_<name>
  std::vector<std::string> files;
  std::vector<Type> values;  // by ValueId
  std::vector<Argument> arguments;
  Region body;  // has no arguments and does not end in yield
};

// Number of 8-byte launch slots of an argument of this type.
inline size_t slotCount(const Type& type) {
  return type.kind == TypeKind::view ? 1 + 2 * type.shape.size() : 1;
}

}  // namespace ligerdsl::program
