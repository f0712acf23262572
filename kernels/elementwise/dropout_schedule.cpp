#include <algorithm>

#include "kernels/elementwise/dropout.h"

namespace ligerdsl::kernels {
namespace {

using namespace elementwise_rule;

ElementwiseConfig heuristic_dropout(const Machine& machine, const DropoutOptions& o) {
  return elementwise_config(machine, o.type, o.cols,
                            {.arrays = o.add ? 3 : 2, .vectors = work_vectors(machine, o.type)});
}

std::string valid_dropout(const Machine&, const DropoutOptions& o,
                          const ElementwiseConfig& config) {
  const int64_t width = config.columns(o.type, o.cols);
  if (config.vectors > 0 && width % 4 != 0)
    return "columns per block: expected a multiple of 4, got " + std::to_string(width) +
           "; use a power of two of vectors, or fewer rows";
  return refused(o.type, o.cols, config);
}

// A Philox call gives four words, so a tile has at least four columns, even for shorter rows.
template <const DropoutKernel& kernel, void (*program)(KernelBuilder&, const DropoutMeta&)>
Operation dropout(const Machine&, const DropoutOptions& o, const ElementwiseConfig& config) {
  DropoutMeta meta{o};
  TileShape tile = config.tile(o.type, o.cols);
  tile.cols = std::max<int64_t>(tile.cols, 4);
  return by_tile(kernel.name, program, meta, tile);
}

Cost cost_of_dropout(const DropoutOptions& o, int64_t rows) {
  return o.add ? cost<3>(o, rows) : cost<2>(o, rows);
}

}  // namespace

const DropoutKernel dropout_forward_kernel{"dropout_forward",
                                           "dropout, with a residual added",
                                           &valid_dropout,
                                           &heuristic_dropout,
                                           &dropout<dropout_forward_kernel, &dropout_forward>,
                                           &cost_of_dropout};

const DropoutKernel dropout_backward_kernel{"dropout_backward",
                                            "gradient of dropout_forward",
                                            &valid_dropout,
                                            &heuristic_dropout,
                                            &dropout<dropout_backward_kernel, &dropout_backward>,
                                            &cost_of_dropout};

Operation dropout_forward(const Machine& machine, const DropoutOptions& options) {
  return dropout_forward_kernel(machine, options);
}

Operation dropout_backward(const Machine& machine, const DropoutOptions& options) {
  return dropout_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
