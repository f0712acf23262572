// norm = sqrt(sum g^2) over a list of tensors, factor = min(1, max_norm / (norm + 1e-6)); f32, two stages in a fixed
// order.
//
// First stage: a program adds the squares of 64 Ki consecutive elements of one tensor, lane by lane, whatever the
// machine: the partial sums depend on the tensor alone. Second stage: one program adds all partial sums. NaN and
// infinity carry through both.
#include "kernels/global_norm.h"

#include "kernels/record.h"
#include "kernels/tile_shape.h"

namespace ligerdsl::kernels {
namespace {

constexpr SquaresMeta kSquares{};
constexpr int64_t kPerProgram = kSquares.block * kSquares.per_program;

}  // namespace

void sum_of_squares(KernelBuilder& k, const SquaresMeta& m) {
  View partials = k.view("partials", f32, {dyn});
  View x = k.view("x", m.type, {dyn});

  Scalar program = k.program_id(0);
  Scalar first = program.to(i64) * m.per_program;
  Scalar last = min(first + m.per_program, cdiv(x.dim(0), m.block));
  auto [squares] = k.for_range(first, last, 1, pipelined(2), carry(k.zeros({m.block}, f32)), [&](Scalar i, Tile acc) {
    Tile g = x.partition({m.block}).load({i}).to(f32);
    return carry(fma(g, g, acc));
  });
  partials.store({program}, sum(squares));
}

void finish_norm(KernelBuilder& k, const NormMeta& m) {
  View norm_view = k.view("norm", f32, {1});
  View factor = k.view("factor", f32, {1});
  View nonfinite = k.view("nonfinite", i32, {1});
  View partials = k.view("partials", f32, {dyn});
  Scalar max_norm = k.scalar("max_norm", f32);

  auto [lanes] = k.for_range(0, cdiv(partials.dim(0), m.block), 1, pipelined(4), carry(k.zeros({m.block}, f32)),
                             [&](Scalar i, Tile acc) { return carry(acc + partials.partition({m.block}).load({i})); });
  Scalar norm = sqrt(sum(lanes));
  norm_view.store({0}, norm);
  factor.store({0}, min(max_norm / (norm + 1e-6f), 1.0f));
  Scalar finite = abs(norm) < std::numeric_limits<float>::infinity();  // false for NaN
  nonfinite.store({0}, where(finite, k.constant(0, i32), 1));
}

Size sum_of_squares_programs() {
  return ceil_div(Size::rows(), kPerProgram);
}

Operation sum_of_squares(const Machine&, DType type) {
  SquaresMeta meta = kSquares;
  meta.type = type;
  return {.steps = {record_step("sum_of_squares", type, &sum_of_squares, meta,
                                library_launch(sum_of_squares_programs(), 8))}};
}

Operation finish_norm(const Machine&) {
  return {.steps = {record_step("finish_norm", f32, &finish_norm, NormMeta{}, library_launch(1, 8))}};
}

}  // namespace ligerdsl::kernels
