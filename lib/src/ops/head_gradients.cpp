#include "lib/src/ops/head_gradients.h"

namespace ligerdsl::lib::head {

HeadGradients::HeadGradients(Context& context, const Desc& d, const kernels::LinearCrossEntropyOptions& options,
                             bool reports)
    : type_(options.type) {
  const kernels::LinearCrossEntropyColumns made =
      kernels::linear_cross_entropy_columns(context.machine(), options, reports);
  tiles_ = made.config;
  gradient_ = head_step(context, d, made.gradient,
                        {.views = {{"d", kLogits},
                                   {"x", kX},
                                   {"weight", kWeight},
                                   {"labels", kLabels},
                                   {"lse", kLse},
                                   {"label_logit", kLabelLogit},
                                   {"bias", kColumnBias},
                                   {"class_weight", kClassWeight},
                                   {"column_weight", kColumnWeight},
                                   {"d_loss", kDLoss},
                                   {"entropy", kEntropy},
                                   {"d_entropy", kDEntropy},
                                   {"counts", kCounts},
                                   {"error", kError}}});
  if (options.token_scaling)
    label_logits_ = head_step(
        context, d, made.label_logits,
        {.views = {
             {"label_logit", kLabelLogit}, {"x", kX}, {"weight", kWeightGiven}, {"labels", kLabels}, {"bias", kBias}}});
}

void HeadGradients::find_label_logits(Views* views, const Call& call) const {
  if (!label_logits_) return;
  Views& v = *views;
  v[kWeightGiven] = call.tensors[fused_linear_cross_entropy::k_weight];
  label_logits_->run(v.data(), nullptr, v[kX].dims[0], call.stream);
}

void HeadGradients::run(const Call& call, const LinearLayout& layout, const HeadWeight& weight, int64_t first,
                        int64_t first_column, Views* views) const {
  Views& v = *views;
  const BoundTensor logits = v[kLogits];
  const int64_t row_tiles = kernels::ceil_div(logits.dims[0], int64_t{tiles_.tile_m});
  weight.for_pieces(call, layout, first_column, logits.dims[1], views, [&](const Part& piece) {
    v[kColumnBias] = rows_of(v[kBias], piece.first, piece.size);
    v[kColumnWeight] = rows_of(v[kClassWeight], piece.first, piece.size);
    // Whole vectors, as stores like them: what is between a row of logits and the next may be written.
    v[kLogits] = columns_of(logits, piece.first - first_column, kernels::round_up(piece.size, vector_width(type_)));
    const Numbers numbers{first, piece.first};
    gradient_->run(v.data(), numbers.data(), row_tiles * kernels::ceil_div(piece.size, int64_t{tiles_.tile_n}),
                   call.stream);
  });
  v[kLogits] = logits;
}

void HeadGradients::add_launchers(std::vector<const Launcher*>* all) const {
  for (const auto* step : {&gradient_, &label_logits_})
    if (*step) all->push_back((*step)->launcher());
}

}  // namespace ligerdsl::lib::head
