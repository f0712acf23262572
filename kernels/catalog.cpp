#include "kernels/catalog.h"

#include "kernels/attention_config.h"
#include "kernels/column_sums_config.h"
#include "kernels/cross_entropy_config.h"
#include "kernels/divergence_config.h"
#include "kernels/dyt_config.h"
#include "kernels/elementwise_config.h"
#include "kernels/embedding_config.h"
#include "kernels/gated_matmul_config.h"
#include "kernels/global_norm.h"
#include "kernels/group_norm_config.h"
#include "kernels/grouped_matmul_config.h"
#include "kernels/layer_norm_config.h"
#include "kernels/logit_divergence_config.h"
#include "kernels/matmul_config.h"
#include "kernels/modulated_rms_norm_config.h"
#include "kernels/norm_backward_config.h"
#include "kernels/poly_norm_config.h"
#include "kernels/rms_norm_config.h"
#include "kernels/rope_config.h"
#include "kernels/softmax_config.h"
#include "kernels/sparsemax_config.h"
#include "kernels/target_counts.h"
#include "kernels/vocab_parallel_cross_entropy_config.h"

namespace ligerdsl::kernels {
namespace {

struct TypeOption {
  DType type = f32;

  template <class V>
  void visit(V&& v) {
    v("type", type);
  }
};

template <class Options>
CatalogEntry entry(const std::string& name, const std::string& description,
                   Operation (*make)(const Machine&, const Options&)) {
  return {.name = name,
          .description = description,
          .options = meta_fields(Options{}),
          .make = [name, make](const Machine& machine, const MetaValues& options) {
            return make(machine, meta_from<Options>(name, options));
          }};
}

template <class Options, class Config>
CatalogEntry entry(const ConfiguredKernel<Options, Config>& kernel) {
  const auto options_of = [name = kernel.name](const MetaValues& values) { return meta_from<Options>(name, values); };
  return {
      .name = kernel.name,
      .description = kernel.description,
      .options = meta_fields(Options{}),
      .make = [=, &kernel](const Machine& machine,
                           const MetaValues& options) { return kernel(machine, options_of(options)); },
      .heuristic =
          [=, &kernel](const Machine& machine, const MetaValues& options) {
            return meta_fields(kernel.heuristic(machine, options_of(options)));
          },
      .valid =
          [=, &kernel](const Machine& machine, const MetaValues& options, const MetaValues& config) {
            const Options o = options_of(options);
            return kernel.valid(machine, o, meta_from(kernel.name, config, kernel.heuristic(machine, o)));
          },
      .make_with =
          [=, &kernel](const Machine& machine, const MetaValues& options, const MetaValues& config) {
            const Options o = options_of(options);
            return kernel.build(machine, o, kernel.chosen(machine, o, config));
          },
      .cost = [=, &kernel](const MetaValues& options, int64_t rows) { return kernel.cost(options_of(options), rows); },
      .version = kernel.version};
}

std::vector<CatalogEntry> make_catalog() {
  return {
      entry(vector_add_kernel),
      entry(rms_norm_forward_kernel),
      entry(rms_norm_backward_kernel),
      entry(fused_add_rms_norm_forward_kernel),
      entry(fused_add_rms_norm_backward_kernel),
      entry(modulated_rms_norm_forward_kernel),
      entry(modulated_rms_norm_backward_kernel),
      entry(layer_norm_forward_kernel),
      entry(layer_norm_backward_kernel),
      entry(fused_add_layer_norm_forward_kernel),
      entry(fused_add_layer_norm_backward_kernel),
      entry(group_norm_forward_kernel),
      entry(group_norm_backward_kernel),
      entry(poly_norm_forward_kernel),
      entry(poly_norm_backward_kernel),
      entry(dyt_forward_kernel),
      entry(dyt_backward_kernel),
      entry(bias_add_forward_kernel),
      entry(bias_add_backward_kernel),
      entry(matmul_kernel),
      entry(grouped_matmul_kernel),
      entry(gated_matmul_kernel),
      entry(gated_matmul_backward_kernel),
      entry(attention_forward_kernel),
      entry(attention_backward_kernel),
      entry(activation_forward_kernel),
      entry(activation_backward_kernel),
      entry(dropout_forward_kernel),
      entry(dropout_backward_kernel),
      entry(swiglu_forward_kernel),
      entry(swiglu_backward_kernel),
      entry(geglu_forward_kernel),
      entry(geglu_backward_kernel),
      entry(rope_kernel),
      entry(softmax_forward_kernel),
      entry(softmax_backward_kernel),
      entry(sparsemax_forward_kernel),
      entry(sparsemax_backward_kernel),
      entry(cross_entropy_kernel),
      entry(vocab_parallel_partials_kernel),
      entry(vocab_parallel_cross_entropy_kernel),
      entry<TargetCountsOptions>("target_counts", "what a mean over targets divides by", target_counts),
      entry(divergence_kernel),
      entry(logit_divergence_kernel),
      entry(scale_rows_kernel),
      entry(embedding_forward_kernel),
      entry(embedding_backward_kernel),
      entry(adamw_kernel),
      entry<TypeOption>("sum_of_squares", "partial sums of squares of a tensor",
                        [](const Machine& m, const TypeOption& o) { return sum_of_squares(m, o.type); }),
      entry<NormOptions>("finish_norm", "norm and clip factor from partial sums of squares", finish_norm),
  };
}

}  // namespace

const std::vector<CatalogEntry>& catalog() {
  static const std::vector<CatalogEntry> entries = make_catalog();
  return entries;
}

const CatalogEntry* find_operation(const std::string& name) {
  for (const CatalogEntry& entry : catalog()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace ligerdsl::kernels
