// Lesson 3: RMSNorm and its gradient.
//
// Forward, for every row x of width H:      r = 1 / sqrt(mean(x^2) + eps),  y = x * r * w
// Backward, from dy, the gradient of y:     m = dy * w
//                                           dx = r * (m - x * r^2 * sum(m * x) / H)
//                                           dw = sum over rows of dy * x * r
//
// The forward pass saves r, one number per row, so that the backward pass need not reduce x again.
// Like y, dx is computed row by row. But dw is a sum *over* rows, the topic of this lesson. If all
// programs added to one dw, they would need atomics, whose order differs from run to run. Instead,
// each program adds the rows of its own group and writes one partial row. A second, small kernel
// adds the partial rows in order, which gives the same bits every time.
#include <ligerdsl/launch.hpp>

#include "lesson.h"

using namespace ligerdsl;

struct RmsNormMeta {
  int64_t block = 256;  // columns per tile, at least the row width H
  template <class V>
  void visit(V&& v) {
    v("block", block);
  }
};

void forward_program(KernelBuilder& k, const RmsNormMeta& m) {
  View y = k.view("y", f32, {dyn, dyn});
  View rstd = k.view("rstd", f32, {dyn});
  View x = k.view("x", f32, {dyn, dyn});
  View w = k.view("w", f32, {dyn});
  Scalar eps = k.scalar("eps", f32);

  Scalar row = k.program_id(0);
  Tile xt = x.partition({squeeze, m.block}).load({row, 0});
  // Padding is 0 and adds nothing to the sum; the mean divides by the true width.
  Scalar r = rsqrt(sum(xt * xt) / x.dim(1).to(f32) + eps);
  rstd.store({row}, r);
  y.partition({squeeze, m.block}).store({row, 0}, xt * r * w.partition({m.block}).load({0}));
}

void backward_program(KernelBuilder& k, const RmsNormMeta& m) {
  View dx = k.view("dx", f32, {dyn, dyn});
  View partial = k.view("partial", f32, {dyn, dyn});  // [programs, H]
  View dy = k.view("dy", f32, {dyn, dyn});
  View x = k.view("x", f32, {dyn, dyn});
  View w = k.view("w", f32, {dyn});
  View rstd = k.view("rstd", f32, {dyn});
  Scalar rows_per_program = k.scalar("rows_per_program", i32);

  Scalar program = k.program_id(0);
  Scalar first = program * rows_per_program;
  Scalar last = min(first + rows_per_program, x.dim(0).to(i32));
  Tile wt = w.partition({m.block}).load({0});
  Scalar width = x.dim(1).to(f32);

  // A loop on the device. Values that change between iterations are *carried*: the body receives
  // them and returns the next ones, and for_range returns the last ones. No variable is assigned,
  // so no variable can be read before it has a value.
  auto [dw] =
      k.for_range(first, last, 1, carry(k.zeros({m.block}, f32)), [&](Scalar row, Tile sum_so_far) {
        Tile xt = x.partition({squeeze, m.block}).load({row, 0});
        Tile g = dy.partition({squeeze, m.block}).load({row, 0});
        Scalar r = rstd.load({row});
        Tile mt = g * wt;
        dx.partition({squeeze, m.block})
            .store({row, 0}, (mt - xt * (r * r * sum(mt * xt) / width)) * r);
        return carry(sum_so_far + g * xt * r);
      });
  partial.partition({squeeze, m.block}).store({program, 0}, dw);
}

void sum_rows_program(KernelBuilder& k, const RmsNormMeta& m) {
  View out = k.view("out", f32, {dyn});
  View partial = k.view("partial", f32, {dyn, dyn});
  Scalar column_block = k.program_id(0);
  auto [total] = k.for_range(
      0, partial.dim(0).to(i32), 1, carry(k.zeros({m.block}, f32)), [&](Scalar row, Tile so_far) {
        return carry(so_far + partial.partition({squeeze, m.block}).load({row, column_block}));
      });
  out.partition({m.block}).store({column_block}, total);
}

const Kernel<RmsNormMeta> forward_kernel{
    .name = "rms_norm_forward",
    .description = "y = x / rms(x) * w",
    .build = forward_program,
    .launch = [](const RmsNormMeta&, const LaunchArguments& a) {
      return Launch{.grid = {a.dim("x", 0)}};
    }};
const Kernel<RmsNormMeta> backward_kernel{
    .name = "rms_norm_backward",
    .description = "dx, and a partial dw of every program",
    .build = backward_program,
    .launch = [](const RmsNormMeta&, const LaunchArguments& a) {
      return Launch{.grid = {a.dim("partial", 0)}};
    }};
const Kernel<RmsNormMeta> sum_rows_kernel{
    .name = "sum_rows",
    .description = "out = sum of the rows of partial",
    .build = sum_rows_program,
    .launch = [](const RmsNormMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {ceil_div(a.dim("out", 0), m.block)}};
    }};

int main(int argc, char** argv) try {
  const Context context = lesson::open(argc, argv);
  const int64_t n = 50, h = 200, rows_per_program = 8, programs = ceil_div(n, rows_per_program);
  const double eps = 1e-6;
  const RmsNormMeta meta;

  std::vector<float> x = lesson::some_values(n * h, 4), w = lesson::some_values(h, 5),
                     g = lesson::some_values(n * h, 6);
  lesson::Array dx_(context, {n, h}), y_(context, {n, h}), rstd_(context, {n}),
      partial_(context, {programs, h}), dw_(context, {h});
  lesson::Array x_(context, {n, h}, x), w_(context, {h}, w), g_(context, {n, h}, g);
  // A real program keeps its launchers, because they hold the compiled kernels.
  KernelLauncher forward(context, forward_kernel), backward(context, backward_kernel),
      sum(context, sum_rows_kernel);
  forward(meta, {{"y", y_.tensor()},
                 {"rstd", rstd_.tensor()},
                 {"x", x_.tensor()},
                 {"w", w_.tensor()},
                 {"eps", eps}});
  backward(meta, {{"dx", dx_.tensor()},
                  {"partial", partial_.tensor()},
                  {"dy", g_.tensor()},
                  {"x", x_.tensor()},
                  {"w", w_.tensor()},
                  {"rstd", rstd_.tensor()},
                  {"rows_per_program", rows_per_program}});
  sum(meta, {{"out", dw_.tensor()}, {"partial", partial_.tensor()}});

  std::vector<double> y(n * h), dx(n * h), dw(h, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    const float *xi = &x[i * h], *gi = &g[i * h];
    double squares = 0, dot = 0;
    for (int64_t j = 0; j < h; ++j) {
      squares += static_cast<double>(xi[j]) * xi[j];
      dot += static_cast<double>(gi[j]) * w[j] * xi[j];
    }
    double r = 1 / std::sqrt(squares / h + eps);
    for (int64_t j = 0; j < h; ++j) {
      y[i * h + j] = xi[j] * r * w[j];
      dx[i * h + j] = r * (static_cast<double>(gi[j]) * w[j] - xi[j] * r * r * dot / h);
      dw[j] += gi[j] * (xi[j] * r);
    }
  }
  bool right = lesson::report("y", y_.values(), y, 1e-6);
  right = lesson::report("dx", dx_.values(), dx, 1e-6) && right;
  return lesson::report("dw", dw_.values(), dw, 1e-6) && right ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
