// One element of a divergence: its loss and its derivative.
#pragma once

#include <optional>

#include "kernels/divergence/divergence.h"

namespace ligerdsl::kernels {

struct DivergenceTerm {
  Tile loss, gradient;                    // gradient is the derivative with respect to x
  Tile q;                                 // e^x, for divergences that compute it
  std::optional<Tile> weight, of_weight;  // loss = weight * of_weight, for an fma

  Tile added_to(const Tile& losses) const {
    return weight ? fma(*weight, *of_weight, losses) : losses + loss;
  }
};

// Computes terms. The constructor declares the kernel's arguments beta (jsd) and eps (kl).
class DivergenceTerms {
 public:
  // `relative` is true if fast_log's relative error is a few ulp even near 1, as on a CPU.
  DivergenceTerms(KernelBuilder& k, const DivergenceOptions& o, bool relative);

  DivergenceTerm operator()(const Tile& x, const Tile& y) const;
  // Returns e^x, approximate if both tensors are 16-bit.
  Tile power(const Tile& x) const;

 private:
  Tile logarithm(const Tile& x) const;
  Tile log_of_one_plus(const Tile& t) const;
  DivergenceTerm weighed(const Tile& weight, const Tile& t, const Tile& gradient,
                         const Tile& q = {}) const;
  DivergenceTerm jensen_shannon(const Tile& x, const Tile& y) const;
  DivergenceTerm quick_jensen_shannon(const Tile& x, const Tile& y) const;

  Divergence kind_;
  bool quick_, relative_, at_once_;
  Scalar beta_, least_;
};

}  // namespace ligerdsl::kernels
