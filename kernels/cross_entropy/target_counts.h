// What a mean over targets divides by, counted on the device.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct TargetCountsOptions {
  DType label_type = i64;
  bool has_weight = false;  // class weights
  int64_t classes = 32000;  // of the weights
  DType weight_type = f32;

  template <class V>
  void visit(V&& v) {
    v("label_type", label_type);
    v("has_weight", has_weight);
    v("classes", classes);
    v("weight_type", weight_type);
  }
};

// Arguments: those of cross_entropy_count (cross_entropy.h), whose kernel it is. Rows: labels. Scratch: partial counts.
Operation target_counts(const Machine& machine, const TargetCountsOptions& options);
extern const FixedKernel<TargetCountsOptions> target_counts_kernel;

// The same by one program without scratch, for operations whose other work dwarfs the reading of labels.
Step target_counts_step(const TargetCountsOptions& options);

}  // namespace ligerdsl::kernels
