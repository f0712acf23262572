// Second stage of parameter gradients: reduces the partial sums of several parameters in one
// launch.
#pragma once

#include <string>
#include <vector>

#include "kernels/core/launch.h"
#include "kernels/core/tile_shape.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// out[j] = sum over p of partials[p, j], in a fixed order. The strings are names of arguments; an
// empty name means that there is no such argument.
struct PartialSums {
  std::string out = "out";  // [cols] `type`
  std::string partials =
      "partials";  // [p, cols] `from`; several PartialSums of a launch may share them
  DType type = f32, from = f32;
  int64_t cols = 4096;
  bool accumulate = false;  // out += the sum; f32 only
  std::string scale;  // [p] f32, multiplies the partials; 0 skips a partial, even if it is NaN

  // If not 0: partials are [groups, p, cols], and out is [groups, cols] with one sum per group.
  int64_t groups = 0;
  int64_t most = 0;  // most partials per group; 0: any number
  std::string
      modulation;  // [groups, cols]: out [cols] is the sum over groups, each times 1 + modulation
  DType modulation_type = f32;
  std::string weight;  // [cols], factor of the sum
  DType weight_type = f32;
  std::string weight_offset;  // f32 scalar that is added to the weight

  // Partials, groups and columns per tile. reduce_partials chooses them.
  int64_t tile_rows = 16, tile_groups = 1, tile_cols = 64;
};

struct ReducePartialsMeta {
  std::vector<PartialSums> sums;
};

// The entries of `m.sums` name the arguments.
void reduce_partials(KernelBuilder& k, const ReducePartialsMeta& m);

// Returns one launch that computes all of `sums`. A program computes one tile of columns of one
// output row.
Step reduce_partials(const Machine& machine, std::vector<PartialSums> sums);

}  // namespace ligerdsl::kernels
