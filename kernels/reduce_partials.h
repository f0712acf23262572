// out_j = sum over p of partials[p, j], in a fixed order: the second stage of parameter gradients.
#pragma once

#include <string>

#include "kernels/launch.h"
#include "kernels/tile_shape.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Partials added side by side, columns of a program, and its warps.
TileShape partials_tile(const Machine& machine);

struct ReducePartialsMeta {
  DType type = f32;         // of out
  DType from = f32;         // of partials
  std::string out = "out";  // name of the output argument
  std::string partials = "partials";
  bool accumulate = false;  // out += the sum; f32 only
  bool scaled = false;      // every partial is multiplied by a number of its own; 0 leaves it out, whatever it is
  int64_t n = 4096;         // width of out
  int64_t rows = 16;        // partials added side by side
  int64_t cols = 64;
};

// Arguments: out [n] of `type`, partials [p, n] of `from`, [scale] [p] f32.
void reduce_partials(KernelBuilder& k, const ReducePartialsMeta& m);

// The step that turns a scratch buffer [p, cols] into `out` [cols].
Step reduce_partials(const Machine& machine, const std::string& out, DType type, bool accumulate, int64_t cols,
                     DType from = f32, const std::string& partials = "partials", bool scaled = false);

}  // namespace ligerdsl::kernels
