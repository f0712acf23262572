// Tests of bias_add and its gradient.
#include "kernels/elementwise/bias_add.h"

#include "kernels/reduce/column_sums.h"
#include "tests/kernels/shapes.h"
#include "tests/support/reference_call.h"

namespace ligerdsl::test::bias_add_test {
namespace {

struct Trial {
  DType type, bias_type;
  int64_t n, cols;
  bool accumulate = false;
  Tensor x, y, bias, d_bias;

  Trial(DType type, DType bias_type, int64_t n, int64_t cols, int64_t gap = 0)
      : type(type), bias_type(bias_type), n(n), cols(cols) {
    x = random_rows(type, n, cols, 1, gap);
    y = Tensor::rows(type, n, cols, gap);
    bias = random_vector(bias_type, cols, 2);
    d_bias = random_vector(bias_type, cols, 3);
  }
  void forward(const Tensor& to) {
    backend().run(
        kernels::bias_add_forward(machine(), {.cols = cols, .type = type, .bias_type = bias_type}),
        n, Arguments().tensor("x", x).tensor("bias", bias).tensor("y", to));
  }
  void backward(const Tensor& to) {
    backend().run(
        kernels::bias_add_backward(
            machine(),
            {.cols = cols, .type = type, .out_type = bias_type, .accumulate = accumulate}),
        n, Arguments().tensor("d_y", x).tensor("d_bias", to));
  }
  void check() {
    SCOPED_TRACE(std::string(name(type)) + " " + name(bias_type) + " n=" + std::to_string(n) +
                 " cols=" + std::to_string(cols) + (accumulate ? " accumulate" : ""));
    forward(y);
    const std::map<std::string, double> sizes = {{"N", n}, {"F", cols}};
    const auto expected =
        expected_of("bias_add_forward", sizes, {{"x", x.values()}, {"bias", bias.values()}});
    EXPECT_TRUE(close(y.values(), expected.at("y"), gate_e(type))) << "y";
    Values sums = expected_of("bias_add_backward", sizes, {{"d_y", x.values()}}).at("d_bias");
    for (int64_t j = 0; accumulate && j < cols; ++j) sums[j] += d_bias.get(j);
    backward(d_bias);
    const double gate = gate_r(bias_type, n) * backend().summation_slack();
    EXPECT_TRUE(close_normwise(d_bias.values(), sums, gate)) << "d_bias";
    for (const Tensor& t : {y, d_bias}) EXPECT_TRUE(t.untouched_outside());
  }
};

TEST(BiasAdd, WidthsAndTypes) {
  int64_t number = 0;
  for (const auto& [cols, type] : values_and_types(
           affordable({1, 8, 41, 431, 512, 768, 4096, 4097, 11008, 32768}, 4), kFloats)) {
    Trial(type, f32, 4, cols, gap_of(number++)).check();
    if (type != f32) Trial(type, type, 4, cols, gap_of(number)).check();
  }
}

TEST(BiasAdd, AnyNumberOfRows) {
  for_any_number_of_rows(
      [](DType type, int64_t n, int64_t cols) { Trial(type, f32, n, cols).check(); });
}

TEST(BiasAdd, ManyRows) {
  for (int64_t cols : {1, 40, 300}) {
    const int64_t n = std::min<int64_t>(5003, backend().budget() / cols);
    Trial(bf16, f32, n, cols).check();
    Trial(f32, f32, n, cols, 3).check();
  }
}

// A CPU reads these rows in tiles of whole pages. Cases: full and partial tiles, in one part and in
// several.
TEST(BiasAdd, ManyWideRows) {
  for (const int64_t cols : {2048, 2056, 4096}) {
    for (const int64_t n : {19, 300}) {
      if (n * cols > 4 * backend().budget()) continue;
      Trial(f32, f32, n, cols).check();
      Trial(bf16, f32, n, cols, 8).check();
    }
  }
}

TEST(BiasAdd, Accumulates) {
  for (DType type : kFloats) {
    Trial run(type, f32, 37, 200, 8);
    run.accumulate = true;
    run.check();
  }
}

TEST(BiasAdd, InPlaceIsBitEqual) {
  for (DType type : kFloats) {
    Trial run(type, type, 5, 333, 8);
    run.forward(run.y);
    run.forward(run.x);
    EXPECT_TRUE(run.x.same_bits(run.y)) << name(type);
  }
}

// The order of additions depends only on shapes, so repeated runs give the same bits.
TEST(BiasAdd, RepeatedRunsAreBitEqual) {
  Trial first(f32, f32, 300, 100), second(f32, f32, 300, 100);
  first.backward(first.d_bias);
  second.backward(second.d_bias);
  EXPECT_TRUE(first.d_bias.same_bits(second.d_bias));
}

// A non-finite element affects only its own result and the sum of its column.
TEST(BiasAdd, NotFinite) {
  for (DType type : kFloats) {
    Trial run(type, f32, 37, 200, 8);
    run.x.set(405, NAN);
    run.x.set(1007, INFINITY);
    run.forward(run.y);
    run.backward(run.d_bias);
    for (int64_t i = 0; i < 37 * 200; ++i)
      ASSERT_EQ(std::isfinite(run.y.get(i)), i != 405 && i != 1007) << name(type) << " " << i;
    EXPECT_TRUE(std::isnan(run.y.get(405)) && run.y.get(1007) == INFINITY) << name(type);
    for (int64_t j = 0; j < 200; ++j)
      ASSERT_EQ(std::isfinite(run.d_bias.get(j)), j != 5 && j != 7) << name(type) << " " << j;
    EXPECT_TRUE(std::isnan(run.d_bias.get(5)) && run.d_bias.get(7) == INFINITY) << name(type);
  }
}

}  // namespace
}  // namespace ligerdsl::test::bias_add_test
