#include "kernels/catalog.h"

#include "kernels/adamw.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/fused_add_rms_norm.h"
#include "kernels/gated_activation.h"
#include "kernels/global_norm.h"
#include "kernels/layer_norm.h"
#include "kernels/rope.h"
#include "kernels/softmax.h"
#include "kernels/target_counts.h"
#include "kernels/vector_add.h"

namespace ligerdsl::kernels {
namespace {

struct TypeOption {
  DType type = f32;

  template <class V>
  void visit(V&& v) {
    v("type", type);
  }
};

struct ScaleRowsOptions {
  DType type = f32, factor_type = f32;
  bool per_row = false;
  int64_t cols = 4096;

  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("factor_type", factor_type);
    v("per_row", per_row);
    v("cols", cols);
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

std::vector<CatalogEntry> make_catalog() {
  return {
      entry<TypeOption>("vector_add", "out = a + b",
                        [](const Machine& m, const TypeOption& o) { return vector_add(m, o.type); }),
      entry<RmsNormOptions>("rms_norm_forward", "RMSNorm of rows", rms_norm_forward),
      entry<RmsNormOptions>("rms_norm_backward", "gradient of RMSNorm", rms_norm_backward),
      entry<RmsNormOptions>("fused_add_rms_norm_forward", "residual sum and its RMSNorm", fused_add_rms_norm_forward),
      entry<RmsNormOptions>("fused_add_rms_norm_backward", "gradient of fused_add_rms_norm",
                            fused_add_rms_norm_backward),
      entry<LayerNormOptions>("layer_norm_forward", "LayerNorm of rows", layer_norm_forward),
      entry<LayerNormOptions>("layer_norm_backward", "gradient of LayerNorm", layer_norm_backward),
      entry<GatedOptions>("swiglu_forward", "silu(gate) * up", swiglu_forward),
      entry<GatedOptions>("swiglu_backward", "gradient of swiglu", swiglu_backward),
      entry<GatedOptions>("geglu_forward", "gelu(gate) * up, tanh form", geglu_forward),
      entry<GatedOptions>("geglu_backward", "gradient of geglu", geglu_backward),
      entry<RopeOptions>("rope", "rotary position embedding of q and k; sign -1 is the gradient", rope),
      entry<SoftmaxOptions>("softmax_forward", "softmax of rows, with a scale and a causal mask", softmax_forward),
      entry<SoftmaxOptions>("softmax_backward", "gradient of softmax", softmax_backward),
      entry<CrossEntropyOptions>("cross_entropy", "cross-entropy of rows of logits: loss, gradient and the rest",
                                 cross_entropy),
      entry<TargetCountsOptions>("target_counts", "what a mean over targets divides by", target_counts),
      entry<ScaleRowsOptions>("scale_rows", "rows times a factor read on the device",
                              [](const Machine& m, const ScaleRowsOptions& o) {
                                return scale_rows(m, o.type, o.factor_type, o.per_row, o.cols);
                              }),
      entry<EmbeddingOptions>("embedding_forward", "rows of a table by index", embedding_forward),
      entry<EmbeddingOptions>("embedding_backward", "gradient of the table", embedding_backward),
      entry<AdamwOptions>("adamw", "one AdamW step on a tensor", adamw),
      entry<TypeOption>("sum_of_squares", "partial sums of squares of a tensor",
                        [](const Machine& m, const TypeOption& o) { return sum_of_squares(m, o.type); }),
      entry<TypeOption>("finish_norm", "norm and clip factor from partial sums of squares",
                        [](const Machine& m, const TypeOption&) { return finish_norm(m); }),
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
