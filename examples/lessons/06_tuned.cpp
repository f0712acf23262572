// Lesson 6: tune a kernel of your own.
//
// A meta-struct field that lists choices belongs to the schedule: it changes the speed of the
// kernel, not its formula. This file is built twice. `ligerdsl tune` loads the shared object, times
// every configuration and checks it in float64. The program then reads the fastest configuration
// from the tuned table:
//
//   ligerdsl --load liblesson_06_kernels.so tune normalize y=x x=4096x1000
//     --check-with "x=7x1000 y=x" --export t.json
//   LIGERDSL_TABLE=t.json lesson_06_tuned
//
// If no configuration is faster than the defaults below, as on most CPUs, the table gets no entry.
// The program then prints the defaults.
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
    // `type` and `cols` identify the kernel. A table entry applies to their values and to the
    // shapes of the call.
    v("type", type);
    v("cols", cols);
    // A tuner sets `rows` and `warps`. Bits::same: no choice changes the bits of the result,
    // because a maximum is the same in any order. A sum whose order depends on the warps would need
    // Bits::row.
    v("rows", rows, choices({1, 2, 4, 8}), Bits::same);
    v("warps", warps, powers_of_two(1, 16), Bits::same);
  }
};

// y = x / max |x|, row by row.
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

  // Look the configuration up once, before the first launch. If the table has no entry for this
  // kernel, shape and device, tuned() returns the meta struct unchanged.
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
