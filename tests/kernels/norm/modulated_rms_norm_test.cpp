#include "kernels/norm/modulated_rms_norm.h"

#include <cmath>

#include "tests/kernels/shapes.h"
#include "tests/support/reference_call.h"

namespace ligerdsl::test::modulated_rms_norm_test {
namespace {

using kernels::Casting;
using kernels::ModulatedRmsNormOptions;

constexpr double kEps = 1e-6f, kOffset = 0.5;

struct Trial {
  ModulatedRmsNormOptions o;
  int64_t n;
  MetaValues config;  // schedule of the backward
  Tensor x, y, weight, scale, shift, rstd, d_y, d_x, d_weight, d_scale, d_shift;

  Trial(const ModulatedRmsNormOptions& o, int64_t n, int64_t gap = 0) : o(o), n(n) {
    const int64_t k = o.modulations;
    x = random_rows(o.type, n, o.cols, 1, gap);
    y = Tensor::rows(o.type, n, o.cols, gap);
    d_y = random_rows(o.type, n, o.cols, 2, gap);
    d_x = Tensor::rows(o.type, n, o.cols, gap);
    weight = random_vector(o.weight_type, o.cols, 3, 0.3, 1.0);
    scale = random_rows(o.scale_type, k, o.cols, 4, gap, 0.3);
    shift = random_rows(o.scale_type, k, o.cols, 5, gap);
    rstd = Tensor(f32, {n});
    d_weight = random_vector(o.d_weight_type, o.cols, 6);
    d_scale = random_rows(o.d_scale_type, k, o.cols, 7, gap);
    d_shift = random_rows(o.d_scale_type, k, o.cols, 8, gap);
  }
  double offset() const { return o.has_offset ? kOffset : 0; }
  Values weights() const { return o.has_weight ? weight.values() : Values(); }
  Arguments common() const {
    return Arguments()
        .tensor("x", x)
        .tensor("weight", weight)
        .tensor("scale", scale)
        .tensor("rstd", rstd)
        .number("offset", kOffset)
        .integer("rows_of_modulation", std::max<int64_t>(n / o.modulations, 1));
  }
  void forward() {
    backend().run(kernels::modulated_rms_norm_forward(machine(), o), n,
                  common().tensor("y", y).tensor("shift", shift).number("eps", kEps));
  }
  void backward(const Tensor& to) {
    const auto& kernel = kernels::modulated_rms_norm_backward_kernel;
    backend().run(kernel.build(machine(), o, kernel.chosen(machine(), o, config)), n,
                  common()
                      .tensor("d_y", d_y)
                      .tensor("d_x", to)
                      .tensor("d_weight", d_weight)
                      .tensor("d_scale", d_scale)
                      .tensor("d_shift", d_shift));
  }
  void check_sums(const char* name, const Tensor& is, const Tensor& before, bool wanted,
                  Values sums) const {
    if (!wanted) {
      EXPECT_TRUE(is.same_bits(before)) << name;
      return;
    }
    for (int64_t j = 0; o.accumulate && j < before.size(); ++j) sums[j] += before.get(j);
    // Llama's casting rounds the terms of the sum.
    const DType terms = o.casting == Casting::llama && is.type() == f32 ? o.type : is.type();
    EXPECT_TRUE(close_normwise(is.values(), sums, gate_r(terms, n) * backend().summation_slack()))
        << name;
  }
  // With llama's casting, the gradients add dy round(x rstd).
  void sum_rounded_terms(Values* dw, Values* d_scale) const {
    dw->assign(dw->size(), 0.0);
    d_scale->assign(d_scale->size(), 0.0);
    for (int64_t e = 0; e < x.size(); ++e) {
      const int64_t column = e % o.cols, at = e / o.cols / (n / o.modulations) * o.cols + column;
      const double product = d_y.get(e) * rounded(x.get(e) * rstd.get(e / o.cols), o.type);
      (*dw)[column] += product * (1 + scale.get(at));
      (*d_scale)[at] += product * (o.has_weight ? offset() + weight.get(column) : 1.0);
    }
  }
  // Llama's casting rounds the terms of y, and the shift may cancel them. Errors are relative to
  // the terms.
  void check_y(const Values& right) const {
    if (o.casting != Casting::llama) {
      EXPECT_TRUE(close(y.values(), right, gate_e(o.type))) << "y";
      return;
    }
    for (int64_t e = 0; e < y.size(); ++e) {
      const int64_t at = e / o.cols / (n / o.modulations) * o.cols + e % o.cols;
      const double added = o.has_shift ? shift.get(at) : 0,
                   terms = std::fabs(right[e] - added) + std::fabs(added);
      ASSERT_NEAR(y.get(e), right[e], gate_e2(o.type).rtol * terms + kHalfSubnormalF16)
          << "y, element " << e;
    }
  }
  void check() {
    SCOPED_TRACE(std::string(name(o.type)) + " scale " + name(o.scale_type) + " weight " +
                 name(o.weight_type) + " n=" + std::to_string(n) +
                 " k=" + std::to_string(o.modulations) + " h=" + std::to_string(o.cols));
    const std::map<std::string, double> numbers = {
        {"N", n}, {"H", o.cols}, {"eps", kEps}, {"offset", offset()}};
    const auto right = expected_of("modulated_rms_norm_forward", numbers,
                                   {{"x", x.values()},
                                    {"weight", weights()},
                                    {"scale", scale.values()},
                                    {"shift", o.has_shift ? shift.values() : Values()}});
    forward();
    check_y(right.at("y"));
    if (o.with_rstd) {
      EXPECT_TRUE(close(rstd.values(), right.at("rstd"), gate_e(f32))) << "rstd";
    }
    rstd.fill(right.at("rstd"));
    auto g = expected_of("modulated_rms_norm_backward", numbers,
                         {{"d_y", d_y.values()},
                          {"x", x.values()},
                          {"weight", weights()},
                          {"scale", scale.values()},
                          {"rstd", rstd.values()}},
                         {"d_weight", "d_scale", "d_shift"});
    if (o.casting == Casting::llama) sum_rounded_terms(&g["d_weight"], &g["d_scale"]);
    const Tensor nothing = d_x.clone(), weight_before = d_weight.clone(),
                 scale_before = d_scale.clone(), shift_before = d_shift.clone();
    backward(d_x);
    if (o.without_d_x) {
      EXPECT_TRUE(d_x.same_bits(nothing)) << "d_x";
    } else if (o.cols == 1) {  // terms cancel except for eps
      for (int64_t i = 0; i < n; ++i)
        EXPECT_NEAR(d_x.get(i), g["d_x"][i],
                    gate_e(o.type).rtol * rstd.get(i) * (std::fabs(d_y.get(i) * 4) + 1))
            << "d_x " << i;
    } else {
      EXPECT_TRUE(close(d_x.values(), g["d_x"], gate_e(o.type))) << "d_x";
    }
    check_sums("d_weight", d_weight, weight_before, o.want_d_weight, g["d_weight"]);
    check_sums("d_scale", d_scale, scale_before, o.want_d_scale, g["d_scale"]);
    check_sums("d_shift", d_shift, shift_before, o.want_d_shift, g["d_shift"]);
    for (const Tensor& t : {x, y, rstd, d_x, d_y, d_weight, d_scale, d_shift, scale, shift})
      EXPECT_TRUE(t.untouched_outside());
  }
};

ModulatedRmsNormOptions options_of(int64_t cols, int64_t modulations, DType type) {
  ModulatedRmsNormOptions o;
  o.cols = cols;
  o.modulations = modulations;
  o.type = o.weight_type = o.scale_type = type;
  return o;
}

TEST(ModulatedRmsNorm, WidthsAndTypes) {
  int64_t number = 0;
  for (const auto& [h, type] : values_and_types(
           affordable({1, 7, 64, 123, 1024, 1152, 4097, 8192, 20000, 33000}, 4), kFloats))
    Trial(options_of(h, 2, type), 4, gap_of(number++)).check();
}

TEST(ModulatedRmsNorm, RowsSharedByCtas) {
  for_rows_shared_by_ctas([](DType type, int64_t n, int64_t h, int64_t gap) {
    Trial(options_of(h, n, type), n, gap).check();
  });
}

// Cases: one modulation for all rows, one per row, more modulations than programs.
TEST(ModulatedRmsNorm, NumbersOfModulations) {
  for (auto [n, k] :
       {std::pair<int64_t, int64_t>{60, 1}, {60, 3}, {60, 60}, {612, 204}, {612, 612}, {1300, 2}}) {
    for (DType type : {bf16, f32}) {
      for (int64_t h : {40, 200})
        if (n * h <= backend().budget()) Trial(options_of(h, k, type), n, 8).check();
    }
  }
}

TEST(ModulatedRmsNorm, Castings) {
  for (Casting casting : {Casting::llama, Casting::gemma, Casting::none}) {
    for (DType type : kFloats) {
      for (DType scale_type : {f32, type}) {
        for (bool has_weight : {false, true}) {
          ModulatedRmsNormOptions o = options_of(123, 3, type);
          o.casting = casting;
          o.scale_type = scale_type;
          o.has_weight = o.want_d_weight = has_weight;
          o.has_offset = casting == Casting::gemma;
          o.has_shift = casting != Casting::none;
          o.weight_type = has_weight ? type : f32;
          o.d_weight_type = o.weight_type;
          o.d_scale_type = scale_type;
          Trial(o, 15, 3).check();
        }
      }
    }
  }
}

TEST(ModulatedRmsNorm, Parameters) {
  for (DType type : {bf16, f32}) {
    for (int set = 1; set < 16; ++set) {
      ModulatedRmsNormOptions o = options_of(200, 2, type);
      o.want_d_weight = set & 1;
      o.want_d_scale = set & 2;
      o.want_d_shift = set & 4;
      o.without_d_x = (set & 8) && (set & 7);
      o.with_rstd = !o.want_d_shift;
      o.accumulate = o.want_d_scale;
      Trial(o, 38, 8).check();
    }
  }
}

// One kernel computes column sums by blocks of columns, another computes d_x.
TEST(ModulatedRmsNorm, ByColumns) {
  int64_t number = 0;
  for (int64_t h : affordable({300, 1024, 5000}, 12)) {
    for (DType type : kFloats) {
      for (int64_t k : {1, 3, 12}) {
        Trial run(options_of(h, k, type), 12, gap_of(number++));
        run.config = {{"by", "columns"}, {"num_warps", "1"}, {"vectors", "1"}, {"num_ctas", "1"}};
        run.o.without_d_x = number % 4 == 0;
        run.check();
      }
    }
  }
}

// Tiles are wider than the rows.
TEST(ModulatedRmsNorm, PaddedTiles) {
  int64_t number = 0;
  for (int64_t h : affordable({1152, 2560, 3072}, 12)) {
    for (DType type : kFloats) {
      Trial run(options_of(h, 3, type), 12, gap_of(number++));
      run.config = {{"padded", "true"}};
      run.check();
    }
  }
}

// With more modulations than programs, each program has several, and the schedule differs.
TEST(ModulatedRmsNorm, SeveralModulationsPerProgram) {
  const int64_t k = machine().is_gpu() ? 2 * machine().sms + 1 : 9;
  int64_t number = 0;
  for (int64_t h : affordable({1152, 2560, 3072}, k)) {
    Trial(options_of(h, k, bf16), k, gap_of(number++)).check();
    if (2 * k * h <= backend().budget())
      Trial(options_of(h, k, bf16), 2 * k, gap_of(number++)).check();
  }
}

// The number of rows per iteration may divide the rows of a program or not. It does not change the
// order of the additions.
TEST(ModulatedRmsNorm, RowsPerIteration) {
  for (auto [n, k] : {std::pair<int64_t, int64_t>{60, 3}, {612, 204}, {1302, 2}, {7, 1}}) {
    for (DType type : {bf16, f32}) {
      if (n * 200 > backend().budget()) continue;
      Trial one(options_of(200, k, type), n, 8);
      one.forward();
      one.backward(one.d_x);
      for (const char* rows : {"2", "4"}) {
        Trial run(options_of(200, k, type), n, 8), over(options_of(200, k, type), n, 8);
        run.config = over.config = {{"rows_per_iteration", rows}};
        run.check();
        over.forward();
        over.backward(over.d_y);
        EXPECT_TRUE(over.d_y.same_bits(one.d_x) && over.d_weight.same_bits(one.d_weight) &&
                    over.d_scale.same_bits(one.d_scale) && over.d_shift.same_bits(one.d_shift))
            << rows << " rows, n=" << n << " k=" << k << " " << name(type);
      }
    }
  }
}

TEST(ModulatedRmsNorm, NoRows) {
  for (bool accumulate : {false, true}) {
    ModulatedRmsNormOptions o = options_of(64, 2, f32);
    o.accumulate = accumulate;
    Trial run(o, 0);
    const Values weight = run.d_weight.values(), scale = run.d_scale.values();
    run.forward();
    run.backward(run.d_x);
    EXPECT_EQ(run.d_weight.values(), accumulate ? weight : Values(64, 0.0));
    EXPECT_EQ(run.d_scale.values(), accumulate ? scale : Values(128, 0.0));
  }
}

TEST(ModulatedRmsNorm, InPlaceAndRepeatedRunsAreBitEqual) {
  for (int64_t h : affordable({100, 20000}, 4)) {
    for (DType type : kFloats) {
      Trial separate(options_of(h, 2, type), 4, 8), over(options_of(h, 2, type), 4, 8);
      separate.forward();
      over.forward();
      separate.backward(separate.d_x);
      over.backward(over.d_y);
      EXPECT_TRUE(over.d_y.same_bits(separate.d_x)) << name(type);
      EXPECT_TRUE(over.d_weight.same_bits(separate.d_weight) &&
                  over.d_scale.same_bits(separate.d_scale) &&
                  over.d_shift.same_bits(separate.d_shift))
          << name(type);
    }
  }
}

// A NaN affects only its row and the gradients of its modulation and of the weight.
TEST(ModulatedRmsNorm, NotFinite) {
  Trial run(options_of(40, 2, f32), 6);
  run.x.set(45, NAN);
  run.forward();
  for (int64_t i = 0; i < 240; ++i) ASSERT_EQ(std::isnan(run.y.get(i)), i / 40 == 1) << i;
  run.backward(run.d_x);
  for (int64_t i = 0; i < 240; ++i) ASSERT_EQ(std::isnan(run.d_x.get(i)), i / 40 == 1) << i;
  for (int64_t i = 0; i < 80; ++i) ASSERT_EQ(std::isnan(run.d_scale.get(i)), i < 40) << i;
}

}  // namespace
}  // namespace ligerdsl::test::modulated_rms_norm_test
