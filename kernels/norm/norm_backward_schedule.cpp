#include "kernels/norm/fused_add_norm.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/reduce/reduce_partials.h"

namespace ligerdsl::kernels {
namespace {

int inputs_of(const RmsNormOptions& o) {
  return o.with_d_sum ? 3 : 2;
}

int inputs_of(const LayerNormOptions& o) {
  if (o.without_d_x && o.gradients == LayerNormGradients::bias) return 1;
  return o.with_d_sum ? 3 : 2;
}

NormBackwardShape shape_of(const RmsNormOptions& o) {
  return {.type = o.type,
          .cols = o.cols,
          .sums = o.want_d_weight ? 1 : 0,
          .inputs = inputs_of(o),
          .d_x = !o.without_d_x};
}

NormBackwardShape shape_of(const LayerNormOptions& o) {
  return {.type = o.type,
          .cols = o.cols,
          .sums = o.sums(),
          .inputs = inputs_of(o),
          .d_x = !o.without_d_x};
}

template <class Options>
std::string valid(const Machine& machine, const Options& o, const NormBackwardConfig& config) {
  return norm_backward_refused(machine, shape_of(o), config);
}

template <class Options>
NormBackwardConfig heuristic(const Machine& machine, const Options& o) {
  return norm_backward_heuristic(machine, shape_of(o));
}

Operation rms_norm(const Machine& machine, const RmsNormOptions& o,
                   const NormBackwardConfig& config) {
  const char* name =
      o.residual ? fused_add_rms_norm_backward_kernel.name : rms_norm_backward_kernel.name;
  return norm_backward(machine, RmsNormMeta{o}, config,
                       {.by_rows = {name, &rms_norm_backward},
                        .by_columns = {"rms_norm_d_weight", &rms_norm_d_weight},
                        .reduce =
                            [&] {
                              return reduce_partials(machine, {{.out = "d_weight",
                                                                .type = o.d_weight_type,
                                                                .cols = o.cols,
                                                                .accumulate = o.accumulate}});
                            },
                        .partials = {"partials"}});
}

Operation layer_norm(const Machine& machine, const LayerNormOptions& o,
                     const NormBackwardConfig& config) {
  const char* name =
      o.residual ? fused_add_layer_norm_backward_kernel.name : layer_norm_backward_kernel.name;
  const std::vector<PartialSums> sums =
      layer_norm_sums(o.gradients, o.d_weight_type, o.cols, o.accumulate);
  std::vector<std::string> partials;
  for (const PartialSums& of : sums) partials.push_back(of.partials);
  return norm_backward(machine, LayerNormMeta{o}, config,
                       {.by_rows = {name, &layer_norm_backward},
                        .by_columns = {"layer_norm_d_weight", &layer_norm_d_weight},
                        .reduce = [&] { return reduce_partials(machine, sums); },
                        .partials = std::move(partials)});
}

// Counts the input arrays, d_x and the statistics of each row. Arrays of one row, such as the
// weight, are negligible.
template <class Options>
Cost cost(const Options& o, int64_t rows, int statistics) {
  const int arrays = inputs_of(o) + int{!o.without_d_x};
  return {static_cast<double>(arrays * o.cols * size_of(o.type) + 4 * statistics) *
          static_cast<double>(rows)};
}

Cost rms_norm_cost(const RmsNormOptions& o, int64_t rows) {
  return cost(o, rows, 1);
}

Cost layer_norm_cost(const LayerNormOptions& o, int64_t rows) {
  return cost(o, rows, 2);
}

}  // namespace

std::vector<PartialSums> layer_norm_sums(LayerNormGradients gradients, DType type, int64_t cols,
                                         bool accumulate) {
  std::vector<PartialSums> sums;
  const auto add = [&](const char* out, const char* partials) {
    sums.push_back(
        {.out = out, .partials = partials, .type = type, .cols = cols, .accumulate = accumulate});
  };
  if (gradients != LayerNormGradients::bias) add("d_weight", "weight_partials");
  if (gradients != LayerNormGradients::weight) add("d_bias", "bias_partials");
  return sums;
}

const RmsNormBackward rms_norm_backward_kernel{
    "rms_norm_backward", "gradient of RMSNorm", &valid<RmsNormOptions>, &heuristic<RmsNormOptions>,
    &rms_norm,           &rms_norm_cost};
const RmsNormBackward fused_add_rms_norm_backward_kernel =
    fused_add<RmsNormOptions, NormBackwardConfig, rms_norm_backward_kernel>(
        "fused_add_rms_norm_backward", "gradient of fused_add_rms_norm");
const LayerNormBackward layer_norm_backward_kernel{"layer_norm_backward",
                                                   "gradient of LayerNorm",
                                                   &valid<LayerNormOptions>,
                                                   &heuristic<LayerNormOptions>,
                                                   &layer_norm,
                                                   &layer_norm_cost};
const LayerNormBackward fused_add_layer_norm_backward_kernel =
    fused_add<LayerNormOptions, NormBackwardConfig, layer_norm_backward_kernel>(
        "fused_add_layer_norm_backward", "gradient of fused_add_layer_norm");

Operation rms_norm_backward(const Machine& machine, const RmsNormOptions& options) {
  return options.residual ? fused_add_rms_norm_backward_kernel(machine, options)
                          : rms_norm_backward_kernel(machine, options);
}

Operation layer_norm_backward(const Machine& machine, const LayerNormOptions& options) {
  return options.residual ? fused_add_layer_norm_backward_kernel(machine, options)
                          : layer_norm_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
