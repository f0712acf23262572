// Results of a row from its row sums and its label, and the coefficients of its gradient.
#pragma once

#include "kernels/cross_entropy/cross_entropy_row.h"

namespace ligerdsl::kernels {

// A row's place and its values that do not come from the row sums.
struct CrossEntropyPlace {
  Scalar index;      // row
  Scalar label;      // a valid class
  Scalar classes;    // number of classes, i32
  Scalar z_label;    // z of the label
  Scalar reference;  // subtracted from each z in `deviation`
  Scalar rate;       // 1 / temperature; empty without temperature
};

class CrossEntropyResults {
 public:
  // d_c = 2^u_c * (power + u_c * entropy) - [w_c] * smooth; `label` is the final gradient of the
  // label.
  struct Coefficients {
    Scalar power, entropy, smooth, label;
  };

  CrossEntropyResults(KernelBuilder& k, const CrossEntropyMeta& m,
                      const CrossEntropyArguments& args, const CrossEntropyPlace& place,
                      const CrossEntropyRowSums& sums);

  void store() const;
  Coefficients coefficients() const;

 private:
  // Returns lse - z without the cancellation of large values.
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
  // Scales of the row's loss and z-loss in the reduced result, and values of options.
  Scalar zeta_scale_, loss_scale_, label_weight_, per_class_, rest_;
  // With entropies: u of the label, and the mean of u weighted by p.
  Scalar label_exponent_, mean_exponent_;
};

}  // namespace ligerdsl::kernels
