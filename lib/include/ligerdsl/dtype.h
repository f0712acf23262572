// Element types of tiles, views and scalars.
#ifndef LIGERDSL_DTYPE_H_
#define LIGERDSL_DTYPE_H_

#include <cstdint>

namespace ligerdsl {

// Serialised programs contain these numbers, so they are never changed or reused.
enum class DType : uint8_t {
  i1 = 0,
  i8 = 1,
  i32 = 2,
  i64 = 3,
  f16 = 4,
  bf16 = 5,
  f32 = 6,
  i16 = 7,
  f8e4m3 = 8,
  f8e5m2 = 9
};

inline constexpr DType i1 = DType::i1, i8 = DType::i8, i16 = DType::i16, i32 = DType::i32,
                       i64 = DType::i64;
inline constexpr DType f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;
// fp8 of the OCP specification. It can be loaded, stored, converted and multiplied by dot(). f8e4m3
// has no infinities, and one NaN of each sign (PyTorch's float8_e4m3fn).
inline constexpr DType f8e4m3 = DType::f8e4m3, f8e5m2 = DType::f8e5m2;

struct DTypeInfo {
  const char* name;
  int64_t bytes;  // bytes of one element in memory; an i1 takes one
  bool is_float;
  uint8_t dlpack;  // DLPack's type code
};
// Indexed by the number of the dtype.
inline constexpr DTypeInfo kDTypes[] = {
    {"i1", 1, false, 6},     {"i8", 1, false, 0},    {"i32", 4, false, 0}, {"i64", 8, false, 0},
    {"f16", 2, true, 2},     {"bf16", 2, true, 4},   {"f32", 4, true, 2},  {"i16", 2, false, 0},
    {"f8e4m3", 1, true, 10}, {"f8e5m2", 1, true, 12}};

constexpr const DTypeInfo& dtype_info(DType type) {
  return kDTypes[static_cast<int>(type)];
}
constexpr const char* name(DType type) {
  return dtype_info(type).name;
}
constexpr int64_t size_of(DType type) {
  return dtype_info(type).bytes;
}
constexpr bool is_float(DType type) {
  return dtype_info(type).is_float;
}
constexpr bool is_integer(DType type) {
  return !is_float(type);
}
constexpr bool is_fp8(DType type) {
  return type == f8e4m3 || type == f8e5m2;
}

// The range of an integer type is least_of(type) to most_of(type).
constexpr int64_t most_of(DType type) {
  return type == i1 ? 1 : INT64_MAX >> (64 - 8 * size_of(type));
}
constexpr int64_t least_of(DType type) {
  return type == i1 ? 0 : -most_of(type) - 1;
}

// Returns the largest finite number of a float type.
constexpr double largest_of(DType type) {
  if (is_fp8(type)) return type == f8e4m3 ? 448.0 : 57344.0;
  if (type == f16) return 65504.0;
  return type == bf16 ? 0x1.fep127 : 0x1.fffffep127;
}

}  // namespace ligerdsl

#endif  // LIGERDSL_DTYPE_H_
