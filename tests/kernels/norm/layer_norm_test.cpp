#include "kernels/norm/layer_norm.h"

#include "kernels/norm/layer_norm_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::layer_norm_test {
namespace {

using kernels::LayerNormGradients;
using kernels::LayerNormOptions;

constexpr double kEps = 1e-5f;

struct Case {
  LayerNormOptions options;
  int64_t n = 1;
  int64_t gap = 0;
  double mean = 0, scale = 1;               // distribution of x
  int64_t shift = 0, shift_of_results = 0;  // elements before the first row
};

std::string describe(const Case& c) {
  return std::string(name(c.options.type)) + " weight " + name(c.options.weight_type) +
         " n=" + std::to_string(c.n) + " h=" + std::to_string(c.options.cols) + " gap " +
         std::to_string(c.gap) + " mean " + std::to_string(c.mean) + " shift " +
         std::to_string(c.shift) + " " + std::to_string(c.shift_of_results) +
         (c.options.residual ? " residual" : "") + (c.options.without_d_x ? " without d_x" : "");
}

// Inputs of a case and the results of the kernels.
struct Trial {
  Case c;
  Tensor x, residual, weight, bias, y, sum, mean,
      rstd;  // forward; without a residual, sum is x
  Tensor d_y, d_sum, d_x, d_weight, d_bias;

  explicit Trial(const Case& c) : c(c) {
    const auto& o = c.options;
    const auto input = [&](uint64_t seed, double scale = 1, double mean = 0) {
      return Tensor::rows(o.type, c.n, o.cols, c.gap, c.shift)
          .fill(Random(seed).normals(c.n * o.cols, scale, mean));
    };
    const auto result = [&] {
      return Tensor::rows(o.type, c.n, o.cols, c.gap, c.shift_of_results);
    };
    x = input(1, c.scale, c.mean);
    d_y = input(2);
    weight = random_vector(o.weight_type, o.cols, 3, 0.5, 1.0);
    bias = o.without_bias ? Tensor(o.weight_type, {o.cols}).fill(Values(o.cols))
                          : random_vector(o.weight_type, o.cols, 4);
    y = result();
    residual = input(5);
    d_sum = input(6);
    sum = o.residual ? result() : x;
    d_x = result();
    mean = Tensor(f32, {c.n});
    rstd = Tensor(f32, {c.n});
    d_weight = Tensor(o.d_weight_type, {o.cols});
    d_bias = Tensor(o.d_weight_type, {o.cols});
  }

  Arguments common() const {
    return Arguments()
        .tensor("weight", weight)
        .tensor("bias", bias)
        .tensor("mean", mean)
        .tensor("rstd", rstd)
        .number("eps", kEps);
  }
  void forward(const Tensor& sum_out) {
    forward(kernels::layer_norm_forward(machine(), c.options), sum_out);
  }
  void forward(const kernels::Operation& operation, const Tensor& sum_out) {
    backend().run(
        operation, c.n,
        common().tensor("y", y).tensor("x", x).tensor("residual", residual).tensor("sum", sum_out));
  }
  void forward() { forward(sum); }
  void backward(const Tensor& d_x_out) {
    backend().run(kernels::layer_norm_backward(machine(), c.options), c.n,
                  common()
                      .tensor("d_x", d_x_out)
                      .tensor("d_y", d_y)
                      .tensor("d_sum", d_sum)
                      .tensor("x", x)
                      .tensor("sum", sum)
                      .tensor("d_weight", d_weight)
                      .tensor("d_bias", d_bias));
  }
  void backward() { backward(d_x); }

  LayerNormResult expected() const {
    return layer_norm_reference(sum.values(), weight.values(), bias.values(), c.n, c.options.cols,
                                kEps);
  }
  // `slack` multiplies the gate for sums over a row.
  void check_forward(double slack = 1) {
    if (c.options.residual) {
      Values added(c.n * c.options.cols);
      for (size_t i = 0; i < added.size(); ++i)
        added[i] = rounded(x.get(i) + residual.get(i), c.options.type);
      EXPECT_TRUE(close(sum.values(), added, {0, 0})) << "sum";
    }
    const LayerNormResult expected = this->expected();
    Gate of_sums = gate_e(f32);
    of_sums.rtol *= slack;
    EXPECT_TRUE(close(y.values(), expected.y, gate_e(c.options.type))) << "y";
    EXPECT_TRUE(close(mean.values(), expected.mean, gate_e(f32))) << "mean";
    EXPECT_TRUE(close(rstd.values(), expected.rstd, of_sums)) << "rstd";
    for (const Tensor& t : {y, sum, mean, rstd, x}) EXPECT_TRUE(t.untouched_outside());
  }
  void check_backward(double slack = 1) {
    const auto& o = c.options;
    Gate of_dx = gate_e(o.type);
    of_dx.rtol *= slack, of_dx.atol *= slack;
    const auto expected =
        layer_norm_gradient_reference(d_y.values(), sum.values(), weight.values(),
                                      o.with_d_sum ? d_sum.values() : Values{}, c.n, o.cols, kEps);
    if (o.without_d_x) {
      EXPECT_TRUE(d_x.same_bits(Tensor::rows(o.type, c.n, o.cols, c.gap))) << "d_x";
    } else if (o.cols <= 2) {  // d_x's terms nearly cancel: the error is relative to the terms
      for (int64_t i = 0; i < d_x.size(); ++i) {
        const double rstd_of_row = rstd.get(i / o.cols),
                     terms = std::fabs(d_y.get(i) * weight.get(i % o.cols)) + 1;
        EXPECT_NEAR(d_x.get(i), expected.dx[i], gate_e(o.type).rtol * rstd_of_row * terms)
            << "d_x, element " << i;
      }
    } else {
      EXPECT_TRUE(close(d_x.values(), expected.dx, of_dx)) << "d_x";
    }
    const double gate = gate_r(o.d_weight_type, c.n) * backend().summation_slack();
    const Tensor untouched(o.d_weight_type, {o.cols});
    if (!o.want_d_weight || o.gradients == LayerNormGradients::bias) {
      EXPECT_TRUE(d_weight.same_bits(untouched)) << "d_weight";
    } else if (o.cols > 1) {  // else exactly 0
      EXPECT_TRUE(close_normwise(d_weight.values(), expected.dw, gate)) << "d_weight";
    }
    if (!o.want_d_weight || o.gradients == LayerNormGradients::weight)
      EXPECT_TRUE(d_bias.same_bits(untouched)) << "d_bias";
    else
      EXPECT_TRUE(close_normwise(d_bias.values(), expected.db, gate)) << "d_bias";
    for (const Tensor& t : {d_x, d_weight, d_bias, d_y}) EXPECT_TRUE(t.untouched_outside());
  }
};

void run_and_check(const Case& c) {
  SCOPED_TRACE(describe(c));
  Trial run(c);
  run.forward();
  run.check_forward();
  run.backward();
  run.check_backward();
}

LayerNormOptions options_of(int64_t cols, DType type) {
  LayerNormOptions o;
  o.cols = cols;
  o.type = o.weight_type = type;
  return o;
}

TEST(LayerNorm, WidthsAndTypes) {
  int64_t number = 0;
  for (const auto& [h, type] : values_and_types(
           affordable({1, 2, 7, 64, 512, 1023, 1500, 4096, 4097, 5120, 8200, 16385, 33000, 65536},
                      3),
           kFloats))
    run_and_check({.options = options_of(h, type), .n = 3, .gap = gap_of(number++)});
}

TEST(LayerNorm, RowsSharedByCtas) {
  for_rows_shared_by_ctas([](DType type, int64_t n, int64_t h, int64_t gap) {
    run_and_check({.options = options_of(h, type), .n = n, .gap = gap});
  });
}

TEST(LayerNorm, SeveralRowBlocksPerProgram) {
  for_rows_in_turn([](DType type, int64_t n, int64_t h, int64_t gap) {
    run_and_check({.options = options_of(h, type), .n = n, .gap = gap});
  });
}

TEST(LayerNorm, RaggedRows) {
  for_ragged_rows([](const RaggedRows& of) {
    Case c{.options = options_of(of.width, of.type),
           .n = of.rows,
           .gap = of.gap,
           .shift = of.shift,
           .shift_of_results = of.shift_of_results};
    run_and_check(c);
    c.options.residual = c.options.with_d_sum = true;
    c.options.weight_type = f32;
    run_and_check(c);
  });
}

// Programs that loop over rows load weight and bias once. There are more rows than programs.
TEST(LayerNorm, RaggedRowsInALoop) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no ragged rows";
  kernels::Machine small = machine();
  small.sms = 2;
  int checked = 0;
  for_ragged_rows([&](const RaggedRows& of) {
    for (const bool residual : {false, true}) {
      Case c{.options = options_of(of.width, of.type),
             .n = of.rows,
             .gap = of.gap,
             .shift = of.shift,
             .shift_of_results = of.shift_of_results};
      c.options.residual = residual;
      const auto& kernel = residual ? kernels::fused_add_layer_norm_forward_kernel
                                    : kernels::layer_norm_forward_kernel;
      kernels::LayerNormForwardConfig config = kernel.heuristic(small, c.options);
      config.programs_per_sm = 2;
      if (!kernel.valid(small, c.options, config).empty()) return;  // wider than registers
      SCOPED_TRACE(describe(c));
      Trial run(c);
      run.forward(kernel.build(small, c.options, config), run.sum);
      run.check_forward();
      ++checked;
    }
  });
  EXPECT_GT(checked, 0);
}

TEST(LayerNorm, AnyNumberOfRows) {
  for_any_number_of_rows([](DType type, int64_t n, int64_t h) {
    run_and_check({.options = options_of(h, type), .n = n});
  });
}

TEST(LayerNorm, ManyShortRows) {
  for (int64_t h : {8, 64, 128}) {
    run_and_check(
        {.options = options_of(h, bf16), .n = std::min<int64_t>(5003, backend().budget() / h)});
    run_and_check({.options = options_of(h, f32), .n = 131, .gap = 3});
  }
}

TEST(LayerNorm, Options) {
  for (DType type : kFloats) {
    for (DType weight_type : {f32, type}) {
      for (DType d_weight_type : {f32, weight_type}) {
        Case c{.options = options_of(123, type), .n = 15, .gap = 3};
        c.options.weight_type = weight_type;
        c.options.d_weight_type = d_weight_type;
        run_and_check(c);
        c.options.want_d_weight = false;
        run_and_check(c);
      }
    }
  }
  Case c{.options = options_of(40, bf16), .n = 3};
  Trial with(c), without(c);
  without.c.options.with_mean = without.c.options.with_rstd = false;
  with.forward();
  without.forward();
  EXPECT_TRUE(with.y.same_bits(without.y));
  for (const Tensor& t : {without.mean, without.rstd}) EXPECT_TRUE(t.same_bits(Tensor(f32, {3})));
}

TEST(LayerNorm, WithoutBiasAndWithOneGradient) {
  for (int64_t h : affordable({3, 7, 512, 4096, 33000}, 3)) {
    for (DType type : kFloats) {
      for (LayerNormGradients gradients : {LayerNormGradients::weight, LayerNormGradients::bias}) {
        Case c{.options = options_of(h, type), .n = 5, .gap = h % 2};
        c.options.without_bias = gradients == LayerNormGradients::weight;
        c.options.gradients = gradients;
        run_and_check(c);
      }
    }
  }
}

TEST(LayerNorm, Residual) {
  int64_t number = 0;
  for (const auto& [h, type] :
       values_and_types(affordable({7, 512, 4097, 20488, 33000, 65536}, 5), kFloats)) {
    Case c{.options = options_of(h, type), .n = 5, .gap = gap_of(number++)};
    c.options.residual = true;
    run_and_check(c);
    c.options.with_d_sum = c.options.without_bias = true;
    c.options.gradients = LayerNormGradients::weight;
    run_and_check(c);
  }
}

// Only the parameter gradients are computed, and nothing else is written. Cases: all widths, many
// rows, no rows.
TEST(LayerNorm, WithoutDx) {
  int64_t number = 0;
  const std::vector<LayerNormGradients> all_gradients{
      LayerNormGradients::both, LayerNormGradients::weight, LayerNormGradients::bias};
  for (const auto& [h, type, gradients] : combinations(
           affordable({1, 7, 64, 123, 512, 4097, 33000, 65536}, 5), kFloats, all_gradients)) {
    Case c{.options = options_of(h, type), .n = 5, .gap = gap_of(number++)};
    c.options.without_d_x = true;
    c.options.gradients = gradients;
    c.options.residual = number % 2 == 0;
    run_and_check(c);
  }
  for (int64_t h : {64, 200}) {
    for (DType type : kFloats) {
      Case c{.options = options_of(h, type), .n = std::min<int64_t>(2003, backend().budget() / h)};
      c.options.without_d_x = true;
      c.options.d_weight_type = type;
      run_and_check(c);
    }
  }
  Case c{.options = options_of(64, bf16), .n = 0};
  c.options.without_d_x = true;
  Trial none(c);
  none.backward();
  for (const Tensor& t : {none.d_weight, none.d_bias})
    for (double value : t.values()) EXPECT_EQ(value, 0.0);
}

TEST(LayerNorm, WithoutDxAccumulatesAndRepeats) {
  Case c{.options = options_of(200, bf16), .n = 37};
  c.options.without_d_x = true;
  Trial once(c), twice(c);
  for (Trial* trial : {&once, &twice}) {
    trial->forward();
    trial->backward();
  }
  EXPECT_TRUE(once.d_weight.same_bits(twice.d_weight) && once.d_bias.same_bits(twice.d_bias));
  twice.c.options.accumulate = true;
  twice.backward();
  for (int64_t j = 0; j < 200; ++j) {
    EXPECT_FLOAT_EQ(static_cast<float>(twice.d_weight.get(j)),
                    static_cast<float>(2 * once.d_weight.get(j)));
    EXPECT_FLOAT_EQ(static_cast<float>(twice.d_bias.get(j)),
                    static_cast<float>(2 * once.d_bias.get(j)));
  }
}

// y keeps its accuracy if the mean is much larger than the deviations, for any tile width and
// padding.
TEST(LayerNorm, LargeMeans) {
  for (int64_t h : affordable({100, 1023, 1024, 4096, 5000, 33000}, 3)) {
    for (auto [type, mean] : {std::pair{f32, 1e4}, {f32, -3e5}, {f16, 300.0}, {bf16, -50.0}}) {
      Trial run({.options = options_of(h, type), .n = 3, .mean = mean});
      SCOPED_TRACE(describe(run.c));
      run.forward();
      run.check_forward();
    }
  }
}

// Outliers move a row's mean away from the mean of its parts and from its first elements.
TEST(LayerNorm, OutlierColumns) {
  for (int64_t h : affordable({300, 4096, 33000}, 2)) {
    for (DType type : kFloats) {
      Trial run({.options = options_of(h, type), .n = 2});
      SCOPED_TRACE(describe(run.c));
      run.x.set(0, 3e4);
      run.x.set(2 * h - 1, type == f16 ? -6e4 : -1e6);
      run.forward();
      run.check_forward();
      run.backward();
      run.check_backward(backend().summation_slack());
    }
  }
}

// The first columns of a row differ from the rest.
TEST(LayerNorm, OutliersInTheFirstColumns) {
  for (int64_t h : affordable({4096, 16384, 33000}, 2)) {
    for (DType type : {f16, bf16}) {
      Trial run({.options = options_of(h, type), .n = 2});
      SCOPED_TRACE(describe(run.c));
      for (int64_t row = 0; row < 2; ++row)
        for (int64_t i = 0; i < 128; ++i) run.x.set(row * h + i, row == 0 ? 32 : -100);
      run.forward();
      run.check_forward(backend().summation_slack());
    }
  }
}

TEST(LayerNorm, ConstantRows) {
  Trial run({.options = options_of(300, f32), .n = 2, .mean = 7.3, .scale = 0});
  run.forward();
  for (int64_t i = 0; i < 600; ++i) ASSERT_NEAR(run.y.get(i), run.bias.get(i % 300), 1e-4);
}

TEST(LayerNorm, InPlaceIsBitEqual) {
  for (int64_t h : affordable({41, 1024, 20488, 33000}, 4)) {
    for (DType type : kFloats) {
      Case c{.options = options_of(h, type), .n = 4};
      SCOPED_TRACE(describe(c));
      Trial separate(c), over(c);
      separate.forward();
      over.forward();
      separate.backward();
      over.backward(over.d_y);
      EXPECT_TRUE(over.d_y.same_bits(separate.d_x));
      EXPECT_TRUE(over.d_weight.same_bits(separate.d_weight) &&
                  over.d_bias.same_bits(separate.d_bias));
    }
  }
}

// sum overwrites x or residual while other threads still read the row.
TEST(LayerNorm, ResidualInPlaceIsBitEqual) {
  for (const auto& [h, type] :
       values_and_types(affordable({41, 1024, 20488, 33000, 65536}, 4), kFloats)) {
    Case c{.options = options_of(h, type), .n = 4};
    c.options.residual = c.options.with_d_sum = true;
    SCOPED_TRACE(describe(c));
    Trial separate(c), over_x(c), over_residual(c), over_d_y(c), over_d_sum(c);
    separate.forward();
    separate.check_forward();
    over_x.forward(over_x.x);
    EXPECT_TRUE(over_x.x.same_bits(separate.sum) && over_x.y.same_bits(separate.y)) << "sum over x";
    over_residual.forward(over_residual.residual);
    EXPECT_TRUE(over_residual.residual.same_bits(separate.sum) &&
                over_residual.y.same_bits(separate.y))
        << "sum over residual";
    for (const Trial* trial : {&over_x, &over_residual})
      EXPECT_TRUE(trial->mean.same_bits(separate.mean) && trial->rstd.same_bits(separate.rstd));

    separate.backward();
    for (Trial* trial : {&over_d_y, &over_d_sum}) trial->forward();
    over_d_y.backward(over_d_y.d_y);
    over_d_sum.backward(over_d_sum.d_sum);
    EXPECT_TRUE(over_d_y.d_y.same_bits(separate.d_x)) << "d_x over d_y";
    EXPECT_TRUE(over_d_sum.d_sum.same_bits(separate.d_x)) << "d_x over d_sum";
    for (const Trial* trial : {&over_d_y, &over_d_sum})
      EXPECT_TRUE(trial->d_weight.same_bits(separate.d_weight) &&
                  trial->d_bias.same_bits(separate.d_bias));
  }
}

TEST(LayerNorm, AccumulatesAndRepeats) {
  for (int64_t h : affordable({200, 20488}, 5)) {
    Case c{.options = options_of(h, bf16), .n = h == 200 ? 37 : 5};
    Trial once(c), twice(c);
    for (Trial* trial : {&once, &twice}) {
      trial->forward();
      trial->backward();
    }
    EXPECT_TRUE(once.d_weight.same_bits(twice.d_weight) && once.d_bias.same_bits(twice.d_bias));
    EXPECT_TRUE(once.d_x.same_bits(twice.d_x) && once.y.same_bits(twice.y));

    twice.c.options.accumulate = true;
    twice.backward();
    for (int64_t j = 0; j < h; ++j) {
      EXPECT_FLOAT_EQ(static_cast<float>(twice.d_weight.get(j)),
                      static_cast<float>(2 * once.d_weight.get(j)));
      EXPECT_FLOAT_EQ(static_cast<float>(twice.d_bias.get(j)),
                      static_cast<float>(2 * once.d_bias.get(j)));
    }
  }
}

TEST(LayerNorm, RowsDoNotDependOnEachOther) {
  Case c{.options = options_of(96, f32), .n = 40};
  Trial forward(c), reversed(c);
  for (int64_t i = 0; i < 40; ++i) {
    for (int64_t j = 0; j < 96; ++j) reversed.x.set(i * 96 + j, forward.x.get((39 - i) * 96 + j));
  }
  forward.forward();
  reversed.forward();
  for (int64_t i = 0; i < 40 * 96; ++i) {
    ASSERT_EQ(reversed.y.get(i), forward.y.get((39 - i / 96) * 96 + i % 96));
  }
}

TEST(LayerNorm, NoRows) {
  Trial run({.options = options_of(64, bf16), .n = 0});
  run.forward();
  run.backward();
  for (double value : run.d_weight.values()) EXPECT_EQ(value, 0.0);
  for (double value : run.d_bias.values()) EXPECT_EQ(value, 0.0);
}

// A NaN affects only its row and the parameter gradients, with and without a residual.
TEST(LayerNorm, NotFinite) {
  for (const bool residual : {false, true}) {
    Case c{.options = {.cols = 40}, .n = 6};
    c.options.residual = residual;
    Trial run(c);
    run.x.set(45, NAN);
    run.forward();
    for (int64_t i = 0; i < 240; ++i) ASSERT_EQ(std::isnan(run.y.get(i)), i / 40 == 1) << i;
    for (int64_t i = 0; i < 6; ++i)
      ASSERT_EQ(std::isnan(run.mean.get(i)) && std::isnan(run.rstd.get(i)), i == 1) << i;
    run.backward();
    for (int64_t i = 0; i < 240; ++i) ASSERT_EQ(std::isnan(run.d_x.get(i)), i / 40 == 1) << i;
    for (int64_t j = 0; j < 40; ++j) {
      ASSERT_TRUE(std::isnan(run.d_weight.get(j))) << j;
      ASSERT_TRUE(std::isfinite(run.d_bias.get(j))) << j;
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::layer_norm_test
