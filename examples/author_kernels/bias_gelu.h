// GELU of a biased row, in the tanh form: Hendrycks, Gimpel, "Gaussian error linear units", 2016,
// section 2. With v = x + bias and u = sqrt(2 / pi) (v + 0.044715 v^3):
//
//   forward   y = v / 2 (1 + tanh u) = v s,  s = sigmoid(2 u)
//   backward  d_x = d_y (s + v s (1 - s) 2 u');  d_bias = sum over rows of d_x (not rounded)
//
// x, y, d_y, d_x [n, cols]; bias, d_bias [cols]. Rows may have any width. The backward kernel also
// computes partial column sums of d_x. A program processes `block` columns of every p-th tile of
// rows, and writes one row of parts [p, cols] f32. bias_gelu_d_bias adds these rows in a fixed
// order. Choose p so that the p * cols / block programs fill the GPU. Memory traffic in bytes:
// forward 2 n cols sizeof(type), backward 3 n cols sizeof(type).
#pragma once

#include <ligerdsl/dsl.h>

namespace author_kernels {

using namespace ligerdsl;

struct BiasGeluMeta {
  DType type = bf16;
  DType bias_type = f32;
  int64_t cols = 4096;
  int64_t block = 512;  // columns per program
  int64_t rows = 8;     // rows per tile
  int64_t vectors = 1;  // 16-byte vectors per thread and tile
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("bias_type", bias_type);
    v("cols", cols);
    v("block", block, powers_of_two(64, 4096), Bits::same);
    v("rows", rows, powers_of_two(1, 32), Bits::batch);
    v("vectors", vectors, choices({1, 2, 4}), Bits::batch);
  }
  int num_warps() const { return warps_for(rows * block, type, vectors); }
};

namespace detail {

struct Gelu {
  Tile s, inner;  // sigmoid(2 u), 2 u'
  explicit Gelu(const Tile& v) {
    constexpr float kTwice = 1.5957691216f, kCubic = 0.044715f;  // 2 sqrt(2 / pi)
    Tile square = v * v;
    s = sigmoid(v * fma(square, kTwice * kCubic, kTwice));
    inner = fma(square, 3 * kTwice * kCubic, kTwice);
  }
};

inline Tile bias_of(const View& bias, const BiasGeluMeta& m, const Scalar& column) {
  return bias.partition({m.block}).load({column}).to(f32).expand_dims(0);
}

}  // namespace detail

inline void bias_gelu(KernelBuilder& k, const BiasGeluMeta& m) {
  View y = k.view("y", m.type, {dyn, m.cols});
  View x = k.view("x", m.type, {dyn, m.cols});
  View bias = k.view("bias", m.bias_type, {m.cols});
  Scalar column = k.program_id(0), row = k.program_id(1);
  const Shape tile{m.rows, m.block};
  Tile v = x.partition(tile).load({row, column}).to(f32) + detail::bias_of(bias, m, column);
  y.partition(tile).store({row, column}, (v * detail::Gelu(v).s).to(m.type));
}

inline void bias_gelu_backward(KernelBuilder& k, const BiasGeluMeta& m) {
  View d_x = k.view("d_x", m.type, {dyn, m.cols});
  View parts = k.view("parts", f32, {dyn, m.cols});
  View d_y = k.view("d_y", m.type, {dyn, m.cols});
  View x = k.view("x", m.type, {dyn, m.cols});
  View bias = k.view("bias", m.bias_type, {m.cols});

  Scalar column = k.program_id(0), part = k.program_id(1);
  const Shape tile{m.rows, m.block};
  Tile added = detail::bias_of(bias, m, column);
  auto [total] = k.for_range(
      part, cdiv(x.dim(0), m.rows), parts.dim(0), pipelined(2), carry(k.zeros(tile, f32)),
      [&](Scalar row, Tile total) {
        Tile dy = d_y.partition(tile).load({row, column}).to(f32);  // 0 past the last row
        Tile v = x.partition(tile).load({row, column}).to(f32) + added;
        const detail::Gelu gelu(v);
        Tile dx = dy * fma(v * gelu.inner, fma(-gelu.s, gelu.s, gelu.s), gelu.s);
        d_x.partition(tile).store({row, column}, dx.to(m.type));
        return carry(total + dx);
      });
  parts.partition({squeeze, m.block}).store({part, column}, sum(total, 0));
}

inline void bias_gelu_d_bias(KernelBuilder& k, const BiasGeluMeta& m) {
  View d_bias = k.view("d_bias", m.bias_type, {m.cols});
  View parts = k.view("parts", f32, {dyn, m.cols});
  Scalar column = k.program_id(0);
  const Shape tile{m.rows, m.block};
  auto [total] = k.for_range(0, cdiv(parts.dim(0), m.rows), 1, carry(k.zeros(tile, f32)),
                             [&](Scalar i, Tile total) {
                               return carry(total + parts.partition(tile).load({i, column}));
                             });
  d_bias.partition({m.block}).store({column}, sum(total, 0).to(m.bias_type));
}

inline const Kernel<BiasGeluMeta> bias_gelu_kernel{
    .name = "bias_gelu",
    .description = "y = gelu_tanh(x + bias)",
    .build = bias_gelu,
    .launch = [](const BiasGeluMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {ceil_div(m.cols, m.block), ceil_div(a.dim("x", 0), m.rows)},
                    .num_warps = m.num_warps(),
                    .no_alias = true};
    }};

inline const Kernel<BiasGeluMeta> bias_gelu_backward_kernel{
    .name = "bias_gelu_backward",
    .description = "d_x of y = gelu_tanh(x + bias), and partial sums of d_bias",
    .build = bias_gelu_backward,
    .launch = [](const BiasGeluMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {ceil_div(m.cols, m.block), a.dim("parts", 0)},
                    .num_warps = m.num_warps(),
                    .no_alias = true};
    }};

inline const Kernel<BiasGeluMeta> bias_gelu_d_bias_kernel{
    .name = "bias_gelu_d_bias",
    .description = "d_bias = the sum of the partial sums that bias_gelu_backward wrote",
    .build = bias_gelu_d_bias,
    .launch = [](const BiasGeluMeta& m, const LaunchArguments&) {
      return Launch{
          .grid = {ceil_div(m.cols, m.block)}, .num_warps = m.num_warps(), .no_alias = true};
    }};

}  // namespace author_kernels
