// Lesson 6: a kernel of your own, tuned.
//
// A field of a meta struct with choices is a schedule: it changes how fast the kernel is, not what
// it computes. This file is built twice. As a shared object, `ligerdsl tune` tries its kernel in
// every configuration and checks it in float64. As a program, it reads the winner from the table:
//
//   ligerdsl --load liblesson_06_kernels.so tune normalize y=x x=4096x1000
//     --check-with "x=7x1000 y=x" --export t.json
//   LIGERDSL_TABLE=t.json lesson_06_tuned
//
// If nothing is faster than the values below, as on most CPUs, the table has no entry and these
// values are shown.
#include <ligerdsl/dsl/author.h>

#include <ligerdsl/launch.hpp>

#include "lesson.h"

using namespace ligerdsl;

struct NormalizeMeta {
  DType type = f32;
  int64_t cols = 1000;
  int64_t rows = 1;  // rows per tile
  int64_t warps = 4;
  template <class V>
  void visit(V&& v) {
    // These two identify the kernel. An entry of a table holds for their values and for the shapes
    // of the call.
    v("type", type);
    v("cols", cols);
    // These two are for a tuner: their choices, and how another choice changes the results. A sum
    // whose order depends on the warps would be Bits::row; a maximum is the same in any order.
    v("rows", rows, choices({1, 2, 4, 8}), Bits::same);
    v("warps", warps, powers_of_two(1, 16), Bits::same);
  }
};

// y = x / max |x|, by rows.
void normalize(KernelBuilder& k, const NormalizeMeta& m) {
  View y = k.view("y", m.type, {dyn, m.cols});
  View x = k.view("x", m.type, {dyn, m.cols});
  const int64_t width = tile_width(m.cols);
  Scalar i = k.program_id(0);
  Tile v = x.partition({m.rows, width}).load({i, 0}).to(f32);
  Tile largest = reduce_max(abs(v), 1).expand_dims(1);
  y.partition({m.rows, width}).store({i, 0}, (v / largest).to(m.type));
}

const Kernel<NormalizeMeta> normalize_kernel{
    .name = "normalize",
    .description = "y = x / max |x|, by rows",
    .build = normalize,
    .launch = [](const NormalizeMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {ceil_div(a.dim("y", 0), m.rows)},
                    .num_warps = static_cast<int>(m.warps)};
    }};
LIGERDSL_REGISTER_KERNEL(normalize_kernel);
LIGERDSL_EXPORT_KERNELS();

int main(int argc, char** argv) try {
  const Context context = lesson::open(argc, argv);
  const int64_t n = 4096, cols = 1000;
  const std::vector<float> x = lesson::some_values(static_cast<size_t>(n * cols), 1);
  lesson::Array dx(context, {n, cols}, x), dy(context, {n, cols});

  // Once, before the first launch. Without an entry for this kernel, shape and device, the meta
  // struct stays unchanged.
  const NormalizeMeta meta =
      tuned(context, normalize_kernel, NormalizeMeta{.cols = cols}, "x=4096x1000 y=x");
  std::printf("rows=%d warps=%d\n", static_cast<int>(meta.rows), static_cast<int>(meta.warps));
  KernelLauncher launch(context, normalize_kernel);
  launch(meta, {{"y", dy.tensor()}, {"x", dx.tensor()}});

  std::vector<double> expected(x.size());
  for (size_t row = 0; row < static_cast<size_t>(n); ++row) {
    double largest = 0;
    for (size_t i = 0; i < cols; ++i) largest = std::fmax(largest, std::fabs(x[row * cols + i]));
    for (size_t i = 0; i < cols; ++i) expected[row * cols + i] = x[row * cols + i] / largest;
  }
  return lesson::report("normalize", dy.values(), expected, 1e-6) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
