// Kernel options from the common fields of cross-entropy descriptors.
#pragma once

#include "kernels/core/softcap.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

// Fails if neither the loss nor any other output is wanted.
template <class Desc>
void check_without_loss(const Desc& d, bool others) {
  if (d.without_loss == 0 || others || d.with_z_loss || d.with_accuracy || d.with_predictions ||
      d.with_entropy)
    return;
  fail(Status::invalid_argument,
       "`without_loss`: expected 0 without another output, got 1; pass loss or another output");
}

// Fails if an upstream gradient is passed and no gradient is wanted.
inline void check_upstream(const char* field, int32_t given, bool with_gradient,
                           const char* gradients) {
  if (!given || with_gradient) return;
  fail(Status::invalid_argument, std::string("`") + field + "`: expected 0 without " + gradients +
                                     ", got 1; pass " + gradients + ", or set `" + field +
                                     "` to 0");
}

// Returns the options except the logits' type and the gradient.
template <class Desc>
kernels::CrossEntropyOptions cross_entropy_options(const Desc& d) {
  kernels::CrossEntropyOptions options;
  options.classes = d.n_classes;
  options.label_type = dtype_of(d.label_dtype);
  options.reduction = reduction_of(d.reduction);
  options.has_weight = d.with_class_weight != 0;
  options.weight_type = dtype_of(d.class_weight_dtype);
  options.with_loss = d.without_loss == 0;
  options.loss_type = dtype_of(d.loss_dtype);
  options.smoothing = d.label_smoothing != 0;
  options.lse_square = d.lse_square_scale != 0;
  options.softcap = d.softcap != 0;
  options.quick_softcap = options.softcap && kernels::allows_quick_softcap(d.softcap, d.n_classes);
  options.tempered = d.temperature != 0 && d.temperature != 1;
  options.with_entropy = d.with_entropy != 0;
  options.with_d_entropy = d.with_d_entropy != 0;
  options.with_z_loss = d.with_z_loss != 0;
  options.with_accuracy = d.with_accuracy != 0;
  options.with_predictions = d.with_predictions != 0;
  return options;
}

}  // namespace ligerdsl::lib
