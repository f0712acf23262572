// Element types of tiles, views and scalars.
#ifndef LIGERDSL_DTYPE_H_
#define LIGERDSL_DTYPE_H_

#include <cstdint>

namespace ligerdsl {

// The numbers stand in the bytes of programs: never changed, never given twice.
enum class DType : uint8_t { i1 = 0, i8 = 1, i32 = 2, i64 = 3, f16 = 4, bf16 = 5, f32 = 6, i16 = 7 };

inline constexpr DType i1 = DType::i1, i8 = DType::i8, i16 = DType::i16, i32 = DType::i32, i64 = DType::i64;
inline constexpr DType f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;

struct DTypeInfo {
  const char* name;
  int64_t bytes;  // of one element in memory; i1 takes one
  bool is_float;
};
// By number.
inline constexpr DTypeInfo kDTypes[] = {{"i1", 1, false}, {"i8", 1, false},  {"i32", 4, false}, {"i64", 8, false},
                                        {"f16", 2, true}, {"bf16", 2, true}, {"f32", 4, true},  {"i16", 2, false}};

constexpr const DTypeInfo& dtype_info(DType type) { return kDTypes[static_cast<int>(type)]; }
constexpr const char* name(DType type) { return dtype_info(type).name; }
constexpr int64_t size_of(DType type) { return dtype_info(type).bytes; }
constexpr bool is_float(DType type) { return dtype_info(type).is_float; }
constexpr bool is_integer(DType type) { return !is_float(type); }

// The numbers of an integer type are least_of(type) to most_of(type).
constexpr int64_t most_of(DType type) { return type == i1 ? 1 : INT64_MAX >> (64 - 8 * size_of(type)); }
constexpr int64_t least_of(DType type) { return type == i1 ? 0 : -most_of(type) - 1; }

}  // namespace ligerdsl

#endif  // LIGERDSL_DTYPE_H_
