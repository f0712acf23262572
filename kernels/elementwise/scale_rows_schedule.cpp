#include "kernels/elementwise/scale_rows.h"

namespace ligerdsl::kernels {
namespace {

using namespace elementwise_rule;

Operation scale(const Machine&, const ScaleRowsOptions& o, const ElementwiseConfig& config) {
  return by_tiles(scale_rows_kernel.name, &scale_rows, ScaleRowsMeta{o}, config);
}

}  // namespace

const ScaleRows scale_rows_kernel{"scale_rows",
                                  "rows times a factor read on the device",
                                  &valid<ScaleRowsOptions>,
                                  &heuristic<2, ScaleRowsOptions>,
                                  &scale,
                                  &cost<2, ScaleRowsOptions>};

Operation scale_rows(const Machine& machine, const ScaleRowsOptions& options) {
  return scale_rows_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
