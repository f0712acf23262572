// Conversions between elements in memory and the interpreter's doubles and 64-bit integers.
#pragma once

#include <cstdint>

#include "ligerdsl/dtype.h"

namespace ligerdsl::interpreter {

// Returns the nearest value of the float dtype, ties to even. Overflow gives infinity. f8e4m3 has
// no infinity, so there overflow gives the largest finite value.
double round_to(DType dtype, double value);

// Returns the number, clamped to the finite range of the dtype. Casts to fp8 saturate first.
double saturate(DType dtype, double value);

// Returns the integer if a double represents it, else the adjacent double whose last bit is set. A
// second rounding then gives the same result as one rounding of the integer.
double odd_double(int64_t value);

// Wraps to the width of the integer dtype (to the lowest bit for i1).
int64_t wrap_to(DType dtype, int64_t value);

// Access float elements; the write rounds.
double read_float(DType dtype, const void* address);
void write_float(DType dtype, void* address, double value);

// Access integer elements. An i1 reads as 1 if its byte is not 0.
int64_t read_integer(DType dtype, const void* address);
void write_integer(DType dtype, void* address, int64_t value);

}  // namespace ligerdsl::interpreter
