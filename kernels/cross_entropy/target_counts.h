// Divisors of a mean over targets, counted on the device.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct TargetCountsOptions {
  DType label_type = i64;
  bool has_weight = false;  // class weights
  int64_t classes = 32000;  // number of class weights
  DType weight_type = f32;

  template <class V>
  void visit(V&& v) {
    v("label_type", label_type);
    v("has_weight", has_weight);
    v("classes", classes);
    v("weight_type", weight_type);
  }
};

// Returns the operation that runs cross_entropy_count (cross_entropy.h), with the same arguments.
// Rows: labels. Scratch: partial counts.
Operation target_counts(const Machine& machine, const TargetCountsOptions& options);
extern const FixedKernel<TargetCountsOptions> target_counts_kernel;

// Returns a step with one program and without scratch, for operations that spend little time
// reading labels.
Step target_counts_step(const TargetCountsOptions& options);

}  // namespace ligerdsl::kernels
