// Applies softcap and temperature: converts x w^T + bias to logits z.
#pragma once

#include <numbers>

#include "kernels/core/softcap.h"
#include "kernels/cross_entropy/cross_entropy.h"

namespace ligerdsl::kernels {

// Arguments: [softcap], [temperature].
class LinearLogits {
 public:
  LinearLogits(KernelBuilder& k, const CrossEntropyOptions& m) : m_(m) {
    if (m.softcap) softcap_ = Softcap(k.scalar("softcap", f32), m.quick_softcap, m.type);
    if (m.tempered) temperature_ = k.scalar("temperature", f32);
    if (m.tempered) rate_ = 1.0f / temperature_;
  }
  template <class Value>
  Value z(const Value& sum) const {
    const Value capped = m_.softcap ? softcap_(sum) : sum;
    return m_.tempered ? capped * rate_ : capped;
  }
  // Returns the derivative of the softcap at logits z.
  Tile slope(const Tile& z) const { return softcap_.slope(m_.tempered ? z * temperature_ : z); }
  // Returns 1 / temperature, or an empty Scalar without temperature.
  const Scalar& rate() const { return rate_; }

 private:
  const CrossEntropyOptions& m_;
  Softcap softcap_;
  Scalar temperature_, rate_;
};

}  // namespace ligerdsl::kernels
