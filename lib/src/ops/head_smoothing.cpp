#include "lib/src/ops/head_smoothing.h"

namespace ligerdsl::lib::head {

HeadSmoothing::HeadSmoothing(Context& context, const Desc& d, const kernels::CrossEntropyOptions& options,
                             DType head_type)
    : classes_(d.n_classes), cols_(d.n_cols) {
  const kernels::LinearSmoothing made =
      kernels::linear_smoothing(context.machine(), options.type, head_type, options, d.n_cols);
  parts_ = made.parts;
  const auto step = [&](const kernels::Step& recorded, const StepNames& names) {
    return head_step(context, d, recorded, names);
  };
  class_factors_ =
      step(made.class_factors, {.views = {{"class_factor", kClassFactor}, {"class_weight", kClassWeight}}});
  if (d.with_d_x) {
    weight_sums_ =
        step(made.weight_sums, {.views = {{"partials", kPartSums}, {"rows", kWeightGiven}, {"factor", kClassFactor}}});
    finish_weight_ = step(made.finish, {.views = {{"sums", kWeightSums}, {"partials", kPartSums}}});
  }
  if (d.d_weight_dtype != 0) {
    x_sums_ = step(made.x_sums, {.views = {{"partials", kPartSums}, {"rows", kX}, {"factor", kSmooth}}});
    finish_x_ = step(made.finish, {.views = {{"sums", kXSums}, {"partials", kPartSums}}});
  }
  if (d.d_bias_dtype != 0)
    bias_ = step(made.bias, {.views = {{"d_bias", kDBias}, {"class_factor", kClassFactor}, {"factor", kSmooth}}});
}

void HeadSmoothing::sum_weight(const Call& call, const LinearLayout& layout, Views* views) const {
  Views& v = *views;
  std::byte* const memory = call.workspace;
  v[kClassFactor] = make_vector(memory + layout.class_factor, DType::f32, classes_);
  v[kWeightSums] = make_vector(memory + layout.weight_sums, DType::f32, cols_);
  v[kXSums] = make_vector(memory + layout.x_sums, DType::f32, cols_);
  v[kPartSums] = make_view(memory + layout.part_sums, DType::f32, parts_, cols_, cols_);
  class_factors_->run(v.data(), nullptr, classes_, call.stream);
  if (!weight_sums_) return;
  weight_sums_->run(v.data(), nullptr, classes_, call.stream);
  finish_weight_->run(v.data(), nullptr, parts_, call.stream);
}

void HeadSmoothing::sum_x(const Call& call, const Views& v) const {
  x_sums_->run(v.data(), nullptr, v[kX].dims[0], call.stream);
  finish_x_->run(v.data(), nullptr, parts_, call.stream);
}

void HeadSmoothing::add_to_bias(const Call& call, const Views& v) const {
  bias_->run(v.data(), nullptr, classes_, call.stream);
}

void HeadSmoothing::add_launchers(std::vector<const Launcher*>* all) const {
  for (const auto* step : {&class_factors_, &weight_sums_, &finish_weight_, &x_sums_, &finish_x_, &bias_})
    if (*step) all->push_back((*step)->launcher());
}

}  // namespace ligerdsl::lib::head
