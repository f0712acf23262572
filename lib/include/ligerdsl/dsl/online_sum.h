// Online log-sum-exp: the pair (maximum, sum of exponentials) of a row that is read in blocks. It
// uses base 2, so that an exponential is one fma and one exp2:
//
//   an element x represents 2^(c x), with c = scale_log2
//   (m, s): m is the largest c x, and s the sum of 2^(fma(x, c, -m))
//
// The fma rounds once, so subtracting the rounded maximum costs no accuracy even if c x is in the
// thousands. Every term uses the same m, so the rounding error of m cancels in each quotient of
// terms. The second pass of a softmax is:
//   fast_exp2(fma(x, c, -finite_maximum(sum.m))) / sum.s
#ifndef LIGERDSL_DSL_ONLINE_SUM_H_
#define LIGERDSL_DSL_ONLINE_SUM_H_

#include <functional>
#include <numbers>

#include "ligerdsl/dsl/lanes.h"
#include "ligerdsl/dsl/operands.h"

namespace ligerdsl {

// Returns the value to subtract from exponents whose maximum is m: m, or 0 if m is -infinity. The
// terms of an empty part are then 2^-inf = 0 instead of NaN.
Scalar finite_maximum(const Scalar& m, Loc loc = Here::current());
Tile finite_maximum(const Tile& m, Loc loc = Here::current());

struct OnlineOptions {
  // Factor c in 2^(c x): log2(e) for the sum of e^x, scale * std::numbers::log2e for the sum of
  // e^(scale x). If c is a positive number, the maximum of x is computed first and then multiplied
  // by c. If c is a Scalar (f32) or another number, the maximum of c x is computed. c * -infinity
  // may then be NaN or +infinity, so exclude padded elements (-infinity) by `counts`.
  ScalarArg scale_log2 = std::numbers::log2e;
  Tile counts = {};  // i1, elements in the order of x: true if an element counts; empty: all count
};

// State of a part of a row. The initial state is (-infinity, 0).
struct OnlineSum {
  Scalar m, s;  // f32
};
// Returns the combined state of two parts. Two empty parts give (-infinity, 0).
OnlineSum combine(const OnlineSum& a, const OnlineSum& b, Loc loc = Here::current());
// Adds the elements of an f32 tile. Computes the tile's maximum, then one sum.
OnlineSum accumulate(const OnlineSum& state, const Tile& x, const OnlineOptions& options = {},
                     Loc loc = Here::current());
// Returns the natural logarithm of the sum of 2^(c x): (m + log2(s)) * ln(2).
Scalar log_sum_exp(const OnlineSum& state, Loc loc = Here::current());

// State with one pair per lane. The lanes exchange their pairs once, after the loop. The initial
// state is {k.full(lanes.carried(), -INFINITY, f32), k.zeros(lanes.carried(), f32)}.
struct OnlineSums {
  Tile m, s;  // f32, of shape BlockLanes::carried()
};
// Adds a block: an f32 tile of lanes.size() elements in any shape.
OnlineSums accumulate(const OnlineSums& state, const BlockLanes& lanes, const Tile& x,
                      const OnlineOptions& options = {}, Loc loc = Here::current());
// Adds a block whose terms the caller computes.
//
//   largest      tile of lanes.carried(): the largest c x of each lane, -infinity without elements
//   terms(base)  tile of lanes.shape(): 2^(c x - base), 0 for an element that does not count.
//                `base` broadcasts to lanes.shape().
OnlineSums accumulate_terms(const OnlineSums& state, const BlockLanes& lanes, const Tile& largest,
                            const std::function<Tile(const Tile& base)>& terms,
                            Loc loc = Here::current());
// Returns the combined state of all lanes. This is the only exchange between threads.
OnlineSum combine(const OnlineSums& state, Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_ONLINE_SUM_H_
