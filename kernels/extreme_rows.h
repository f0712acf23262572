// Statistics of rows whose squares leave the range of f32, such as rows of size 1e30, or of 1e-30 with eps = 0.
//
// A norm computes its statistics as always. If the mean of squares plus eps is infinite or below kLeastSquare, a branch
// reads the rows again, multiplies them by a power of two that makes their largest element 1 to 2, and undoes that in the
// results. Rows within the range keep their bits, and pay one comparison. The squares of f16 never leave the range.
#pragma once

#include <cstdint>

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Below it squares that f32 rounds to 0 or to few bits would count.
inline constexpr double kLeastSquare = 0x1p-90;

inline bool squares_may_leave_range(DType type) {
  return type != f16;
}

// True [rows] where a mean of squares plus eps is not to be trusted.
inline Tile out_of_range(const Tile& mean_square) {
  return !(mean_square >= kLeastSquare && mean_square < INFINITY);
}

// Rows that are read again in the branch. `load(b)` is block b as f32 [rows, block], with zeros beyond `cols`.
template <class Load>
class ExtremeRows {
 public:
  ExtremeRows(KernelBuilder& k, int64_t rows, int64_t cols, int64_t block, const Scalar& eps, const Load& load)
      : k_(k), rows_(rows), cols_(cols), block_(block), eps_(eps), load_(load) {
    // The exponent of the largest number of a row, or of the square root of eps, which is to stay finite as well.
    const Tile largest = over_blocks(
        0.0, [](const Tile& a, const Tile& b) { return max(a, b); },
        [&](const Tile& x, const Scalar&) { return reduce_max(abs(x), 1); });
    const Tile exponent = bitcast(max(largest, sqrt(eps)), i32) & 0x7f800000;
    scale_ = bitcast(max(0x7f000000 - exponent, 0x00800000), f32);
  }

  // 1 / sqrt(mean of x^2 + eps), [rows].
  Tile rstd() const {
    return rstd_of(sum_of([&](const Tile& x, const Scalar&) { return x * x; }));
  }

  struct Centre {
    Tile mean, low, rstd;  // [rows]; the mean is mean + low
  };
  Centre centre() const {
    const double inverse = 1.0 / static_cast<double>(cols_);
    const Tile mean = sum_of([](const Tile& x, const Scalar&) { return x; }) * inverse;
    const auto deviation = [&](const Tile& x, const Scalar& b) {
      const Tile inside = (k_.arange(block_) < (cols_ - b * block_).to(i32)).expand_dims(0);
      return where(inside, x - mean.expand_dims(1), 0.0f);
    };
    const Tile low = sum_of(deviation) * inverse;
    const Tile squares = sum_of([&](const Tile& x, const Scalar& b) {
      const Tile d = deviation(x, b);
      return d * d;
    });
    return {mean / scale_, low / scale_, rstd_of(squares)};
  }

 private:
  Tile rstd_of(const Tile& squares) const {
    return rsqrt(squares * (1.0 / static_cast<double>(cols_)) + scale_ * eps_ * scale_) * scale_;
  }
  // Sums [rows] of value(x, b) of the scaled blocks.
  template <class Value>
  Tile sum_of(const Value& value) const {
    return over_blocks(
        0.0, [](const Tile& a, const Tile& b) { return a + b; },
        [&](const Tile& x, const Scalar& b) { return sum(value(x * scale_.expand_dims(1), b), 1); });
  }
  template <class Join, class Of>
  Tile over_blocks(double first, const Join& join, const Of& of) const {
    const int64_t blocks = ceil_div(cols_, block_);
    if (blocks == 1) return of(load_(k_.constant(0, i64)), k_.constant(0, i64));
    auto [total] = k_.for_range(k_.constant(0, i64), blocks, 1, carry(k_.full({rows_}, first, f32)),
                                [&](Scalar b, Tile total) { return carry(join(total, of(load_(b), b))); });
    return total;
  }

  KernelBuilder& k_;
  int64_t rows_, cols_, block_;
  Scalar eps_;
  const Load& load_;
  Tile scale_;
};

}  // namespace ligerdsl::kernels
