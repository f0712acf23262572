// Generalised Jensen-Shannon divergence of two rows of log-probabilities, and its gradient: Agarwal
// et al., "On-policy distillation of language models", ICLR 2024, equation 1. For 0 < beta < 1,
// with q = e^x (the student's), p = e^y (the teacher's) and m = beta p + (1 - beta) q:
//
//   loss[row] = sum_j beta p_j (y_j - log m_j) + (1 - beta) q_j (x_j - log m_j)
//   d_x       = scale (1 - beta) q (x - log m), the gradient of scale times the sum of losses
//
// x, y, d_x [n, cols] of one type; loss [n] f32. One pass over a row of any width: 3 n cols
// sizeof(type) bytes.
#pragma once

#include <ligerdsl/dsl.h>

namespace author_kernels {

using namespace ligerdsl;

struct GeneralizedJsdMeta {
  DType type = bf16;
  int64_t cols = 4096;
  int64_t block = 4096;  // columns per iteration
  int64_t vectors = 1;   // 16-byte vectors per thread and block
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("cols", cols);
    v("block", block, powers_of_two(256, 16384), Bits::row);
    v("vectors", vectors, choices({1, 2, 4}), Bits::row);
  }
};

inline void generalized_jsd(KernelBuilder& k, const GeneralizedJsdMeta& m) {
  View loss = k.view("loss", f32, {dyn});
  View d_x = k.view("d_x", m.type, {dyn, m.cols});
  View x = k.view("x", m.type, {dyn, m.cols});
  View y = k.view("y", m.type, {dyn, m.cols});
  Scalar beta = k.scalar("beta", f32), scale = k.scalar("scale", f32);

  Scalar row = k.program_id(0);
  // e^-87 is about the smallest normal number. Smaller values, such as log 0 and the padding of a
  // row, are clamped to it: their terms are negligible in the sum, and log m stays finite.
  auto load = [&](const View& view, const Scalar& b) {
    return max(view.partition({squeeze, m.block}).load({row, b}, {.pad = -INFINITY}).to(f32),
               -87.0f);
  };
  const bool fast = m.type != f32;  // the error of fast_exp is below the rounding of 16-bit inputs
  auto [total] = k.for_range(
      0, ceil_div(m.cols, m.block), 1, carry(k.zeros({m.block}, f32)), [&](Scalar b, Tile total) {
        Tile log_q = load(x, b), log_p = load(y, b);
        Tile q = (fast ? fast_exp(log_q) : exp(log_q)) * (1.0f - beta);
        Tile p = (fast ? fast_exp(log_p) : exp(log_p)) * beta;
        Tile log_m = fast ? fast_log(p + q) : log(p + q);
        Tile of_q = q * (log_q - log_m);
        d_x.partition({squeeze, m.block}).store({row, b}, (of_q * scale).to(m.type));
        return carry(total + fma(p, log_p - log_m, of_q));
      });
  loss.store({row}, sum(total));
}

inline const Kernel<GeneralizedJsdMeta> generalized_jsd_kernel{
    .name = "generalized_jsd",
    .description = "generalised Jensen-Shannon divergence and its gradient",
    .build = generalized_jsd,
    .launch = [](const GeneralizedJsdMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {a.dim("x", 0)},
                    .num_warps = warps_for(m.block, m.type, m.vectors),
                    .no_alias = true};
    }};

}  // namespace author_kernels
