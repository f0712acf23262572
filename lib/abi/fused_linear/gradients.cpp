#include "lib/abi/fused_linear/gradients.h"

namespace ligerdsl::lib::head {

HeadGradients::HeadGradients(Context& context, const Desc& d,
                             const kernels::LinearCrossEntropyOptions& options, bool reports)
    : type_(options.type) {
  const kernels::LinearCrossEntropyColumns made =
      kernels::linear_cross_entropy_columns(context.machine(), options, reports);
  tiles_ = made.config;
  gradient_ = head_step(context, d, made.gradient,
                        {.views = {{"d", LIGERDSL_VIEW(chunk.logits)},
                                   {"x", LIGERDSL_VIEW(chunk.x)},
                                   {"weight", LIGERDSL_VIEW(block.weight)},
                                   {"labels", LIGERDSL_VIEW(chunk.labels)},
                                   {"lse", LIGERDSL_VIEW(rows.lse)},
                                   {"label_logit", LIGERDSL_VIEW(rows.label_logit)},
                                   {"bias", LIGERDSL_VIEW(block.bias)},
                                   {"class_weight", LIGERDSL_VIEW(batch.class_weight)},
                                   {"column_weight", LIGERDSL_VIEW(block.class_weight)},
                                   {"d_loss", LIGERDSL_VIEW(chunk.d_loss)},
                                   {"entropy", LIGERDSL_VIEW(rows.entropy)},
                                   {"d_entropy", LIGERDSL_VIEW(chunk.d_entropy)},
                                   {"counts", LIGERDSL_VIEW(batch.counts)},
                                   {"error", LIGERDSL_VIEW(batch.error)}}});
  if (options.token_scaling)
    label_logits_ = head_step(context, d, made.label_logits,
                              {.views = {{"label_logit", LIGERDSL_VIEW(rows.label_logit)},
                                         {"x", LIGERDSL_VIEW(chunk.x)},
                                         {"weight", LIGERDSL_VIEW(block.weight_given)},
                                         {"labels", LIGERDSL_VIEW(chunk.labels)},
                                         {"bias", LIGERDSL_VIEW(batch.bias)}}});
}

void HeadGradients::find_label_logits(Views* views, const Call& call) const {
  if (!label_logits_) return;
  Views& v = *views;
  v.block.weight_given = call.tensors[fused_linear_cross_entropy::k_weight];
  label_logits_->run(view_table(v), nullptr, v.chunk.x.dims[0], call.stream);
}

void HeadGradients::run(const Call& call, const LinearLayout& layout, const HeadWeight& weight,
                        int64_t first, int64_t first_column, const Views& views) const {
  const BoundTensor& logits = views.chunk.logits;
  const int64_t row_tiles = kernels::ceil_div(logits.dims[0], int64_t{tiles_.tile_m});
  weight.for_pieces(
      call, layout, first_column, logits.dims[1], views, [&](const Part& piece, Views& v) {
        v.block.bias = rows_of(v.batch.bias, piece.first, piece.size);
        v.block.class_weight = rows_of(v.batch.class_weight, piece.first, piece.size);
        // Rounds up to whole vectors, because a store may write the padding between rows of logits.
        const int64_t columns = kernels::round_up(piece.size, vector_width(type_));
        v.chunk.logits = columns_of(logits, piece.first - first_column, columns);
        const Numbers numbers{first, piece.first};
        gradient_->run(view_table(v), numbers.data(),
                       row_tiles * kernels::ceil_div(piece.size, int64_t{tiles_.tile_n}),
                       call.stream);
      });
}

void HeadGradients::add_launchers(std::vector<const Launcher*>* all) const {
  for (const auto* step : {&gradient_, &label_logits_})
    if (*step) all->push_back((*step)->launcher());
}

}  // namespace ligerdsl::lib::head
