// One element of a divergence: its loss and its derivative.
#pragma once

#include <optional>

#include "kernels/divergence/divergence.h"

namespace ligerdsl::kernels {

struct DivergenceTerm {
  Tile loss, gradient;                    // by x
  Tile q;                                 // e^x, where the loss takes it
  std::optional<Tile> weight, of_weight;  // factors of the loss, where a sum takes them in one instruction

  Tile added_to(const Tile& losses) const { return weight ? fma(*weight, *of_weight, losses) : losses + loss; }
};

// Declares the kernel's arguments that formulas take: beta of jsd, eps of kl.
class DivergenceTerms {
 public:
  // `relative`: fast_log is right to a few ulp near 1, too, as a CPU's is.
  DivergenceTerms(KernelBuilder& k, const DivergenceOptions& o, bool relative);

  DivergenceTerm operator()(const Tile& x, const Tile& y) const;
  // e^x as the terms take it.
  Tile power(const Tile& x) const;

 private:
  Tile logarithm(const Tile& x) const;
  Tile log_of_one_plus(const Tile& t) const;
  DivergenceTerm weighed(const Tile& weight, const Tile& t, const Tile& gradient, const Tile& q = {}) const;
  DivergenceTerm jensen_shannon(const Tile& x, const Tile& y) const;
  DivergenceTerm quick_jensen_shannon(const Tile& x, const Tile& y) const;

  Divergence kind_;
  bool quick_, relative_, at_once_;
  Scalar beta_, least_;
};

}  // namespace ligerdsl::kernels
