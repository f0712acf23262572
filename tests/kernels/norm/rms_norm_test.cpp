#include "kernels/norm/rms_norm.h"

#include "kernels/norm/rms_norm_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::rms_norm_test {
namespace {

using kernels::Casting;
using kernels::RmsNormOptions;

constexpr double kEps = 1e-6f;

struct Case {
  RmsNormOptions options;
  int64_t n = 1;
  double offset = 0;
  int64_t gap = 0;
  double scale = 1;
  int64_t shift = 0, shift_of_results = 0;  // elements before the first row
  int64_t more_gap_of_results = 0;          // in addition to `gap`
};

std::string describe(const Case& c) {
  return std::string(name(c.options.type)) + " weight " +
         (c.options.has_weight ? name(c.options.weight_type) : "none") +
         " n=" + std::to_string(c.n) + " h=" + std::to_string(c.options.cols) + " casting " +
         std::to_string(static_cast<int>(c.options.casting)) + " offset " +
         std::to_string(c.offset) + " gap " + std::to_string(c.gap) + " shift " +
         std::to_string(c.shift) + " " + std::to_string(c.shift_of_results) +
         (c.options.residual ? " residual" : "") + (c.options.without_d_x ? " without d_x" : "");
}

Gate gate_of(const Case& c) {
  return c.options.casting == Casting::llama ? gate_e2(c.options.type) : gate_e(c.options.type);
}

// Inputs of a case and the results of the kernels.
struct Trial {
  Case c;
  Tensor x, residual, weight, y, sum, rstd;  // forward; without a residual, sum is x
  Tensor d_y, d_sum, d_x, d_weight;

  explicit Trial(const Case& c) : c(c) {
    const auto& o = c.options;
    const auto input = [&](uint64_t seed, double scale) {
      return Tensor::rows(o.type, c.n, o.cols, c.gap, c.shift)
          .fill(Random(seed).normals(c.n * o.cols, scale));
    };
    const auto result = [&] {
      return Tensor::rows(o.type, c.n, o.cols, c.gap + c.more_gap_of_results, c.shift_of_results);
    };
    x = input(1, c.scale);
    residual = input(2, c.scale);
    d_y = input(3, 1);
    d_sum = input(4, 1);
    weight = random_vector(o.weight_type, o.cols, 5, 0.5, 1.0);
    y = result();
    sum = o.residual ? result() : x;
    d_x = result();
    rstd = Tensor(f32, {c.n});
    d_weight = Tensor(o.d_weight_type, {o.cols});
  }

  Arguments common() const {
    return Arguments()
        .tensor("weight", weight)
        .tensor("rstd", rstd)
        .number("eps", kEps)
        .number("offset", c.offset);
  }
  void forward(const Tensor& sum_out) {
    backend().run(
        kernels::rms_norm_forward(machine(), c.options), c.n,
        common().tensor("y", y).tensor("x", x).tensor("residual", residual).tensor("sum", sum_out));
  }
  void forward() { forward(sum); }
  void backward(const Tensor& d_y_in, const Tensor& d_sum_in, const Tensor& d_x_out) {
    backend().run(kernels::rms_norm_backward(machine(), c.options), c.n,
                  common()
                      .tensor("d_x", d_x_out)
                      .tensor("d_y", d_y_in)
                      .tensor("d_sum", d_sum_in)
                      .tensor("x", x)
                      .tensor("sum", sum)
                      .tensor("d_weight", d_weight));
  }
  void backward() { backward(d_y, d_sum, d_x); }

  Values weights() const { return c.options.has_weight ? weight.values() : Values{}; }

  void check_forward() {
    const auto& o = c.options;
    if (o.residual) {
      Values expected(c.n * o.cols);
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] = rounded(x.get(i) + residual.get(i), o.type);
      EXPECT_TRUE(close(sum.values(), expected, {0, 0})) << "sum";
    }
    const auto expected = rms_norm_reference(sum.values(), weights(), c.n, o.cols, kEps, c.offset);
    EXPECT_TRUE(close(y.values(), expected.y, gate_of(c))) << "y";
    EXPECT_TRUE(close(rstd.values(), expected.rstd, gate_e(f32))) << "rstd";
    for (const Tensor& t : {y, sum, rstd, x}) EXPECT_TRUE(t.untouched_outside());
  }
  // In a row of one column, d_x = rstd (m - m) except for eps, so the error is relative to rstd m.
  void check_single_column(const Values& expected) {
    for (int64_t i = 0; i < c.n; ++i) {
      const double m = d_y.get(i) * (c.options.has_weight ? c.offset + weight.get(0) : 1.0);
      EXPECT_NEAR(d_x.get(i), expected[i], gate_e(c.options.type).rtol * std::fabs(rstd.get(i) * m))
          << "d_x, row " << i;
    }
  }
  void check_backward() {
    const auto& o = c.options;
    const auto expected = rms_norm_gradient_reference(d_y.values(), sum.values(), weights(),
                                                      o.with_d_sum ? d_sum.values() : Values{}, c.n,
                                                      o.cols, kEps, c.offset);
    if (o.without_d_x) {
      EXPECT_TRUE(d_x.same_bits(Tensor::rows(o.type, c.n, o.cols, c.gap))) << "d_x";
    } else if (o.cols == 1) {
      check_single_column(expected.dx);
    } else {
      EXPECT_TRUE(close(d_x.values(), expected.dx, gate_e(o.type))) << "d_x";
    }
    if (o.want_d_weight) {
      // llama adds rounded terms, for any dtype of the sum.
      const DType gate_type =
          o.casting == Casting::llama && o.d_weight_type == f32 ? o.type : o.d_weight_type;
      EXPECT_TRUE(close_normwise(d_weight.values(), expected.dw,
                                 gate_r(gate_type, c.n) * backend().summation_slack()))
          << "d_weight";
    }
    for (const Tensor& t : {d_x, d_weight, d_y}) EXPECT_TRUE(t.untouched_outside());
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

RmsNormOptions options_of(int64_t cols, DType type) {
  RmsNormOptions o;
  o.cols = cols;
  o.type = o.weight_type = type;
  return o;
}

TEST(RmsNorm, WidthsAndTypes) {
  int64_t number = 0;
  for (const auto& [h, type] : values_and_types(
           affordable({1, 7, 31, 512, 1023, 3584, 4096, 4097, 16385, 33000, 65536, 131072}, 3),
           kFloats))
    run_and_check({.options = options_of(h, type), .n = 3, .gap = gap_of(number++)});
}

TEST(RmsNorm, RowsSharedByCtas) {
  for_rows_shared_by_ctas([](DType type, int64_t n, int64_t h, int64_t gap) {
    run_and_check({.options = options_of(h, type), .n = n, .gap = gap});
  });
}

TEST(RmsNorm, SeveralRowBlocksPerProgram) {
  for_rows_in_turn([](DType type, int64_t n, int64_t h, int64_t gap) {
    run_and_check({.options = options_of(h, type), .n = n, .gap = gap});
  });
}

TEST(RmsNorm, RaggedRows) {
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

// One variant of a kernel requires contiguous rows, another rows at multiples of 16 bytes. Neither
// supports a call that mixes tensors of both kinds.
TEST(RmsNorm, RowsOfDifferentPitches) {
  constexpr int64_t kColumns = 2049, kToVectors = 7;
  for (const bool padded_inputs : {false, true}) {
    run_and_check({.options = options_of(kColumns, bf16),
                   .n = 3,
                   .gap = padded_inputs ? kToVectors : 0,
                   .more_gap_of_results = padded_inputs ? -kToVectors : kToVectors});
  }
}

// Contiguous rows do not use the generic variant. Repeated runs give the same bits, also in place.
TEST(RmsNorm, ContiguousRaggedRowsInPlace) {
  for (int64_t h : affordable({2047, 4097, 4100, 8979}, 9)) {
    for (DType type : {f32, bf16}) {
      if (16 / size_of(type) == 4 && h % 4 == 0) continue;
      Case c{.options = options_of(h, type), .n = 9};
      c.options.residual = c.options.with_d_sum = true;
      SCOPED_TRACE(describe(c));
      Trial separate(c), over_x(c), over_d_y(c);
      backend().took_generic();
      separate.forward();
      separate.backward();
      for (const std::string& name : backend().took_generic())
        EXPECT_EQ(name.find("norm"), std::string::npos) << name;
      over_x.forward(over_x.x);
      EXPECT_TRUE(over_x.x.same_bits(separate.sum) && over_x.y.same_bits(separate.y))
          << "sum over x";
      over_d_y.forward();
      over_d_y.backward(over_d_y.d_y, over_d_y.d_sum, over_d_y.d_y);
      EXPECT_TRUE(over_d_y.d_y.same_bits(separate.d_x) &&
                  over_d_y.d_weight.same_bits(separate.d_weight))
          << "d_x over d_y";
    }
  }
}

TEST(RmsNorm, AnyNumberOfRows) {
  for_any_number_of_rows([](DType type, int64_t n, int64_t h) {
    run_and_check({.options = options_of(h, type), .n = n});
  });
}

TEST(RmsNorm, ManyShortRows) {
  for (int64_t h : {8, 64, 128}) {
    run_and_check(
        {.options = options_of(h, bf16), .n = std::min<int64_t>(5003, backend().budget() / h)});
    run_and_check({.options = options_of(h, f32), .n = 131, .gap = 3});
  }
}

TEST(RmsNorm, Options) {
  for (DType type : kFloats) {
    for (Casting casting : {Casting::llama, Casting::gemma, Casting::none}) {
      for (DType weight_type : {f32, type}) {
        Case c{.options = options_of(123, type),
               .n = 15,
               .offset = casting == Casting::gemma ? 1.0 : 0.0,
               .gap = 3};
        c.options.casting = casting;
        c.options.has_offset = c.offset != 0;
        c.options.weight_type = weight_type;
        c.options.d_weight_type = casting == Casting::none ? weight_type : f32;
        run_and_check(c);
        c.options.has_weight = c.options.want_d_weight = false;
        run_and_check(c);
      }
    }
  }
}

// Without an offset, llama multiplies two 16-bit values without a conversion.
TEST(RmsNorm, NoOffsetIsOffsetZero) {
  for (DType type : kFloats) {
    for (int64_t h : affordable({123, 1024, 5120}, 3)) {
      Case c{.options = options_of(h, type), .n = 3};
      SCOPED_TRACE(describe(c));
      Trial with(c);
      c.options.has_offset = false;
      Trial without(c);
      for (Trial* trial : {&with, &without}) {
        trial->forward();
        trial->check_forward();
        trial->backward();
        trial->check_backward();
      }
      EXPECT_TRUE(with.y.same_bits(without.y) && with.d_x.same_bits(without.d_x));
      EXPECT_TRUE(with.d_weight.same_bits(without.d_weight));
    }
  }
}

TEST(RmsNorm, Residual) {
  int64_t number = 0;
  for (int64_t h : affordable({7, 512, 4097, 20488, 33000}, 5)) {
    for (DType type : kFloats) {
      Case c{.options = options_of(h, type), .n = 5, .gap = gap_of(number++)};
      c.options.residual = true;
      run_and_check(c);
      c.options.with_d_sum = true;
      c.options.casting = Casting::gemma;
      run_and_check(c);
    }
  }
}

// Only d_weight is computed, and nothing else is written. Cases: all widths, many rows, no rows.
TEST(RmsNorm, WithoutDx) {
  int64_t number = 0;
  for (int64_t h : affordable({1, 7, 64, 123, 512, 4097, 33000, 65536}, 5)) {
    for (DType type : kFloats) {
      Case c{.options = options_of(h, type), .n = 5, .gap = gap_of(number++)};
      c.options.without_d_x = true;
      c.options.residual = number % 2 == 0;
      c.options.casting = number % 3 == 0 ? Casting::llama : Casting::none;
      run_and_check(c);
    }
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
  for (double value : none.d_weight.values()) EXPECT_EQ(value, 0.0);
}

TEST(RmsNorm, WithoutDxAccumulatesAndRepeats) {
  Case c{.options = options_of(200, bf16), .n = 37};
  c.options.without_d_x = true;
  Trial once(c), twice(c);
  for (Trial* trial : {&once, &twice}) {
    trial->forward();
    trial->backward();
  }
  EXPECT_TRUE(once.d_weight.same_bits(twice.d_weight));
  twice.c.options.accumulate = true;
  twice.backward();
  for (int64_t j = 0; j < 200; ++j)
    EXPECT_FLOAT_EQ(static_cast<float>(twice.d_weight.get(j)),
                    static_cast<float>(2 * once.d_weight.get(j)));
}

TEST(RmsNorm, InPlaceIsBitEqual) {
  for (int64_t h : affordable({41, 1024, 20488, 33000}, 4)) {
    for (DType type : {f32, bf16}) {
      Case c{.options = options_of(h, type), .n = 4};
      c.options.residual = c.options.with_d_sum = true;
      SCOPED_TRACE(describe(c));
      Trial separate(c), over_x(c), over_d_y(c), over_d_sum(c);
      separate.forward();
      over_x.forward(over_x.x);
      EXPECT_TRUE(over_x.x.same_bits(separate.sum) && over_x.y.same_bits(separate.y))
          << "sum over x";
      Trial over_residual(c);
      over_residual.forward(over_residual.residual);
      EXPECT_TRUE(over_residual.residual.same_bits(separate.sum) &&
                  over_residual.y.same_bits(separate.y))
          << "sum over residual";

      separate.backward();
      for (Trial* trial : {&over_d_y, &over_d_sum}) trial->forward();
      over_d_y.backward(over_d_y.d_y, over_d_y.d_sum, over_d_y.d_y);
      EXPECT_TRUE(over_d_y.d_y.same_bits(separate.d_x) &&
                  over_d_y.d_weight.same_bits(separate.d_weight))
          << "d_x over d_y";
      over_d_sum.backward(over_d_sum.d_y, over_d_sum.d_sum, over_d_sum.d_sum);
      EXPECT_TRUE(over_d_sum.d_sum.same_bits(separate.d_x) &&
                  over_d_sum.d_weight.same_bits(separate.d_weight))
          << "over d_sum";
    }
  }
}

TEST(RmsNorm, AccumulatesAndRepeats) {
  for (int64_t h : affordable({200, 20488}, 5)) {
    Case c{.options = options_of(h, bf16), .n = h == 200 ? 37 : 5};
    Trial once(c), twice(c);
    once.forward();
    once.backward();
    twice.forward();
    twice.backward();
    EXPECT_TRUE(once.d_weight.same_bits(twice.d_weight) && once.d_x.same_bits(twice.d_x) &&
                once.y.same_bits(twice.y));

    twice.c.options.accumulate = true;
    twice.backward();
    for (int64_t j = 0; j < h; ++j) {
      EXPECT_FLOAT_EQ(static_cast<float>(twice.d_weight.get(j)),
                      static_cast<float>(2 * once.d_weight.get(j)));
    }
  }
}

// The expected numbers are the clusters that an H200 runs at a time. Machines without clusters use
// two kernels.
TEST(RmsNorm, WideBackwardFillsTheMachine) {
  const kernels::Machine h200 = kernels::gpu("sm_90a", 132, 90);
  // With 132 CTAs, each would have 31 or 32 of the 4096 rows. 128 CTAs take the same time and write
  // fewer partial sums.
  for (auto [cols, ctas, clusters] : {std::tuple(16384, 1, 128),
                                      {29568, 2, 66},
                                      {65536, 4, 30},
                                      {131072, 8, 15},
                                      {262144, 16, 7}}) {
    const kernels::Operation backward = kernels::rms_norm_backward(h200, options_of(cols, bf16));
    EXPECT_EQ(backward.steps.size(), 2u) << cols;
    EXPECT_EQ(backward.steps[0].launch.num_ctas, ctas) << cols;
    EXPECT_EQ(backward.steps[0].launch.grid_at(4096)[0], clusters) << cols;
    EXPECT_EQ(backward.workspace[0].shape[0].at(4096), clusters) << cols;
  }
  kernels::Machine without = h200;
  without.max_cluster = 1;
  EXPECT_EQ(kernels::rms_norm_backward(without, options_of(65536, bf16)).steps.size(), 3u);
}

TEST(RmsNorm, RowsDoNotDependOnEachOther) {
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

TEST(RmsNorm, NoRows) {
  Trial run({.options = options_of(64, bf16), .n = 0});
  run.forward();
  run.backward();
  for (double value : run.d_weight.values()) EXPECT_EQ(value, 0.0);
}

TEST(RmsNorm, ZeroAndLargeRows) {
  Trial zero({.options = options_of(64, f32), .n = 2, .scale = 0});
  zero.forward();
  zero.check_forward();
  run_and_check({.options = options_of(300, f32), .n = 3, .scale = 1e4});
}

// A NaN affects only its row and the gradient of the weight, with and without a residual.
TEST(RmsNorm, NotFinite) {
  for (const bool residual : {false, true}) {
    Case c{.options = options_of(40, f32), .n = 6};
    c.options.residual = residual;
    Trial run(c);
    run.x.set(45, NAN);
    run.forward();
    for (int64_t i = 0; i < 240; ++i) ASSERT_EQ(std::isnan(run.y.get(i)), i / 40 == 1) << i;
    for (int64_t i = 0; i < 6; ++i) ASSERT_EQ(std::isnan(run.rstd.get(i)), i == 1) << i;
    run.backward();
    for (int64_t i = 0; i < 240; ++i) ASSERT_EQ(std::isnan(run.d_x.get(i)), i / 40 == 1) << i;
    for (int64_t j = 0; j < 40; ++j) ASSERT_TRUE(std::isnan(run.d_weight.get(j))) << j;
  }
}

}  // namespace
}  // namespace ligerdsl::test::rms_norm_test
