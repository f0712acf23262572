// Elements in memory to and from the interpreter's doubles and 64-bit integers.
#pragma once

#include <cstdint>

#include "ligerdsl/dtype.h"

namespace ligerdsl::interpreter {

// Nearest value of the float dtype, ties to even; beyond the largest finite value: infinity, or of f8e4m3, which has none,
// that value.
double round_to(DType dtype, double value);

// The number, or the largest finite one of the dtype that is nearest to it. So casts to fp8 begin.
double saturate(DType dtype, double value);

// The integer, or of the doubles around it the one whose last bit is set: rounded further, it is as if rounded once.
double odd_double(int64_t value);

// Wraps to the width of the integer dtype (i1: the lowest bit).
int64_t wrap_to(DType dtype, int64_t value);

// Float elements; storing rounds.
double read_float(DType dtype, const void* address);
void write_float(DType dtype, void* address, double value);

// Integer elements. i1 reads as != 0.
int64_t read_integer(DType dtype, const void* address);
void write_integer(DType dtype, void* address, int64_t value);

}  // namespace ligerdsl::interpreter
