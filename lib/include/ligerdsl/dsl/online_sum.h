// Online log-sum-exp: (maximum, sum of exponentials) of a row that is read block by block, in base 2, so that one fma
// and one exp2 make an exponential:
//
//   an element x stands for 2^(c x), c = scale_log2;  (m, s): m the largest c x, s = sum of 2^(fma(x, c, -m))
//
// The fma rounds once, so subtracting the rounded maximum costs no accuracy even where c x is in the thousands; and
// because every term uses the same m, its rounding cancels in every quotient of such terms. The second pass of a softmax:
//   fast_exp2(fma(x, c, -finite_maximum(sum.m))) / sum.s
#ifndef LIGERDSL_DSL_ONLINE_SUM_H_
#define LIGERDSL_DSL_ONLINE_SUM_H_

#include <functional>
#include <numbers>

#include "ligerdsl/dsl/lanes.h"
#include "ligerdsl/dsl/operands.h"

namespace ligerdsl {

// What to subtract from exponents whose maximum is m: 0 for an empty part, whose terms are then 2^-inf = 0, not NaN.
Scalar finite_maximum(const Scalar& m, Loc loc = Here::current());
Tile finite_maximum(const Tile& m, Loc loc = Here::current());

struct OnlineOptions {
  // c of every block: log2(e) for sums of e^x, (scale * std::numbers::log2e) for those of e^(scale x). A positive
  // number is multiplied with each lane's maximum; a Scalar (f32), which may be negative or 0, with each element, where
  // what a load padded with -infinity had better not count.
  ScalarArg scale_log2 = std::numbers::log2e;
  Tile counts = {};  // i1, as many elements as x in the same order: where one counts; empty: everywhere
};

// A part of a row. Starts from (-infinity, 0).
struct OnlineSum {
  Scalar m, s;  // f32
};
// The union of two parts; both empty stays (-infinity, 0).
OnlineSum combine(const OnlineSum& a, const OnlineSum& b, Loc loc = Here::current());
// Adds the elements of an f32 tile: its maximum first, then one sum.
OnlineSum accumulate(const OnlineSum& state, const Tile& x, const OnlineOptions& options = {},
                     Loc loc = Here::current());
// The natural logarithm of the sum of 2^(c x): (m + log2(s)) * ln(2).
Scalar log_sum_exp(const OnlineSum& state, Loc loc = Here::current());

// The same by lanes, whose threads meet once, behind the loop. Starts from
// {k.full(lanes.carried(), -INFINITY, f32), k.zeros(lanes.carried(), f32)}.
struct OnlineSums {
  Tile m, s;  // f32, of BlockLanes::carried()
};
// Adds a block, an f32 tile of lanes.size() elements in any shape.
OnlineSums accumulate(const OnlineSums& state, const BlockLanes& lanes, const Tile& x,
                      const OnlineOptions& options = {}, Loc loc = Here::current());
// Adds a block whose terms the caller makes.
//   largest, of lanes.carried(): the largest c x of each lane, -infinity where nothing counts
//   terms(base), of lanes.shape(): 2^(c x - base), 0 where an element does not count; base goes with tiles of this shape
OnlineSums accumulate_terms(const OnlineSums& state, const BlockLanes& lanes, const Tile& largest,
                            const std::function<Tile(const Tile& base)>& terms, Loc loc = Here::current());
// All lanes together: threads exchange pairs, once.
OnlineSum combine(const OnlineSums& state, Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_ONLINE_SUM_H_
