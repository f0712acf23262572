// A recorded kernel: plain structs, no compiler types.
//
// The builder (lib/include/ligerdsl/dsl.h) records one Program per kernel and meta-parameter set. A Program
// serialises to versioned bytes (serialize.h); those bytes cross every boundary (author's binary -> libligerdsl ->
// libligerdsl-compiler -> worker process) and are what the cache hashes, so an edited kernel never hits an old entry.
//
// Values are SSA: every op result and every region argument has one ValueId, an index into Program::values. Regions
// nest: an op's regions may use any value defined before the op.
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
  view = 2,      // typed global memory: base pointer + dims + strides (elements); arguments only
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

// Every op, with operands -> results, attributes and regions. "same" = scalar or tile, all operands alike.
enum class OpCode : uint16_t {
  // Program and creation.
  program_id = 0,    // () -> i32 scalar; axis
  num_programs = 1,  // () -> i32 scalar; axis
  constant = 2,      // () -> scalar or tile (every element equal); value_int or value_float by the result's dtype
  arange = 3,        // () -> i32 tile [n] holding 0..n-1
  dim = 4,           // (view) -> i64 scalar, the size of dimension `axis`
  stride = 5,        // (view) -> i64 scalar, the stride of dimension `axis` in elements
  lead = 6,  // (view, index scalars of all dimensions but the last) -> i32 scalar >= 0, at most lead_limit: how many
             // elements before the row's first one blocks of the row had better begin. No result depends on it
  lead_limit = 7,  // (view) -> i32 scalar

  // Shape.
  splat = 10,        // (scalar | ptr) -> tile | ptr_tile
  expand_dims = 11,  // (tile) -> tile with a dimension of 1 inserted at `axis`
  broadcast = 12,    // (tile) -> tile of the same rank; dimensions of 1 grow
  reshape = 13,      // (tile) -> tile with the same elements in row-major order
  permute = 14,      // (tile) -> tile; result dim i = operand dim permutation[i]

  // Elementwise; operands and result alike unless said.
  cast =
      20,  // any dtype -> any dtype: float-int truncates toward zero, to i1 is != 0, float-float rounds to nearest even
  select = 21,  // (i1, a, b) -> a or b
  add = 22,
  sub = 23,
  mul = 24,
  div = 25,  // floats: IEEE, or approximate with `fast`; integers: toward zero
  rem = 26,  // sign of the dividend
  min = 27,
  max = 28,  // floats: NaN if either is NaN
  bit_and = 29,
  bit_or = 30,
  bit_xor = 31,  // i1 and integers
  shl = 32,
  shr = 33,      // integers; shr keeps the sign
  compare = 34,  // (a, a) -> i1; predicate; ordered for floats, except ne which is unordered
  fma = 35,      // (a, b, c) -> a * b + c, one rounding
  neg = 36,
  abs = 37,
  floor = 38,
  ceil = 39,
  exp = 40,
  exp2 = 41,
  log = 42,
  log2 = 43,
  sqrt = 44,
  rsqrt = 45,
  tanh = 46,
  erf = 47,
  sigmoid = 48,  // f32; `fast`

  // Reductions and scans over `axis` of N tiles of one shape.
  reduce = 60,  // (tiles...) -> N tiles without the axis, or N scalars when rank is 1; reduction kind; custom: one
                // region (a0..aN-1, b0..bN-1 scalars) -> yield N scalars, associative and commutative up to rounding
  scan = 61,    // (tiles...) -> N tiles, inclusive; kind, `reverse`; custom: region as for reduce, associative

  // Memory. A partition cuts a view into tiles of `tile_shape` (0 = squeezed: one element, no result dimension); the
  // index counts tiles. Elements outside the view read as `pad` and are not written. All dims squeezed = one scalar.
  // With has_lead the tiles begin an i32 scalar `lead` elements earlier along the last dimension.
  load_tile =
      70,  // (view, index scalars... [, lead]) -> tile | scalar; tile_shape, pad, cache, evict, resident, has_lead
  store_tile = 71,  // (view, index scalars... [, lead], value) ; tile_shape, cache, evict, has_lead
  view_ptr = 72,    // (view) -> ptr, the view's base
  addptr = 73,      // (ptr | ptr_tile, integer scalar | tile) -> ptr | ptr_tile; offset in elements
  load =
      74,  // (ptr | ptr_tile [, i1 mask [, other]]) -> scalar | tile; has_mask, has_other (masked off and no other: 0)
  store = 75,       // (ptr | ptr_tile, value [, i1 mask]) ; has_mask
  atomic_rmw = 76,  // (ptr | ptr_tile, value [, i1 mask]) -> old value; atomic kind, has_mask; relaxed, device scope

  // Control flow. Regions end in `yield`.
  for_range = 90,  // (lo, hi, step, init...) -> final values; region (iv, carried...) yields carried; loop attributes
  if_else =
      91,  // (i1 scalar) -> values; regions then, else (each yields the results; else may be empty without results)
  while_loop = 92,  // (init...) -> final values; region 0 (carried...) yields i1 then carried; region 1 (carried...)
                    // yields carried
  yield = 93,       // (values...)

  // Hints and debugging.
  assume = 100,            // (i1 scalar): true, or behaviour is undefined
  assume_divisible = 101,  // (integer scalar) -> the same value, a multiple of `divisor`
  device_print = 102,      // (values...) ; text (printed before the values)
};

enum class Predicate : int64_t { eq = 0, ne = 1, lt = 2, le = 3, gt = 4, ge = 5 };
enum class ReductionKind : int64_t { sum = 0, max = 1, min = 2, custom = 3 };
enum class AtomicKind : int64_t { add = 0, max = 1 };
enum class CacheHint : int64_t { normal = 0, global = 1, streaming = 2 };  // global: L2 only; streaming: touched once
enum class EvictHint : int64_t { normal = 0, first = 1, last = 2 };        // who leaves the cache first, last

enum class AttrKey : uint16_t {
  axis = 0,
  value_int = 1,
  value_float = 2,
  fast = 3,
  permutation = 4,
  predicate = 5,
  reduction = 6,
  reverse = 7,
  tile_shape = 8,
  pad = 9,
  cache = 10,
  evict = 11,
  has_mask = 12,
  has_other = 13,
  atomic = 14,
  num_stages = 15,
  unroll = 16,
  flatten = 17,
  divisor = 18,
  text = 19,
  no_contract = 20,  // this float op must not be fused into an fma
  resident = 21,  // load_tile: the resident row (a number from 1) that the tile is a block of; no result depends on it
  has_lead = 23,  // load_tile, store_tile
  independent =
      22,  // while_loop: iterations are programs of their own, which see of each other no more than those of a grid
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

// A kernel argument. Launch packs arguments into 8-byte slots in order: a view takes 1 + 2 * rank slots (pointer, every
// dim, every stride), anything else one slot holding its value's bits, zero-extended.
struct Argument {
  std::string name;
  ValueId value;
  bool read_only = false;  // a view of memory that the kernel does not write, through whatever argument
};

struct Program {
  std::string name;  // [a-zA-Z_][a-zA-Z0-9_]*; the PTX entry is ligerdsl_<name>
  std::vector<std::string> files;
  std::vector<Type> values;  // by ValueId
  std::vector<Argument> arguments;
  Region body;  // no arguments of its own; does not end in yield
};

// Number of 8-byte launch slots of an argument of this type.
inline size_t slotCount(const Type& type) {
  return type.kind == TypeKind::view ? 1 + 2 * type.shape.size() : 1;
}

}  // namespace ligerdsl::program
