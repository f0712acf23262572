// Rows in another data type, and rows of zeros: what operations of several kernels need between them.
#pragma once

#include <cstdint>

#include "kernels/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct ConvertRowsMeta {
  DType from = f32, to = f32;
  int64_t cols = 4096;
  int64_t rows = 1;
  int64_t block = 1024;
};

// out = in, rounded to the type of out. Arguments: out [n, H] `to`; in [n, H] `from`.
void convert_rows(KernelBuilder& k, const ConvertRowsMeta& m);

// out = 0. Arguments: out [n, H] `to`.
void zero_rows(KernelBuilder& k, const ConvertRowsMeta& m);

// Rows: rows of out.
Operation convert_rows(const Machine& machine, DType from, DType to, int64_t cols);
Operation zero_rows(const Machine& machine, DType type, int64_t cols);

}  // namespace ligerdsl::kernels
