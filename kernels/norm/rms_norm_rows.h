// Rows of RMSNorm and their weight, as its kernels see them.
#pragma once

#include "kernels/norm/rms_norm.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// The f32 weight w' of one block of columns as a [1, block] tile. What is read early is widened late: it waits in half
// the registers.
struct NormWeight {
  View view;
  Scalar offset;  // empty: 0
  int64_t block = 0;
  Tile read(ScalarArg column) const { return view.partition({block}).load({column}); }
  // The same for all rows that a CTA takes.
  Resident keep() const { return view.partition({block}).resident({}); }
  Tile widen(const Tile& raw) const { return (offset.empty() ? raw.to(f32) : raw.to(f32) + offset).expand_dims(0); }
  Tile load(ScalarArg column) const { return widen(read(column)); }
};

inline Tile normalised(const RmsNormOptions& m, const Tile& x, const Tile& rstd) {
  Tile n = x * rstd;
  return m.casting == Casting::llama ? n.to(m.type).to(f32) : n;
}

}  // namespace ligerdsl::kernels
