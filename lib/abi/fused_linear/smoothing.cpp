#include "lib/abi/fused_linear/smoothing.h"

namespace ligerdsl::lib::head {

HeadSmoothing::HeadSmoothing(Context& context, const Desc& d,
                             const kernels::CrossEntropyOptions& options, DType head_type)
    : classes_(d.n_classes), cols_(d.n_cols) {
  const kernels::LinearSmoothing made =
      kernels::linear_smoothing(context.machine(), options.type, head_type, options, d.n_cols);
  parts_ = made.parts;
  const auto step = [&](const kernels::Step& recorded, const StepNames& names) {
    return head_step(context, d, recorded, names);
  };
  class_factors_ =
      step(made.class_factors, {.views = {{"class_factor", LIGERDSL_VIEW(smoothing.class_factor)},
                                          {"class_weight", LIGERDSL_VIEW(batch.class_weight)}}});
  if (d.with_d_x) {
    weight_sums_ =
        step(made.weight_sums, {.views = {{"partials", LIGERDSL_VIEW(smoothing.partials)},
                                          {"rows", LIGERDSL_VIEW(block.weight_given)},
                                          {"factor", LIGERDSL_VIEW(smoothing.class_factor)}}});
    finish_weight_ =
        step(made.finish, {.views = {{"sums", LIGERDSL_VIEW(smoothing.weight_sums)},
                                     {"partials", LIGERDSL_VIEW(smoothing.partials)}}});
  }
  if (d.d_weight_dtype != 0) {
    x_sums_ = step(made.x_sums, {.views = {{"partials", LIGERDSL_VIEW(smoothing.partials)},
                                           {"rows", LIGERDSL_VIEW(chunk.x)},
                                           {"factor", LIGERDSL_VIEW(smoothing.of_rows)}}});
    finish_x_ = step(made.finish, {.views = {{"sums", LIGERDSL_VIEW(smoothing.x_sums)},
                                             {"partials", LIGERDSL_VIEW(smoothing.partials)}}});
  }
  if (d.d_bias_dtype != 0)
    bias_ = step(made.bias, {.views = {{"d_bias", LIGERDSL_VIEW(gradients.d_bias)},
                                       {"class_factor", LIGERDSL_VIEW(smoothing.class_factor)},
                                       {"factor", LIGERDSL_VIEW(smoothing.of_rows)}}});
}

void HeadSmoothing::sum_weight(const Call& call, const LinearLayout& layout, Views* views) const {
  Views& v = *views;
  std::byte* const memory = call.workspace;
  v.smoothing.class_factor = make_vector(memory + layout.class_factor, DType::f32, classes_);
  v.smoothing.weight_sums = make_vector(memory + layout.weight_sums, DType::f32, cols_);
  v.smoothing.x_sums = make_vector(memory + layout.x_sums, DType::f32, cols_);
  v.smoothing.partials = make_view(memory + layout.part_sums, DType::f32, parts_, cols_, cols_);
  class_factors_->run(view_table(v), nullptr, classes_, call.stream);
  if (!weight_sums_) return;
  weight_sums_->run(view_table(v), nullptr, classes_, call.stream);
  finish_weight_->run(view_table(v), nullptr, parts_, call.stream);
}

void HeadSmoothing::sum_x(const Call& call, const Views& v) const {
  x_sums_->run(view_table(v), nullptr, v.chunk.x.dims[0], call.stream);
  finish_x_->run(view_table(v), nullptr, parts_, call.stream);
}

void HeadSmoothing::add_to_bias(const Call& call, const Views& v) const {
  bias_->run(view_table(v), nullptr, classes_, call.stream);
}

void HeadSmoothing::add_launchers(std::vector<const Launcher*>* all) const {
  for (const auto* step :
       {&class_factors_, &weight_sums_, &finish_weight_, &x_sums_, &finish_x_, &bias_})
    if (*step) all->push_back((*step)->launcher());
}

}  // namespace ligerdsl::lib::head
