// The operation table as data. lib/codegen writes it into op_table.cpp; the checks of this folder
// read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "ligerdsl/dtype.h"
#include "ligerdsl/ligerdsl.h"

namespace ligerdsl::lib {

class Context;
class OpPlan;
using ContextRef = std::shared_ptr<Context>;

inline constexpr int kMaxRank = 5;  // largest rank of a tensor with its leading dimensions joined
inline constexpr int kMaxTensors = 16;     // largest number of tensors of one operation
inline constexpr int kMaxSymbols = 8;      // largest number of sizes of one operation
inline constexpr size_t kMaxStruct = 256;  // most bytes of a description or an args struct
inline constexpr int kMaxValues = 8;       // largest number of numeric arguments of one operation

constexpr uint32_t bit(DType type) {
  return 1u << static_cast<unsigned>(type);
}

enum class FieldType : uint8_t { i32, i64, f32 };
enum class FieldRole : uint8_t { option, dim, dtype, present, absent, in_place, queries };

// The numbers that a field accepts. NaN is never accepted.
struct Range {
  double low = -std::numeric_limits<double>::infinity(),
         high = std::numeric_limits<double>::infinity();
  bool below_high = false;  // `high` itself is not accepted
  bool infinite = false;    // f32: infinity is accepted if the bounds allow it
  bool or_zero = false;     // f32: 0 is accepted even outside the bounds
};

// A field of a description.
struct FieldInfo {
  const char* name;
  size_t offset;
  FieldType type;
  FieldRole role;
  int source;  // tensor from which the one-call form fills the field; -1: none, or from the list
  int symbol;  // dim: index of the size; queries: index of the field `causal`, which must be set
  Range range;
  uint32_t dtypes;  // dtype: one bit per allowed dtype
  bool optional;    // dtype, dim: zero is valid
};

enum class Direction : uint8_t { in, out, inout };
enum class ShapeKind : uint8_t {
  fixed,    // exactly `rank` dimensions
  leading,  // the first dimension joins any number of evenly strided dimensions
  free      // any shape; the operation checks it
};

struct DimSpec {
  int symbol;  // symbol of the size, multiplied by `factor`; -1: the dimension is `factor`
  int64_t factor;
};

// A tensor among the arguments.
struct TensorInfo {
  const char* name;
  size_t offset;
  Direction direction;
  ShapeKind shape;
  int rank;
  DimSpec dims[kMaxRank];
  DType dtype;
  int dtype_field;       // field that gives the dtype, or -1
  int dtype_zero_field;  // field that gives the dtype if dtype_field is 0; -1: `dtype` is used
  int given_field;       // field that is set if the tensor is passed; -1: always
  bool given_when_zero;
  bool any_stride;   // stride of the last dimension may differ from 1
  const char* hint;  // text added to the error for a wrong shape
};

// A numeric argument.
struct ValueInfo {
  const char* name;
  size_t offset;
  FieldType type;
  Range range;
  int unless_field;  // field that, if set, makes the number unused; -1: none
};

struct AliasInfo {
  int output, input;
};

// Kind of the out-of-bounds number that a kernel reports.
enum class Reported : uint8_t { label, shard_label, index, group, sequence, step };

struct OpInfo {
  int index;  // in op_table()
  const char* name;
  const char* brief;
  const char* rows;  // unit of the operation's rows, for errors
  Reported reported;
  size_t desc_size, desc_first_size;  // bytes in this release and in the first release
  const void* desc_defaults;
  size_t args_size, args_first_size;
  const void* args_defaults;
  std::span<const FieldInfo> fields;
  std::span<const TensorInfo> tensors;
  std::span<const ValueInfo> values;
  std::span<const AliasInfo> aliases;
  std::span<const char* const> symbols;
  int in_place_field;     // or -1
  ptrdiff_t list_offset;  // offset of a pointer to tensors, which their number follows; -1: no list
  std::unique_ptr<OpPlan> (*make)(const ContextRef& context, const void* desc);
};

std::span<const OpInfo* const> op_table();

// Read a field of a struct by its table row.
inline int64_t read_integer(const void* base, size_t offset, FieldType type) {
  const auto* at = static_cast<const std::byte*>(base) + offset;
  return type == FieldType::i64 ? *reinterpret_cast<const int64_t*>(at)
                                : *reinterpret_cast<const int32_t*>(at);
}
inline float read_float(const void* base, size_t offset) {
  return *reinterpret_cast<const float*>(static_cast<const std::byte*>(base) + offset);
}
inline const ligerdsl_tensor_t* read_tensor(const void* args, const TensorInfo& info) {
  return *reinterpret_cast<const ligerdsl_tensor_t* const*>(static_cast<const std::byte*>(args) +
                                                            info.offset);
}

}  // namespace ligerdsl::lib
