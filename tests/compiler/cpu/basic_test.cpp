// The shortest kernels from end to end.
#include "cpu_kernel.h"

namespace ligerdsl::testing {
namespace {

void vectorAdd(KernelBuilder& k) {
  View a = k.view("a", f32, {dyn}), b = k.view("b", f32, {dyn}), c = k.view("c", f32, {dyn});
  Scalar i = k.program_id(0);
  c.partition({1024}).store({i}, a.partition({1024}).load({i}) + b.partition({1024}).load({i}));
}

TEST(CpuBasic, VectorAddOfAnyLength) {
  for (auto options : {program::CompileOptions{}, aliasing({1, 2, 3})}) {
    CpuKernel kernel(vectorAdd, options);
    for (int64_t n : {1, 15, 16, 17, 1023, 1024, 1025, 5000}) {
      std::vector<float> a = randomFloats(n, 1), b = randomFloats(n, 2), c(n + 32, 7.0f);
      kernel.run(Slots().view(a.data(), {n}).view(b.data(), {n}).view(c.data(), {n}), {int32_t((n + 1023) / 1024)});
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << "n " << n << " element " << i;
      for (int64_t i = n; i < n + 32; ++i) ASSERT_EQ(c[i], 7.0f) << "written beyond the end, n " << n;
    }
  }
}

void rowSoftmax(KernelBuilder& k) {
  View y = k.view("y", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn});
  Scalar row = k.program_id(0);
  Tile v = x.partition({squeeze, 1024}).load({row, 0}, {.pad = -INFINITY});
  y.partition({squeeze, 1024}).store({row, 0}, softmax(v));
}

TEST(CpuBasic, SoftmaxOfRaggedRows) {
  for (auto options : {program::CompileOptions{}, aliasing({1, 2}), aliasing({1, 1})}) {
    CpuKernel kernel(rowSoftmax, options);
    for (int64_t n : {1, 3, 16, 500, 1000, 1023, 1024}) {
      const int64_t rows = 5, stride = 1030;
      std::vector<float> x = randomFloats(rows * stride, 3, -20, 20), y(rows * stride, 7.0f);
      kernel.run(Slots().view(y.data(), {rows, n}, {stride, 1}).view(x.data(), {rows, n}, {stride, 1}), {int32_t(rows)});
      for (int64_t r = 0; r < rows; ++r) {
        double top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; ++i) top = std::max(top, double(x[r * stride + i]));
        for (int64_t i = 0; i < n; ++i) sum += std::exp(x[r * stride + i] - top);
        for (int64_t i = 0; i < n; ++i)
          ASSERT_NEAR(y[r * stride + i], std::exp(x[r * stride + i] - top) / sum, 1e-6) << "n " << n << " row " << r << " element " << i;
        for (int64_t i = n; i < stride; ++i) ASSERT_EQ(y[r * stride + i], 7.0f);
      }
    }
  }
}

}  // namespace
}  // namespace ligerdsl::testing
