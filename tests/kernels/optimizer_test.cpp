#include "kernels/adamw.h"
#include "kernels/global_norm.h"
#include "kernels/oracle/elementwise.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test {
namespace {

struct Step {
  kernels::AdamwOptions o;
  int64_t n = 1000, t = 1;
  float lr = 1e-2f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weight_decay = 0.1f, clip = 1.0f;
};

void check(const Step& s) {
  SCOPED_TRACE(std::string(name(s.o.type)) + " n=" + std::to_string(s.n) + " t=" + std::to_string(s.t) +
               (s.o.device_step ? " device" : ""));
  Tensor p = random_vector(s.o.type, s.n, 1), g = random_vector(s.o.gradient_type, s.n, 2, 0.1);
  Tensor m = random_vector(f32, s.n, 3, 0.1), v(f32, {s.n}), copy(s.o.copy_type, {s.n});
  Values squares = Random(4).normals(s.n, 0.1);
  for (double& value : squares) value *= value;
  v.fill(squares);
  const AdamwState expected =
      adamw_oracle({p.values(), m.values(), v.values()}, g.values(), s.o.with_clip ? s.clip : 1.0, s.lr, s.beta1,
                   s.beta2, s.eps, s.weight_decay, s.t);

  Arguments args;
  args.tensor("parameter", p)
      .tensor("m", m)
      .tensor("v", v)
      .tensor("copy", copy)
      .tensor("gradient", g)
      .tensor("clip", Tensor(f32, {1}).fill(Values{s.clip}))
      .number("beta1", s.beta1)
      .number("beta2", s.beta2)
      .number("eps", s.eps)
      .number("weight_decay", s.weight_decay);
  if (s.o.device_step) {
    args.tensor("lr", Tensor(f32, {1}).fill(Values{s.lr}))
        .tensor("step", Tensor(i64, {1}).fill(std::vector<int64_t>{s.t}));
  } else {
    args.number("lr", s.lr)
        .number("bias1", 1.0 / (1.0 - std::pow(static_cast<double>(s.beta1), static_cast<double>(s.t))))
        .number("bias2", 1.0 / std::sqrt(1.0 - std::pow(static_cast<double>(s.beta2), static_cast<double>(s.t))));
  }
  backend().run(kernels::adamw(machine(), s.o), s.n, args);
  EXPECT_TRUE(close(p.values(), expected.p, gate_e(s.o.type))) << "parameter";
  EXPECT_TRUE(close(m.values(), expected.m, gate_e(f32))) << "m";
  EXPECT_TRUE(close(v.values(), expected.v, gate_e(f32))) << "v";
  if (s.o.with_copy) {
    EXPECT_TRUE(close(copy.values(), expected.p, gate_e(s.o.copy_type))) << "copy";
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
  check({.o = {.gradient_type = bf16, .with_copy = true, .with_clip = true}, .n = 4097, .clip = 0.25f});
  check({.o = {.with_copy = true, .copy_type = f16, .with_clip = true, .device_step = true},
         .n = 1,
         .t = 7,
         .clip = 0.5f});
}

TEST(Adamw, Nothing) {
  check({.n = 0});
}

struct Norm {
  double norm, factor;
  int64_t nonfinite;
};

Norm norm_of(const std::vector<Tensor>& tensors, double max_norm) {
  int64_t parts = 0;
  for (const Tensor& t : tensors) parts += kernels::sum_of_squares_programs().at(t.size());
  Tensor partials(f32, {parts}), norm(f32, {1}), factor(f32, {1}), nonfinite(i32, {1});
  int64_t first = 0;
  for (const Tensor& t : tensors) {
    const int64_t count = kernels::sum_of_squares_programs().at(t.size());
    backend().run(kernels::sum_of_squares(machine(), t.type()), t.size(),
                  Arguments().tensor("x", t).tensor("partials", partials.view({count}, {1}, first)));
    first += count;
  }
  backend().run(kernels::finish_norm(machine()), 1,
                Arguments()
                    .tensor("norm", norm)
                    .tensor("factor", factor)
                    .tensor("nonfinite", nonfinite)
                    .tensor("partials", partials)
                    .number("max_norm", max_norm));
  EXPECT_TRUE(partials.untouched_outside() && norm.untouched_outside());
  return {norm.get(0), factor.get(0), nonfinite.get_integer(0)};
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
  EXPECT_EQ(norm_of(tensors, 1e9).factor, 1.0);
  EXPECT_EQ(norm_of(tensors, 1.0).norm, got.norm) << "two runs differ";
}

TEST(GlobalNorm, ReportsNanAndInfinity) {
  for (double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    for (DType type : kFloats) {
      Tensor a = random_vector(type, 500, 1), b = random_vector(type, 70, 2);
      b.set(69, bad);
      const Norm got = norm_of({a, b}, 1.0);
      EXPECT_FALSE(std::isfinite(got.norm));
      EXPECT_EQ(got.nonfinite, 1);
    }
  }
  EXPECT_EQ(norm_of({Tensor(f32, {0})}, 1.0).norm, 0.0);
}

}  // namespace
}  // namespace ligerdsl::test
