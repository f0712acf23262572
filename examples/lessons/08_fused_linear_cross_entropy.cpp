// Lesson 8: an lm_head fused with its loss: logits z = x w^T are never stored. n rows, h columns, v
// classes.
//
//   loss = mean over rows of log sum_c e^z_c - z_y
//   d_z = (p - [c = y]) / n,   d_x = d_z w,   d_w = d_z^T x
//
// A softmax needs a row's maximum before its first exponential, but many programs compute parts of
// a row. So the exponent is relative to an anchor r that is known before the matmul: the label's
// logit plus 40. The matmul's epilogue stores E_c = e^(z_c - r), and each tile's row sums of E_c
// over c != y. S is the total of these sums over a row. With E_y = e^-40:
//
//   loss_i = log(1 + S / E_y),   n d_z_c = E_c / (S + E_y) for c != y,   n d_z_y = -S / (S + E_y)
//
// So d_z is E with -S in the label's place, times a factor per row. Both gradients are plain
// matmuls, without another pass over n x v numbers. E is clamped to e^76 to avoid overflow. A row
// with a logit more than 116 above the label's is therefore wrong; the library detects and
// recomputes such rows.
//
//   1. anchors       r_i = x_i . w_y + 40
//   2. exponentials  E = e^(x w^T - r), and the row sums of every tile
//   3. rows          S, loss_i, f_i = 1 / (n (S + E_y)), E_y := -S, f_i x_i
//   4. matmul        d_x = f (E w)
//   5. matmul        d_w = E^T (f x)
#include <ligerdsl/launch.hpp>

#include "lesson.h"

using namespace ligerdsl;

constexpr float kAbove = 40, kMost = 76, kLog2E = 1.44269504f;

struct HeadMeta {
  int64_t block_m = 64, block_n = 64, block_k = 32;  // tile of a matmul
  int64_t block = 256;                               // columns per iteration over a row
  int64_t stages = 3, warps = 4;
  template <class V>
  void visit(V&& v) {
    v("block_m", block_m);
    v("block_n", block_n);
    v("block_k", block_k);
    v("block", block);
    v("stages", stages);
    v("warps", warps);
  }
};

void anchors(KernelBuilder& k, const HeadMeta& m) {
  View anchor = k.view("anchor", f32, {dyn}), x = k.view("x", f32, {dyn, dyn}),
       w = k.view("w", f32, {dyn, dyn});
  View label = k.view("label", i64, {dyn});
  Scalar row = k.program_id(0), y = label.load({row});
  const Partition of_x = x.partition({squeeze, m.block}), of_w = w.partition({squeeze, m.block});
  auto [total] = k.for_range(0, cdiv(x.dim(1), m.block), 1, carry(k.constant(0.0f, f32)),
                             [&](Scalar j, Scalar total) {
                               return carry(total + sum(of_x.load({row, j}) * of_w.load({y, j})));
                             });
  anchor.store({row}, total + kAbove);
}

// Returns the accumulator of one tile. The matmul's inner dimension is `terms`; load(i) loads both
// operands of k-step i.
template <class Load>
Tile multiply(KernelBuilder& k, const HeadMeta& m, const Scalar& terms, Load load) {
  auto [sums] = k.for_range(0, cdiv(terms, m.block_k), 1, pipelined(static_cast<int>(m.stages)),
                            carry(k.zeros({m.block_m, m.block_n}, f32)), [&](Scalar i, Tile sums) {
                              const auto [a, b] = load(i);
                              return carry(dot(a, b, sums));
                            });
  return sums;
}

void exponentials(KernelBuilder& k, const HeadMeta& m) {
  View e = k.view("e", f32, {dyn, dyn}),
       sums = k.view("sums", f32, {dyn, dyn});  // [tiles along v, n]
  View x = k.view("x", f32, {dyn, dyn}), w = k.view("w", f32, {dyn, dyn});
  View anchor = k.view("anchor", f32, {dyn}), label = k.view("label", i64, {dyn});
  const TilePlace at =
      grouped_tiles(k.program_id(0), cdiv(e.dim(0), m.block_m), cdiv(e.dim(1), m.block_n), 8);
  const Partition of_x = x.partition({m.block_m, m.block_k}),
                  of_w = w.partition({m.block_n, m.block_k});
  const Tile z = multiply(k, m, x.dim(1), [&](Scalar i) {
    return std::pair(of_x.load({at.row, i}), of_w.load({at.column, i}).permute({1, 0}));
  });
  const Tile r = anchor.partition({m.block_m}).load({at.row}).expand_dims(1);
  const Tile made = fast_exp2(min(z - r, kMost) * kLog2E);
  e.partition({m.block_m, m.block_n}).store({at.row, at.column}, made);
  const Tile column = (k.arange(m.block_n).to(i64) + at.column.to(i64) * m.block_n).expand_dims(0);
  const Tile y = label.partition({m.block_m}).load({at.row}).expand_dims(1);
  const Tile others = where(column < e.dim(1) && column != y, made, k.constant(0.0f, f32));
  sums.partition({squeeze, m.block_m}).store({at.column, at.row}, sum(others, 1));
}

void rows(KernelBuilder& k, const HeadMeta& m) {
  View loss = k.view("loss", f32, {dyn}), factor = k.view("factor", f32, {dyn}),
       scaled = k.view("scaled", f32, {dyn, dyn});
  View e = k.view("e", f32, {dyn, dyn}), sums = k.view("sums", f32, {dyn, dyn}),
       x = k.view("x", f32, {dyn, dyn});
  View label = k.view("label", i64, {dyn});
  Scalar row = k.program_id(0);
  auto [s] =
      k.for_range(0, sums.dim(0), 1, carry(k.constant(0.0f, f32)), [&](Scalar tile, Scalar s) {
        return carry(s + sums.load({tile, row}));
      });
  const Scalar e_y = k.constant(std::exp(-kAbove), f32), f = 1.0f / ((s + e_y) * x.dim(0).to(f32));
  loss.store({row}, log(s / e_y + 1.0f));
  factor.store({row}, f);
  e.store({row, label.load({row})}, -s);
  const Partition of_x = x.partition({squeeze, m.block}),
                  of_scaled = scaled.partition({squeeze, m.block});
  k.for_range(0, cdiv(x.dim(1), m.block), 1, [&](Scalar j) {
    of_scaled.store({row, j}, of_x.load({row, j}) * f);
  });
}

void gradient_of_x(KernelBuilder& k, const HeadMeta& m) {
  View d_x = k.view("d_x", f32, {dyn, dyn}), e = k.view("e", f32, {dyn, dyn}),
       w = k.view("w", f32, {dyn, dyn});
  View factor = k.view("factor", f32, {dyn});
  const TilePlace at =
      grouped_tiles(k.program_id(0), cdiv(d_x.dim(0), m.block_m), cdiv(d_x.dim(1), m.block_n), 8);
  const Partition of_e = e.partition({m.block_m, m.block_k}),
                  of_w = w.partition({m.block_k, m.block_n});
  const Tile sums = multiply(k, m, e.dim(1), [&](Scalar i) {
    return std::pair(of_e.load({at.row, i}), of_w.load({i, at.column}));
  });
  const Tile f = factor.partition({m.block_m}).load({at.row}).expand_dims(1);
  d_x.partition({m.block_m, m.block_n}).store({at.row, at.column}, sums * f);
}

void gradient_of_w(KernelBuilder& k, const HeadMeta& m) {
  View d_w = k.view("d_w", f32, {dyn, dyn}), e = k.view("e", f32, {dyn, dyn}),
       scaled = k.view("scaled", f32, {dyn, dyn});
  const TilePlace at =
      grouped_tiles(k.program_id(0), cdiv(d_w.dim(0), m.block_m), cdiv(d_w.dim(1), m.block_n), 8);
  const Partition of_e = e.partition({m.block_k, m.block_m}),
                  of_x = scaled.partition({m.block_k, m.block_n});
  d_w.partition({m.block_m, m.block_n})
      .store({at.row, at.column}, multiply(k, m, e.dim(0), [&](Scalar i) {
               return std::pair(of_e.load({i, at.row}).permute({1, 0}), of_x.load({i, at.column}));
             }));
}

// Launches one program per row of x, or one program per tile of the matrix `of`.
Launch by_rows(const HeadMeta&, const LaunchArguments& a) {
  return {.grid = {a.dim("x", 0)}};
}
Launch by_tiles(const HeadMeta& m, const LaunchArguments& a, const char* of) {
  return {.grid = {ceil_div(a.dim(of, 0), m.block_m) * ceil_div(a.dim(of, 1), m.block_n)},
          .num_warps = static_cast<int>(m.warps),
          .no_alias = true};
}
using Meta = const HeadMeta&;
using Sizes = const LaunchArguments&;

const Kernel<HeadMeta> anchors_kernel{.name = "anchors",
                                      .description = "the label's logit plus 40",
                                      .build = anchors,
                                      .launch = by_rows};
const Kernel<HeadMeta> exponentials_kernel{
    .name = "exponentials",
    .description = "e^(x w^T - anchor) and row sums of tiles",
    .build = exponentials,
    .launch = [](Meta m, Sizes a) { return by_tiles(m, a, "e"); }};
const Kernel<HeadMeta> rows_kernel{.name = "rows",
                                   .description = "losses, row scales, the label's exponential",
                                   .build = rows,
                                   .launch = by_rows};
const Kernel<HeadMeta> gradient_of_x_kernel{
    .name = "gradient_of_x",
    .description = "d_x = factor (e w)",
    .build = gradient_of_x,
    .launch = [](Meta m, Sizes a) { return by_tiles(m, a, "d_x"); }};
const Kernel<HeadMeta> gradient_of_w_kernel{
    .name = "gradient_of_w",
    .description = "d_w = e^T scaled",
    .build = gradient_of_w,
    .launch = [](Meta m, Sizes a) { return by_tiles(m, a, "d_w"); }};

int main(int argc, char** argv) try {
  const Context context = lesson::open(argc, argv);
  const int64_t n = 70, h = 100, v = 210;
  const HeadMeta meta;
  const std::vector<float> x = lesson::some_values(n * h, 7), w = lesson::some_values(v * h, 8);
  std::vector<int64_t> y(n);
  for (int64_t i = 0; i < n; ++i) y[i] = i * 37 % v;
  Buffer labels(context, n * sizeof(int64_t));
  context.copy(labels.data(), y.data(), n * sizeof(int64_t));
  const Tensor label(labels.data(), context.device(), LIGERDSL_I64, {n});
  lesson::Array x_(context, {n, h}, x), w_(context, {v, h}, w), e_(context, {n, v}),
      anchor_(context, {n});
  lesson::Array sums_(context, {ceil_div(v, meta.block_n), n}), loss_(context, {n}),
      factor_(context, {n});
  lesson::Array scaled_(context, {n, h}), d_x_(context, {n, h}), d_w_(context, {v, h});

  const NamedArg arg_x{"x", x_.tensor()}, arg_w{"w", w_.tensor()}, arg_e{"e", e_.tensor()},
      arg_label{"label", label};
  const NamedArg arg_anchor{"anchor", anchor_.tensor()}, arg_sums{"sums", sums_.tensor()},
      arg_factor{"factor", factor_.tensor()};
  const NamedArg arg_scaled{"scaled", scaled_.tensor()};
  KernelLauncher make_anchors(context, anchors_kernel),
      make_exponentials(context, exponentials_kernel);
  KernelLauncher finish_rows(context, rows_kernel), make_d_x(context, gradient_of_x_kernel),
      make_d_w(context, gradient_of_w_kernel);
  make_anchors(meta, {arg_anchor, arg_x, arg_w, arg_label});
  make_exponentials(meta, {arg_e, arg_sums, arg_x, arg_w, arg_anchor, arg_label});
  finish_rows(
      meta, {{"loss", loss_.tensor()}, arg_factor, arg_scaled, arg_e, arg_sums, arg_x, arg_label});
  make_d_x(meta, {{"d_x", d_x_.tensor()}, arg_e, arg_w, arg_factor});
  make_d_w(meta, {{"d_w", d_w_.tensor()}, arg_e, arg_scaled});

  std::vector<double> loss(n), d_x(n * h), d_w(v * h);
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> z(v);
    double highest = -INFINITY, total = 0;
    for (int64_t c = 0; c < v; ++c) {
      for (int64_t j = 0; j < h; ++j) z[c] += static_cast<double>(x[i * h + j]) * w[c * h + j];
      highest = std::fmax(highest, z[c]);
    }
    for (int64_t c = 0; c < v; ++c) total += std::exp(z[c] - highest);
    loss[i] = highest + std::log(total) - z[y[i]];
    for (int64_t c = 0; c < v; ++c) {
      const double d_z = (std::exp(z[c] - highest) / total - (c == y[i])) / n;
      for (int64_t j = 0; j < h; ++j) {
        d_x[i * h + j] += d_z * w[c * h + j];
        d_w[c * h + j] += d_z * x[i * h + j];
      }
    }
  }
  bool right = lesson::report("loss", loss_.values(), loss, 1e-5);
  right = lesson::report("d_x", d_x_.values(), d_x, 1e-5) && right;
  return lesson::report("d_w", d_w_.values(), d_w, 1e-5) && right ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
