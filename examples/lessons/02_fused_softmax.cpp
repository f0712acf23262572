// Lesson 2: softmax of every row of a matrix, in one kernel.
//
// With one kernel per operation, softmax passes over memory eight times: maximum (read), subtract
// (read, write), exp (read, write), sum (read), divide (read, write). Memory bandwidth limits all
// of them. The fused kernel reads and writes each row once: two passes, so it is about four times
// as fast.
#include <ligerdsl/launch.hpp>
#include <limits>

#include "lesson.h"

using namespace ligerdsl;

struct SoftmaxMeta {
  DType type = f32;
  int64_t block = 1024;  // columns per tile: at least the row width, as a tile holds a whole row
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("block", block);
  }
};

void row_softmax(KernelBuilder& k, const SoftmaxMeta& m) {
  View y = k.view("y", m.type, {dyn, dyn});
  View x = k.view("x", m.type, {dyn, dyn});

  // One program per row. `squeeze` takes one element of the first dimension and drops it: the tile
  // is [block], not [1, block].
  Scalar row = k.program_id(0);
  auto rows = x.partition({squeeze, m.block});

  // A tile of 1,024 elements extends 24 elements beyond a row of 1,000 columns. They are loaded as
  // -inf and add nothing to the sum, because exp(-inf) is 0.
  Tile v = rows.load({row, 0}, {.pad = -std::numeric_limits<double>::infinity()}).to(f32);

  // Without an axis, max and sum reduce the whole tile to a scalar, and scalars broadcast.
  // Subtracting the maximum does not change the exact result, and keeps exp from overflowing.
  Tile e = exp(v - max(v));
  y.partition({squeeze, m.block}).store({row, 0}, (e / sum(e)).to(m.type));
  // The function softmax(v) of dsl.h records the same operations.
}

const Kernel<SoftmaxMeta> row_softmax_kernel{
    .name = "row_softmax",
    .description = "softmax of every row",
    .build = row_softmax,
    .launch = [](const SoftmaxMeta&, const LaunchArguments& a) {
      return Launch{.grid = {a.dim("x", 0)}};  // one program per row
    }};

int main(int argc, char** argv) try {
  const Context context = lesson::open(argc, argv);
  const int64_t n_rows = 64, n_cols = 1000;
  std::vector<float> x = lesson::some_values(n_rows * n_cols, 3);
  for (int64_t j = 0; j < n_cols; ++j)
    x[j] += 1000.0f;  // exp would overflow if the maximum were not subtracted
  lesson::Array dx(context, {n_rows, n_cols}, x), dy(context, {n_rows, n_cols});
  KernelLauncher launcher(context, row_softmax_kernel);
  launcher({.block = 1024}, {{"y", dy.tensor()}, {"x", dx.tensor()}});

  std::vector<double> expected(x.size());
  for (int64_t r = 0; r < n_rows; ++r) {
    double total = 0;
    for (int64_t j = 0; j < n_cols; ++j)
      total += std::exp(x[r * n_cols + j] - (r == 0 ? 1000.0 : 0.0));
    for (int64_t j = 0; j < n_cols; ++j) {
      expected[r * n_cols + j] = std::exp(x[r * n_cols + j] - (r == 0 ? 1000.0 : 0.0)) / total;
    }
  }
  return lesson::report("softmax", dy.values(), expected, 1e-6) ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
