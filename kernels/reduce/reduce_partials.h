// The second stage of parameters' gradients: sums of partial sums, of several parameters in one launch.
#pragma once

#include <string>
#include <vector>

#include "kernels/core/launch.h"
#include "kernels/core/tile_shape.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// out[j] = sum over p of partials[p, j], in a fixed order. Arguments are given by their names; an empty name is of none.
struct PartialSums {
  std::string out = "out";            // [cols] of `type`
  std::string partials = "partials";  // [p, cols] of `from`; sums of a launch may have them in common
  DType type = f32, from = f32;
  int64_t cols = 4096;
  bool accumulate = false;  // out += the sum; f32 only
  std::string scale;        // [p] f32, factors of the partials: 0 leaves one out, whatever it is

  // partials [groups, p, cols], out [groups, cols]: a sum for each group. 0: no groups.
  int64_t groups = 0;
  int64_t most = 0;        // partials of a group; 0: any number
  std::string modulation;  // [groups, cols]: out [cols] is the sum of all groups, each times 1 + modulation
  DType modulation_type = f32;
  std::string weight;  // [cols], a factor of the sum
  DType weight_type = f32;
  std::string weight_offset;  // f32 scalar that is added to the weight

  // Of a program: partials and groups side by side, columns. reduce_partials chooses them.
  int64_t tile_rows = 16, tile_groups = 1, tile_cols = 64;
};

struct ReducePartialsMeta {
  std::vector<PartialSums> sums;
};

// Arguments: those that the sums name.
void reduce_partials(KernelBuilder& k, const ReducePartialsMeta& m);

// One launch that makes all of these sums of scratch buffers. A program has a tile of columns of one row of one of them.
Step reduce_partials(const Machine& machine, std::vector<PartialSums> sums);

}  // namespace ligerdsl::kernels
