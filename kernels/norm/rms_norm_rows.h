// Weight and normalised rows, for the kernels of RMSNorm.
#pragma once

#include "kernels/norm/rms_norm.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// f32 weight w' of one block of columns as a [1, block] tile. Loads and conversions to f32 are
// separate calls, because a 16-bit weight takes half the registers until it is converted.
struct NormWeight {
  View view;
  Scalar offset;  // 0 if empty
  int64_t block = 0;
  Scalar alignment_offset;  // as in NormRows
  Tile read(ScalarArg column) const {
    return view.partition({block}).load({column}, {.alignment_offset = alignment_offset});
  }
  // Returns the weight as a resident row, which all rows of a CTA share.
  Resident keep() const {
    return view.partition({block}).resident({}, {.alignment_offset = alignment_offset});
  }
  Tile widen(const Tile& raw) const {
    return (offset.empty() ? raw.to(f32) : raw.to(f32) + offset).expand_dims(0);
  }
  Tile load(ScalarArg column) const { return widen(read(column)); }
};

inline Tile normalised(const RmsNormOptions& m, const Tile& x, const Tile& rstd) {
  Tile n = x * rstd;
  return m.casting == Casting::llama ? n.to(m.type).to(f32) : n;
}

}  // namespace ligerdsl::kernels
