// Row conversions between the kernels of an operation: to another dtype, to zeros, and to zeros in
// ignored rows.
#pragma once

#include <cstdint>

#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct ConvertRowsMeta {
  DType from = f32, to = f32;
  DType label_type = i64;
  int64_t cols = 4096;
  int64_t rows = 1;
  int64_t block = 1024;
};

// out = in, rounded to the type of out. Arguments: out [n, H] `to`; in [n, H] `from`.
void convert_rows(KernelBuilder& k, const ConvertRowsMeta& m);

// out = 0. Arguments: out [n, H] `to`.
void zero_rows(KernelBuilder& k, const ConvertRowsMeta& m);

// out = in, rounded to the type of out, but 0 in rows whose label is ignore_index, whatever `in`
// holds there. Arguments: out [n, H] `to`; in [n, H] `from`; labels [n]; ignore_index i64.
void counted_rows(KernelBuilder& k, const ConvertRowsMeta& m);

// out = 0 in rows whose label is ignore_index; other rows stay as they are.
// Arguments: out [n, H] `to`; labels [n]; ignore_index i64.
void clear_ignored_rows(KernelBuilder& k, const ConvertRowsMeta& m);

// Rows: rows of out.
Operation convert_rows(const Machine& machine, DType from, DType to, int64_t cols);
Operation zero_rows(const Machine& machine, DType type, int64_t cols);
Operation counted_rows(const Machine& machine, DType from, DType to, int64_t cols,
                       DType label_type);
Operation clear_ignored_rows(const Machine& machine, DType type, int64_t cols, DType label_type);

}  // namespace ligerdsl::kernels
