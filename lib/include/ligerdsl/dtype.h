// Element types of tiles, views and scalars.
#ifndef LIGERDSL_DTYPE_H_
#define LIGERDSL_DTYPE_H_

#include <cstdint>

namespace ligerdsl {

enum class DType : uint8_t { i1 = 0, i8 = 1, i32 = 2, i64 = 3, f16 = 4, bf16 = 5, f32 = 6 };

inline constexpr DType i1 = DType::i1, i8 = DType::i8, i32 = DType::i32, i64 = DType::i64;
inline constexpr DType f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;

constexpr const char* name(DType type) {
  constexpr const char* names[] = {"i1", "i8", "i32", "i64", "f16", "bf16", "f32"};
  return names[static_cast<int>(type)];
}

constexpr bool is_float(DType type) { return type >= DType::f16; }
constexpr bool is_integer(DType type) { return type < DType::f16; }

// Bytes of one element in memory; i1 takes one byte.
constexpr int64_t size_of(DType type) {
  constexpr int64_t bytes[] = {1, 1, 4, 8, 2, 2, 4};
  return bytes[static_cast<int>(type)];
}

}  // namespace ligerdsl

#endif  // LIGERDSL_DTYPE_H_
