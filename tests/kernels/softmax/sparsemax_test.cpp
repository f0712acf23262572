#include "kernels/softmax/sparsemax.h"

#include <cmath>
#include <numeric>

#include "tests/kernels/shapes.h"
#include "tests/support/reference_call.h"

namespace ligerdsl::test::sparsemax_test {
namespace {

struct Trial {
  DType type;
  int64_t n, h;
  Tensor x, y, d_y, d_x;

  Trial(DType type, int64_t n, int64_t h, int64_t gap = 0, double scale = 1.0)
      : type(type),
        n(n),
        h(h),
        x(random_rows(type, n, h, 1, gap, scale)),
        y(Tensor::rows(type, n, h, gap)),
        d_y(random_rows(type, n, h, 2, gap)),
        d_x(Tensor::rows(type, n, h, gap)) {}
  std::map<std::string, double> sizes() const { return {{"N", n}, {"H", h}}; }
  kernels::SparsemaxOptions options() const { return {.cols = h, .type = type}; }
  void forward(const Tensor& to) {
    backend().run(kernels::sparsemax_forward(machine(), options()), n,
                  Arguments().tensor("y", to).tensor("x", x));
  }
  void backward(const Tensor& to) {
    backend().run(kernels::sparsemax_backward(machine(), options()), n,
                  Arguments().tensor("d_x", to).tensor("d_y", d_y).tensor("y", y));
  }
  void check() {
    SCOPED_TRACE(std::string(name(type)) + " n=" + std::to_string(n) + " h=" + std::to_string(h));
    forward(y);
    const auto expected = expected_of("sparsemax_forward", sizes(), {{"x", x.values()}});
    EXPECT_TRUE(close(y.values(), expected.at("y"), gate_e(type))) << "y";
    if (type == f32) {
      for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < h; ++j) sum += y.get(i * h + j);
        EXPECT_NEAR(sum, 1, 1e-6) << "row " << i;
      }
    }
    backward(d_x);
    const auto gradient =
        expected_of("sparsemax_backward", sizes(), {{"y", y.values()}, {"d_y", d_y.values()}});
    EXPECT_TRUE(close(d_x.values(), gradient.at("d_x"), gate_e(type))) << "d_x";
    for (const Tensor& t : {x, y, d_y, d_x}) EXPECT_TRUE(t.untouched_outside());
  }
};

TEST(Sparsemax, WidthsAndTypes) {
  int64_t number = 0;
  const std::vector<int64_t> widths{1,    2,    3,    7,    31,    64,    123,   512,
                                    1023, 1024, 4097, 5120, 16384, 20000, 32768, 65536};
  for (const auto& [h, type] : values_and_types(affordable(widths, 3), kFloats))
    Trial(type, 3, h, gap_of(number++)).check();
}

// Rows exceed a CTA's registers.
TEST(Sparsemax, WideRows) {
  for (int64_t h : affordable({40000, 131072, 151936}, 1)) {
    for (DType type : {bf16, f32}) Trial(type, 1, h, 8).check();
  }
}

TEST(Sparsemax, AnyNumberOfRows) {
  for_any_number_of_rows([](DType type, int64_t n, int64_t h) { Trial(type, n, h).check(); });
}

// The support (the nonzero results) has at most one element per lane, or several.
TEST(Sparsemax, ManyRows) {
  for (int64_t h : {100, 700, 3000}) {
    for (double scale : {0.02, 0.2, 1.0, 3.0})
      Trial(f32, std::min<int64_t>(150, backend().budget() / h), h, 0, scale).check();
  }
  for (int64_t h : {72, 96, 128, 256})
    for (double scale : {0.2, 3.0})
      Trial(bf16, std::min<int64_t>(150, backend().budget() / h), h, 0, scale).check();
}

// Supports from a single element to all elements of a nearly constant row.
TEST(Sparsemax, SupportsOfAnySize) {
  for (int64_t h : affordable({40, 1000, 8192, 40000}, 3)) {
    for (double scale : {0.0, 1e-6, 1e-4, 1e-2, 0.1, 1.0, 10.0, 1e4})
      Trial(f32, 3, h, 0, scale).check();
    Trial(bf16, 3, h, 0, 1e-2).check();
  }
}

// One row has equal elements. In the other, one element exceeds all others by nearly 1, so the
// others' results are small.
TEST(Sparsemax, TiesAndOneDominantElement) {
  for (int64_t h : affordable({50, 2000, 20000}, 2)) {
    Trial run(f32, 2, h);
    for (int64_t j = 0; j < h; ++j) {
      run.x.set(j, j % 3);
      run.x.set(h + j, j == h / 2 ? 3.0 : 3.0 - (1 - 1e-3) - 1e-6 * static_cast<double>(j % 7));
    }
    run.check();
  }
}

// A common offset changes only the precision of the differences in f32.
TEST(Sparsemax, LargeOffset) {
  for (int64_t h : affordable({300, 20000}, 2)) {
    Trial run(f32, 2, h);
    for (int64_t j = 0; j < 2 * h; ++j) run.x.set(j, run.x.get(j) + 1e4);
    run.check();
  }
}

TEST(Sparsemax, Infinities) {
  for (int64_t h : affordable({20, 600, 20000}, 4)) {
    Trial run(f32, 4, h);
    for (int64_t j = 0; j < h; ++j) {
      if (j % 3) run.x.set(j, -INFINITY);
      if (j != 7) run.x.set(h + j, -INFINITY);
    }
    run.check();
    EXPECT_EQ(run.y.get(h + 7), 1);
    for (int64_t j = 0; j < h; ++j) run.x.set(j, -INFINITY);
    run.x.set(h + 3, NAN);
    run.x.set(2 * h + 5, INFINITY);
    run.forward(run.y);
    run.backward(run.d_x);
    for (int64_t row : {0, 1, 2}) {
      EXPECT_TRUE(std::isnan(run.y.get(row * h + 3))) << row;
      EXPECT_TRUE(std::isnan(run.d_x.get(row * h + 3))) << row;
    }
    EXPECT_FALSE(std::isnan(run.y.get(3 * h + 3)) || std::isnan(run.d_x.get(3 * h + 3)));
  }
}

// The upstream gradient outside of the support is ignored.
TEST(Sparsemax, GradientsOutsideOfTheSupport) {
  for (int64_t h : affordable({20, 600, 20000}, 2)) {
    Trial run(f32, 2, h, 0, 10.0);
    run.forward(run.y);
    for (int64_t j = 0; j < 2 * h; ++j) {
      if (run.y.get(j) == 0) run.d_y.set(j, j % 2 ? NAN : INFINITY);
    }
    run.backward(run.d_x);
    for (double value : run.d_x.values()) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Sparsemax, InPlaceIsBitEqual) {
  for (int64_t h : affordable({33, 512, 5000, 40000}, 3)) {
    for (DType type : kFloats) {
      Trial separate(type, 3, h, 8), over(type, 3, h, 8), other(type, 3, h, 8);
      separate.forward(separate.y);
      over.forward(over.x);
      EXPECT_TRUE(over.x.same_bits(separate.y)) << h;
      separate.backward(separate.d_x);
      over.y = over.x;
      over.backward(over.d_y);
      EXPECT_TRUE(over.d_y.same_bits(separate.d_x)) << h;
      other.forward(other.y);
      other.backward(other.y);
      EXPECT_TRUE(other.y.same_bits(separate.d_x)) << h;
    }
  }
}

TEST(Sparsemax, AlignedRowsTakeVectors) {
  expect_aligned([] {
    for (int64_t h : affordable({64, 1024, 4096, 40960}, 3)) Trial(bf16, 3, h).check();
  });
}

TEST(Sparsemax, NoRows) {
  Trial(f32, 0, 64).check();
}

}  // namespace
}  // namespace ligerdsl::test::sparsemax_test
