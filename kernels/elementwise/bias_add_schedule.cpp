#include "kernels/elementwise/bias_add.h"

namespace ligerdsl::kernels {
namespace {

using namespace elementwise_rule;

Operation bias_add(const Machine&, const BiasAddOptions& o, const ElementwiseConfig& config) {
  return by_tiles(bias_add_forward_kernel.name, &bias_add_forward, BiasAddMeta{o}, config);
}

}  // namespace

const BiasAddForward bias_add_forward_kernel{"bias_add_forward",
                                             "rows plus a bias",
                                             &valid<BiasAddOptions>,
                                             &heuristic<2, BiasAddOptions>,
                                             &bias_add,
                                             &cost<2, BiasAddOptions>};

Operation bias_add_forward(const Machine& machine, const BiasAddOptions& options) {
  return bias_add_forward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
