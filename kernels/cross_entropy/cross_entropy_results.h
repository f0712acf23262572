// What a row's sums make of its label: results, and the coefficients of its gradient.
#pragma once

#include "kernels/cross_entropy/cross_entropy_row.h"

namespace ligerdsl::kernels {

// Where a row's logits are read: what its results take beside the sums.
struct CrossEntropyPlace {
  Scalar index;      // of the row
  Scalar label;      // that counts
  Scalar classes;    // i32
  Scalar z_label;    // z of the label
  Scalar reference;  // what `deviation` is relative to
  Scalar rate;       // 1 / temperature, where there is one
};

class CrossEntropyResults {
 public:
  // d_c = 2^u_c * (power + u_c * entropy) - [w_c] * smooth, and the finished d_y of the label.
  struct Coefficients {
    Scalar power, entropy, smooth, label;
  };

  CrossEntropyResults(KernelBuilder& k, const CrossEntropyMeta& m, const CrossEntropyArguments& args,
                      const CrossEntropyPlace& place, const CrossEntropyRowSums& sums);

  void store() const;
  Coefficients coefficients() const;

 private:
  // lse - z without the loss of accuracy of large values.
  Scalar lse_minus(const Scalar& z) const;
  void set_scales();
  Scalar target_weight() const;  // (1 - a) w_y
  Scalar loss() const;
  Scalar tempered(const Scalar& d) const { return m_.tempered ? d * place_.rate : d; }

  KernelBuilder& k_;
  const CrossEntropyMeta& m_;
  const CrossEntropyArguments& args_;
  CrossEntropyPlace place_;
  CrossEntropyRowSums sums_;
  Scalar label_power_, total_, log_total_, lse_;
  Scalar zeta_scale_, loss_scale_, label_weight_, per_class_, rest_;  // of the loss in the reduced result, and options
  Scalar label_exponent_, mean_exponent_;  // entropy: u of the label, and the mean of u by the probabilities
};

}  // namespace ligerdsl::kernels
