#include "kernels/softmax/softmax.h"

#include "tests/kernels/shapes.h"
#include "tests/support/reference_call.h"

namespace ligerdsl::test::softmax_test {
namespace {

struct Trial {
  DType type;
  int64_t n, h, queries;
  double scale;
  Tensor x, y, d_y, d_x;

  Trial(DType type, int64_t n, int64_t h, double scale = 1.0, int64_t queries = 0, int64_t gap = 0,
        double spread = 2.0)
      : type(type), n(n), h(h), queries(queries), scale(static_cast<float>(scale)) {
    x = random_rows(type, n, h, 1, gap, spread);
    d_y = random_rows(type, n, h, 2, gap);
    y = Tensor::rows(type, n, h, gap);
    d_x = Tensor::rows(type, n, h, gap);
  }
  Arguments common() const {
    return Arguments().number("scale", scale).integer("queries", queries);
  }
  // Returns the sizes and numbers of the call, by name.
  std::map<std::string, double> numbers() const {
    return {{"N", n}, {"H", h}, {"scale", scale}, {"causal", queries > 0}, {"n_queries", queries}};
  }
  kernels::SoftmaxOptions options() const {
    return {.cols = h, .type = type, .causal = queries > 0};
  }
  void forward(const Tensor& to) {
    backend().run(kernels::softmax_forward(machine(), options()), n,
                  common().tensor("x", x).tensor("y", to));
  }
  void backward(const Tensor& to) {
    backend().run(kernels::softmax_backward(machine(), options()), n,
                  common().tensor("d_y", d_y).tensor("y", y).tensor("d_x", to));
  }
  void check() {
    SCOPED_TRACE(std::string(name(type)) + " n=" + std::to_string(n) + " h=" + std::to_string(h) +
                 " queries " + std::to_string(queries));
    forward(y);
    const auto expected = expected_of("softmax_forward", numbers(), {{"x", x.values()}});
    EXPECT_TRUE(close(y.values(), expected.at("y"), gate_e(type))) << "y";
    backward(d_x);
    const auto gradient =
        expected_of("softmax_backward", numbers(), {{"d_y", d_y.values()}, {"y", y.values()}});
    EXPECT_TRUE(close(d_x.values(), gradient.at("d_x"), gate_p(type))) << "d_x";
    for (int64_t i = 0; i < n; ++i) {
      const int64_t seen = queries > 0 ? i % queries + h - queries + 1 : h;
      for (int64_t j = std::max<int64_t>(seen, 0); j < h; ++j) {
        ASSERT_EQ(y.get(i * h + j), 0.0);
        ASSERT_EQ(d_x.get(i * h + j), 0.0);
      }
    }
    for (const Tensor& t : {y, d_x}) EXPECT_TRUE(t.untouched_outside());
  }
};

TEST(Softmax, WidthsAndTypes) {
  int64_t number = 0;
  for (const auto& [h, type] :
       values_and_types(affordable({1, 7, 16, 1023, 4096, 4097, 20000, 128256}, 3), kFloats))
    Trial(type, 3, h, 1.0, 0, gap_of(number++)).check();
}

// Shared memory of a GPU caches whole rows, or a part of each row.
TEST(Softmax, ResidentRows) {
  for (int64_t h : affordable({40960, 128256}, 1)) {
    for (DType type : {f32, bf16}) Trial(type, 1, h, 1.0, 0, 8).check();
  }
}

TEST(Softmax, AnyNumberOfRows) {
  for_any_number_of_rows([](DType type, int64_t n, int64_t h) { Trial(type, n, h).check(); });
}

TEST(Softmax, Scales) {
  for (double scale : {0.088388, 3.0, -0.5, 0.0}) Trial(f32, 4, 300, scale).check();
  Trial(f32, 2, 300, 1.0, 0, 0, 1e4).check();
  Trial(bf16, 2, 300, 0.125, 0, 0, 100.0).check();
}

TEST(Softmax, Causal) {
  for (DType type : {f32, bf16}) {
    Trial(type, 24, 8, 1.0, 8).check();
    Trial(type, 14, 20, 0.3, 7).check();  // more keys than queries
    Trial(type, 18, 5, 0.3, 9).check();   // rows without any key
    if (3 * 40000 <= backend().budget()) Trial(type, 3, 40000, 1.0, 3).check();
  }
}

TEST(Softmax, CausalIgnoresMaskedValues) {
  Trial run(f32, 4, 4, 1.0, 4);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = i + 1; j < 4; ++j) {
      run.x.set(i * 4 + j, NAN);
      run.d_y.set(i * 4 + j, NAN);
    }
  }
  run.forward(run.y);
  run.backward(run.d_x);
  for (const Tensor& t : {run.y, run.d_x}) {
    for (double value : t.values()) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Softmax, InPlaceIsBitEqual) {
  for (int64_t h : affordable({100, 20000}, 3)) {
    Trial separate(bf16, 3, h), over(bf16, 3, h);
    separate.forward(separate.y);
    over.forward(over.x);
    EXPECT_TRUE(over.x.same_bits(separate.y));
    separate.backward(separate.d_x);
    over.y = separate.y.clone();
    over.backward(over.d_y);
    EXPECT_TRUE(over.d_y.same_bits(separate.d_x));
  }
}

TEST(Softmax, Infinities) {
  for (int64_t h : affordable({50, 20000}, 3)) {
    Trial run(f32, 3, h);
    for (int64_t j = 0; j < h; ++j) {
      if (j != 7) run.x.set(j, -INFINITY);  // one finite element
      run.x.set(h + j, -INFINITY);          // no finite element: NaN, as in the formula
      if (j % 2) run.x.set(2 * h + j, -INFINITY);
    }
    run.forward(run.y);
    const Values y = run.y.values();
    EXPECT_EQ(y[7], 1.0);
    EXPECT_EQ(y[8], 0.0);
    EXPECT_TRUE(std::isnan(y[h]));
    EXPECT_EQ(y[2 * h + 1], 0.0);
    EXPECT_TRUE(close(
        {y.begin() + 2 * h, y.end()},
        [&] {
          const Values all =
              expected_of("softmax_forward", run.numbers(), {{"x", run.x.values()}}).at("y");
          return Values{all.begin() + 2 * h, all.end()};
        }(),
        gate_e(f32)));
  }
}

}  // namespace
}  // namespace ligerdsl::test::softmax_test
