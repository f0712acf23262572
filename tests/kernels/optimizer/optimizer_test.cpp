#include <limits>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/global_norm.h"
#include "tests/kernels/shapes.h"
#include "tests/support/reference_call.h"

namespace ligerdsl::test::optimizer_test {
namespace {

// Elements between the beginning of a vector and each tensor.
struct Shifts {
  int64_t p = 0, m = 0, v = 0, copy = 0, g = 0;
};

struct Step {
  kernels::AdamwOptions o;
  int64_t n = 1000, t = 1;
  float lr = 1e-2f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weight_decay = 0.1f, clip = 1.0f;
  Shifts shifts = {};
};

Tensor shifted(const Tensor& values, int64_t shift) {
  Tensor tensor(values.type(), values.shape(), {}, shift);
  return tensor.fill(values.values());
}

Tensor zeros(DType type, int64_t n) {
  return Tensor(type, {n}).fill(Values(static_cast<size_t>(n), 0.0));
}

void check(const Step& s) {
  SCOPED_TRACE(std::string(name(s.o.type)) + " n=" + std::to_string(s.n) +
               " t=" + std::to_string(s.t) + (s.o.device_step ? " device" : "") + " p+" +
               std::to_string(s.shifts.p) + " m+" + std::to_string(s.shifts.m) + " v+" +
               std::to_string(s.shifts.v) + " g+" + std::to_string(s.shifts.g));
  Tensor p = shifted(random_vector(s.o.type, s.n, 1), s.shifts.p),
         g = shifted(random_vector(s.o.gradient_type, s.n, 2, 0.1), s.shifts.g),
         m = shifted(random_vector(f32, s.n, 3, 0.1), s.shifts.m), v(f32, {s.n}, {}, s.shifts.v),
         copy(s.o.copy_type, {s.n}, {}, s.shifts.copy);
  Values squares = Random(4).normals(s.n, 0.1);
  for (double& value : squares) value *= value;
  v.fill(squares);
  const auto expected = expected_of("adamw_step",
                                    {{"lr", s.lr},
                                     {"beta1", s.beta1},
                                     {"beta2", s.beta2},
                                     {"eps", s.eps},
                                     {"weight_decay", s.weight_decay},
                                     {"step", s.t}},
                                    {{"param", p.values()},
                                     {"m", m.values()},
                                     {"v", v.values()},
                                     {"grad", g.values()},
                                     {"clip_factor", s.o.with_clip ? Values{s.clip} : Values()}});

  Arguments args;
  args.tensor("parameter", p)
      .tensor("m", m)
      .tensor("v", v)
      .tensor("copy", copy)
      .tensor("gradient", g)
      .tensor("clip", Tensor(f32, {1}).fill(Values{s.clip}))
      .tensor("skip", zeros(s.o.skip_type, 1))
      .number("beta1", s.beta1)
      .number("beta2", s.beta2)
      .number("eps", s.eps)
      .number("weight_decay", s.weight_decay);
  if (s.o.device_step) {
    args.tensor("lr", Tensor(f32, {1}).fill(Values{s.lr}))
        .tensor("step", Tensor(i64, {1}).fill(std::vector<int64_t>{s.t}))
        .tensor("error", zeros(i64, 1));
  } else {
    args.number("lr", s.lr)
        .number("bias1",
                1.0 / (1.0 - std::pow(static_cast<double>(s.beta1), static_cast<double>(s.t))))
        .number("bias2", 1.0 / std::sqrt(1.0 - std::pow(static_cast<double>(s.beta2),
                                                        static_cast<double>(s.t))));
  }
  backend().run(kernels::adamw(machine(), s.o), s.n, args);
  EXPECT_TRUE(close(p.values(), expected.at("param"), gate_e(s.o.type))) << "parameter";
  EXPECT_TRUE(close(m.values(), expected.at("m"), gate_e(f32))) << "m";
  EXPECT_TRUE(close(v.values(), expected.at("v"), gate_e(f32))) << "v";
  if (s.o.with_copy) {
    EXPECT_TRUE(close(copy.values(), expected.at("param"), gate_e(s.o.copy_type))) << "copy";
  }
  for (const Tensor& t : {p, m, v, copy, g}) EXPECT_TRUE(t.untouched_outside());
}

TEST(Adamw, TypesAndSteps) {
  for (DType type : kFloats) {
    for (int64_t t : {1, 2, 10, 1000, 100000}) {
      check({.o = {.type = type, .gradient_type = type}, .t = t});
      check({.o = {.type = type, .gradient_type = f32, .device_step = true}, .t = t});
    }
  }
}

TEST(Adamw, MasterCopyAndClip) {
  check({.o = {.gradient_type = bf16, .with_copy = true, .with_clip = true},
         .n = 4097,
         .clip = 0.25f});
  check({.o = {.with_copy = true, .copy_type = f16, .with_clip = true, .device_step = true},
         .n = 1,
         .t = 7,
         .clip = 0.5f});
}

TEST(Adamw, StepIsTakenWhereTheSkipFlagIsZero) {
  check({.o = {.type = bf16, .gradient_type = bf16, .with_skip = true}, .n = 4097});
  check(
      {.o = {.with_copy = true, .device_step = true, .with_skip = true, .skip_type = f32}, .t = 7});
}

// Each tensor begins at another element of a 16-byte vector. The sizes end inside the first block,
// at the end of a block and just after it.
TEST(Adamw, AddressesInsideVectors) {
  const Shifts all[] = {{1, 1, 1, 1, 1}, {2, 1, 1, 2, 2}, {4, 2, 2, 4, 4},
                        {7, 3, 2, 5, 6}, {0, 3, 0, 1, 3}, {3, 0, 1, 0, 0}};
  for (const Shifts& shifts : all) {
    for (int64_t n : {1, 3, 8, 1001, 2045, 2046, 2047, 2048, 2053, 4094, 4097}) {
      check({.o = {.type = bf16, .gradient_type = bf16}, .n = n, .t = 3, .shifts = shifts});
    }
    check({.o = {.gradient_type = bf16, .with_copy = true, .with_clip = true},
           .n = 4099,
           .clip = 0.25f,
           .shifts = shifts});
    check({.n = 3075, .shifts = shifts});
    check(
        {.o = {.type = f16, .gradient_type = f32, .with_skip = true}, .n = 2051, .shifts = shifts});
  }
}

TEST(Adamw, EmptyTensor) {
  check({.n = 0});
}

// Parameter, m, v and copy before and after a step with an infinite gradient, and the error flag.
struct Left {
  std::vector<Values> before, after;
  int64_t error;
};

Left step_with_infinite_gradient(const kernels::AdamwOptions& o, double skip, int64_t step) {
  const int64_t n = 1000;
  const Tensor p = random_vector(o.type, n, 1), m = random_vector(f32, n, 3), v = zeros(f32, n),
               copy = random_vector(o.copy_type, n, 5), error = zeros(i64, 1);
  Tensor g = random_vector(o.gradient_type, n, 2);
  g.set(7, INFINITY);
  Tensor flag(o.skip_type, {1});
  flag.set(0, skip);
  Left left;
  const auto values = [&] {
    return std::vector<Values>{p.values(), m.values(), v.values(), copy.values()};
  };
  left.before = values();
  Arguments args;
  args.tensor("parameter", p)
      .tensor("m", m)
      .tensor("v", v)
      .tensor("copy", copy)
      .tensor("gradient", g)
      .tensor("clip", Tensor(f32, {1}).fill(Values{0.0}))
      .tensor("skip", flag)
      .tensor("error", error)
      .number("beta1", 0.9)
      .number("beta2", 0.999)
      .number("eps", 1e-8)
      .number("weight_decay", 0.1);
  if (o.device_step)
    args.tensor("lr", Tensor(f32, {1}).fill(Values{1e-3}))
        .tensor("step", Tensor(i64, {1}).fill(std::vector<int64_t>{step}));
  else
    args.number("lr", 1e-3).number("bias1", 10.0).number("bias2", 31.6);
  backend().run(kernels::adamw(machine(), o), n, args);
  left.after = values();
  left.error = error.get_integer(0);
  return left;
}

bool has_nan(const std::vector<Values>& all) {
  return std::ranges::any_of(all, [](const Values& values) {
    return std::ranges::any_of(values, [](double x) { return std::isnan(x); });
  });
}

TEST(Adamw, SkipFlagLeavesEverythingUnchanged) {
  for (const DType skip_type : {i32, f32})
    for (const bool device_step : {false, true}) {
      const kernels::AdamwOptions o{.type = bf16,
                                    .gradient_type = bf16,
                                    .with_copy = true,
                                    .with_clip = true,
                                    .device_step = device_step,
                                    .with_skip = true,
                                    .skip_type = skip_type};
      const Left skipped = step_with_infinite_gradient(o, 1, 3),
                 taken = step_with_infinite_gradient(o, 0, 3);
      EXPECT_EQ(skipped.before, skipped.after);
      EXPECT_TRUE(has_nan(taken.after))
          << "an infinite gradient makes results NaN if the step is taken";
      EXPECT_EQ(skipped.error, 0);
    }
  const kernels::AdamwOptions scaler{.with_skip = true, .skip_type = f32};
  const Left unknown = step_with_infinite_gradient(scaler, NAN, 1);
  EXPECT_EQ(unknown.before, unknown.after) << "a NaN flag skips the step";
}

TEST(Adamw, DeviceStepBelowOneIsReportedAndLeavesEverythingUnchanged) {
  for (const int64_t step : {int64_t{0}, int64_t{-5}}) {
    const Left left =
        step_with_infinite_gradient({.with_copy = true, .device_step = true}, 0, step);
    EXPECT_EQ(left.before, left.after);
    EXPECT_EQ(left.error, kernels::kErrorBase);
  }
  const Left skipped = step_with_infinite_gradient({.device_step = true, .with_skip = true}, 1, 0);
  EXPECT_EQ(skipped.before, skipped.after);
  EXPECT_EQ(skipped.error, 0) << "the device step is 0 until the first step that is not skipped";
}

struct Norm {
  double norm, factor;
  int64_t nonfinite, steps, skipped;
};

Norm norm_of(const std::vector<Tensor>& tensors, double max_norm) {
  int64_t parts = 0;
  for (const Tensor& t : tensors) parts += kernels::sum_of_squares_programs().at(t.size());
  Tensor partials(f32, {parts, 2}), norm(f32, {1}), factor(f32, {1}), nonfinite(i32, {1}),
      steps = zeros(i64, 1), skipped = zeros(i64, 1);
  int64_t first = 0;
  for (const Tensor& t : tensors) {
    const int64_t count = kernels::sum_of_squares_programs().at(t.size());
    backend().run(kernels::sum_of_squares(machine(), {t.type()}), t.size(),
                  Arguments().tensor("x", t).tensor("partials",
                                                    partials.view({count, 2}, {2, 1}, 2 * first)));
    first += count;
  }
  backend().run(kernels::finish_norm(machine(), {.counts_steps = true, .counts_skipped = true}), 1,
                Arguments()
                    .tensor("norm", norm)
                    .tensor("factor", factor)
                    .tensor("nonfinite", nonfinite)
                    .tensor("steps", steps)
                    .tensor("skipped", skipped)
                    .tensor("partials", partials)
                    .number("max_norm", max_norm));
  EXPECT_TRUE(partials.untouched_outside() && norm.untouched_outside());
  return {norm.get(0), factor.get(0), nonfinite.get_integer(0), steps.get_integer(0),
          skipped.get_integer(0)};
}

TEST(GlobalNorm, ListsOfTensors) {
  std::vector<Tensor> tensors;
  double squares = 0;
  uint64_t seed = 1;
  for (DType type : {f32, bf16, f16}) {
    for (int64_t n : affordable({1, 300, 4096, 65537, 200000}, 1)) {
      tensors.push_back(random_vector(type, n, seed++));
      for (double value : tensors.back().values()) squares += value * value;
    }
  }
  const double expected = std::sqrt(squares);
  const Norm got = norm_of(tensors, 1.0);
  EXPECT_NEAR(got.norm, expected, 2e-6 * expected);
  EXPECT_NEAR(got.factor, 1.0 / (expected + 1e-6), 2e-6 / expected);
  EXPECT_EQ(got.nonfinite, 0);
  EXPECT_EQ(got.steps, 1);
  EXPECT_EQ(got.skipped, 0);
  EXPECT_EQ(norm_of(tensors, 1e9).factor, 1.0);
  EXPECT_EQ(norm_of(tensors, 1.0).norm, got.norm) << "two runs differ";
}

// Computes the norm in long double, whose range holds the square of every f32.
double norm_reference(const std::vector<Tensor>& tensors) {
  long double squares = 0;
  for (const Tensor& t : tensors)
    for (const double value : t.values()) squares += static_cast<long double>(value) * value;
  return static_cast<double>(std::sqrt(squares));
}

void expect_norm(const std::vector<Tensor>& tensors, const char* what) {
  const double expected = norm_reference(tensors), half_denormal = std::ldexp(1.0, -150);
  const Norm got = norm_of(tensors, 1.0);
  EXPECT_NEAR(got.norm, expected, 2e-6 * expected + half_denormal) << what;
  const double factor = std::min(1.0, 1.0 / (expected + 1e-6));
  EXPECT_NEAR(got.factor, factor, 3e-6 * factor + half_denormal) << what;
  EXPECT_EQ(got.nonfinite, 0) << what;
}

TEST(GlobalNorm, CoversTheWholeRangeOfFloats) {
  for (const double scale :
       {1e-44, 1e-40, 1e-30, 1e-23, 1e-19, 1e-10, 1e9, 1e13, 1e18, 1e25, 1e30, 1e35}) {
    const std::string what = "scale " + std::to_string(std::log10(scale));
    expect_norm({random_vector(f32, 5000, 1, scale)}, what.c_str());
    expect_norm({random_vector(f32, 70000, 1, scale), random_vector(bf16, 300, 2, scale)},
                what.c_str());
  }
  const double most = std::numeric_limits<float>::max(), least = std::ldexp(1.0, -149);
  Tensor one = zeros(f32, 5000);
  for (const double value : {most, least, 3 * least, 1e-30, 1e30}) {
    one.set(4321, value);
    expect_norm({one}, "one element that is not 0");
  }
}

// The three kinds of partial sums are for small, usual and large elements. Combines each kind with
// each other kind. There are more small elements than large ones.
TEST(GlobalNorm, MixesMagnitudes) {
  Tensor one_large = random_vector(f32, 5000, 1, 1e-30);
  one_large.set(17, 1e30);
  expect_norm({one_large}, "one element of 1e30 among 1e-30");
  for (const double large : {1e30, 2e13, 1.0, 1e-14, 3e-16, 1e-30})
    for (const double ratio : {1.0, 1e-1, 1e-2, 1e-4}) {
      const std::string what =
          std::to_string(std::log10(large)) + " and " + std::to_string(std::log10(large * ratio));
      expect_norm({random_vector(f32, 200, 3, large), random_vector(f32, 70000, 4, large * ratio)},
                  what.c_str());
    }
  expect_norm({random_vector(f32, 300, 1, 1e25), random_vector(f32, 300, 2, 1.0),
               random_vector(f32, 300, 3, 1e-35)},
              "all three");
}

TEST(GlobalNorm, ReportsNanAndInfinity) {
  for (double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    for (DType type : kFloats) {
      Tensor a = random_vector(type, 500, 1, type == f16 ? 1 : 1e30),
             b = random_vector(type, 70, 2);
      b.set(69, bad);
      const Norm got = norm_of({a, b}, 1.0);
      EXPECT_FALSE(std::isfinite(got.norm));
      EXPECT_EQ(got.nonfinite, 1);
      EXPECT_EQ(got.steps, 0);
      EXPECT_EQ(got.skipped, 1);
    }
  }
  const Tensor most = Tensor(f32, {2}).fill(Values(2, std::numeric_limits<float>::max()));
  EXPECT_EQ(norm_of({most}, 1.0).nonfinite, 1) << "the norm exceeds the range of f32";
  EXPECT_EQ(norm_of({Tensor(f32, {0})}, 1.0).norm, 0.0);
  EXPECT_EQ(norm_of({zeros(f32, 70000)}, 1.0).norm, 0.0);
}

}  // namespace
}  // namespace ligerdsl::test::optimizer_test
