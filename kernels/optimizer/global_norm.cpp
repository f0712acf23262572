// norm = sqrt(sum g^2) over a list of tensors, factor = min(1, max_norm / (norm + 1e-6)); f32, in
// two stages with a fixed order of additions.
//
// First stage: a program adds the squares of 64 Ki consecutive elements of one tensor. This number
// is the same on every machine, so the partial sums depend only on the tensor. Second stage: one
// program adds all partial sums. NaN and infinity propagate through both stages.
//
// Squares of f32 values can overflow or underflow. So a program also finds its largest |g|. If it
// is outside [kLeast, kMost], the program reads its elements again, from the cache, and adds the
// squares of g * kUp or of g * kDown. The second stage adds the partial sums of each scale
// separately, and combines the three totals at the scale of the largest one.
#include "kernels/optimizer/global_norm.h"

#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"

namespace ligerdsl::kernels {
namespace {

constexpr SquaresMeta kSquares{};
constexpr int64_t kPerProgram = kSquares.block * kSquares.per_program;

// The squares of 2^16 values of at most kMost have a sum of at most 2^100, so that the partial sums
// of 2^27 programs fit in f32. Squares below 2^-126 lose at most 2^-134 in total, which is
// negligible in a sum of at least kLeast^2.
constexpr float kLeast = 0x1p-50f, kMost = 0x1p42f;
// The smallest denormal, 2^-149, times kUp has a square of 2^-98. Sums of squares below (2^128
// kDown)^2 fit in f32.
constexpr int kUpExponent = 100, kDownExponent = -80;
constexpr float kUp = 0x1p100f, kDown = 0x1p-80f;

}  // namespace

void sum_of_squares(KernelBuilder& k, const SquaresMeta& m) {
  View partials = k.view("partials", f32, {dyn, 2});
  View x = k.view("x", m.type, {dyn});

  const Scalar program = k.program_id(0);
  const Scalar first = program.to(i64) * m.per_program;
  const Scalar last = min(first + m.per_program, cdiv(x.dim(0), m.block));
  const Tile zeros = k.zeros({m.block}, f32);
  const auto [squares, most] = k.for_range(
      first, last, 1, pipelined(2), carry(zeros, zeros), [&](Scalar i, Tile sums, Tile most) {
        const Tile g = x.partition({m.block}).load({i}).to(f32);
        return carry(fma(g, g, sums), max(most, abs(g)));
      });
  const Scalar largest = reduce_max(most), is_small = largest < kLeast;
  const Scalar fits = largest == 0.0f || (largest >= kLeast && largest <= kMost);  // not NaN
  const Scalar scale = where(is_small, kUp, k.constant(kDown, f32));
  const auto [scaled] = k.for_range(
      first, where(fits, first, last), 1, pipelined(2), carry(zeros), [&](Scalar i, Tile sums) {
        const Tile g = x.partition({m.block}).load({i}).to(f32) * scale;
        return carry(fma(g, g, sums));
      });
  partials.store({program, 0}, where(fits, sum(squares), sum(scaled)));
  partials.store({program, 1},
                 where(fits, 0.0f, where(is_small, -kUpExponent, k.constant(-kDownExponent, f32))));
}

void finish_norm(KernelBuilder& k, const NormMeta& m) {
  View norm_view = k.view("norm", f32, {1});
  View factor = k.view("factor", f32, {1});
  View nonfinite = k.view("nonfinite", i32, {1});
  View steps, skipped;
  if (m.counts_steps) steps = k.view("steps", i64, {1});
  if (m.counts_skipped) skipped = k.view("skipped", i64, {1});
  View partials = k.view("partials", f32, {dyn, 2});
  Scalar max_norm = k.scalar("max_norm", f32);

  const Partition blocks = partials.partition({m.block, squeeze});
  const Tile zeros = k.zeros({m.block}, f32);
  const auto [up, as_is, down] =
      k.for_range(0, cdiv(partials.dim(0), m.block), 1, pipelined(4), carry(zeros, zeros, zeros),
                  [&](Scalar i, Tile up, Tile as_is, Tile down) {
                    const Tile squares = blocks.load({i, 0}), exponent = blocks.load({i, 1});
                    return carry(up + where(exponent < 0.0f, squares, 0.0f),
                                 as_is + where(exponent == 0.0f, squares, 0.0f),
                                 down + where(exponent > 0.0f, squares, 0.0f));
                  });
  const Scalar small = sum(up), middle = sum(as_is), large = sum(down);
  // `!= 0` is true for NaN, so NaN propagates.
  const Scalar norm =
      where(large != 0.0f, sqrt(large + middle * kDown * kDown) / kDown,
            where(middle != 0.0f, sqrt(middle + small / kUp / kUp), sqrt(small) / kUp));
  norm_view.store({0}, norm);
  factor.store({0}, min(max_norm / (norm + 1e-6f), 1.0f));
  const Scalar finite = abs(norm) < std::numeric_limits<float>::infinity();  // false for NaN
  nonfinite.store({0}, where(finite, k.constant(0, i32), 1));
  if (m.counts_steps) steps.store({0}, steps.load({0}) + finite.to(i64));
  if (m.counts_skipped) skipped.store({0}, skipped.load({0}) + (!finite).to(i64));
}

Size sum_of_squares_programs() {
  return ceil_div(Size::rows(), kPerProgram);
}

Operation sum_of_squares(const Machine&, const SquaresOptions& options) {
  return {
      .steps = {record_step("sum_of_squares", options.type, &sum_of_squares, SquaresMeta{options},
                            library_launch(sum_of_squares_programs(), 8))}};
}

Operation finish_norm(const Machine&, const NormOptions& options) {
  return {.steps = {record_step("finish_norm", f32, &finish_norm, NormMeta{options},
                                library_launch(1, 8))}};
}

const FixedKernel<SquaresOptions> sum_of_squares_kernel{
    "sum_of_squares", "partial sums of squares of a tensor", &sum_of_squares};
const FixedKernel<NormOptions> finish_norm_kernel{
    "finish_norm", "norm and clip factor from partial sums of squares", &finish_norm};

}  // namespace ligerdsl::kernels
