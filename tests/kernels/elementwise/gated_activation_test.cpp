#include "kernels/elementwise/gated_activation.h"

#include "kernels/elementwise/gated_activation_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::gated_activation_test {
namespace {

using kernels::Activation;

struct Trial {
  Activation activation;
  DType type;
  int64_t n, f;
  double gamma, delta;
  Tensor gate, up, out, d_out, d_gate, d_up;

  Trial(Activation activation, DType type, int64_t n, int64_t f, int64_t gap, double gamma = 1,
        double delta = 1)
      : activation(activation),
        type(type),
        n(n),
        f(f),
        gamma(static_cast<float>(gamma)),
        delta(static_cast<float>(delta)) {
    gate = random_rows(type, n, f, 1, gap, 2.0);
    up = random_rows(type, n, f, 2, gap);
    d_out = random_rows(type, n, f, 3, gap);
    out = Tensor::rows(type, n, f, gap);
    d_gate = Tensor::rows(type, n, f, gap);
    d_up = Tensor::rows(type, n, f, gap);
  }
  bool silu() const { return activation == Activation::silu; }
  kernels::GatedOptions options() const { return {.cols = f, .type = type}; }
  Arguments common() const {
    Arguments arguments = Arguments().tensor("gate", gate).tensor("up", up);
    if (silu()) arguments.number("gate_multiplier", gamma).number("down_multiplier", delta);
    return arguments;
  }
  void forward() {
    backend().run((silu() ? kernels::swiglu_forward : kernels::geglu_forward)(machine(), options()),
                  n, common().tensor("out", out));
  }
  void backward(const Tensor& to_gate, const Tensor& to_up) {
    backend().run(
        (silu() ? kernels::swiglu_backward : kernels::geglu_backward)(machine(), options()), n,
        common().tensor("d_out", d_out).tensor("d_gate", to_gate).tensor("d_up", to_up));
  }
  void check() {
    SCOPED_TRACE(std::string(silu() ? "silu " : "gelu ") + name(type) + " n=" + std::to_string(n) +
                 " f=" + std::to_string(f));
    const Values a = gate.values(), b = up.values(), c = d_out.values();
    forward();
    EXPECT_TRUE(close(out.values(),
                      silu() ? swiglu_reference(a, b, gamma, delta) : geglu_reference(a, b),
                      gate_e2(type)))
        << "out";
    backward(d_gate, d_up);
    const auto expected = silu() ? swiglu_gradient_reference(c, a, b, gamma, delta)
                                 : geglu_gradient_reference(c, a, b);
    EXPECT_TRUE(close(d_gate.values(), expected.d_gate, gate_e2(type))) << "d_gate";
    EXPECT_TRUE(close(d_up.values(), expected.d_up, gate_e2(type))) << "d_up";
    for (const Tensor& t : {out, d_gate, d_up}) EXPECT_TRUE(t.untouched_outside());
  }
};

class Gated : public ::testing::TestWithParam<Activation> {};

TEST_P(Gated, WidthsAndTypes) {
  int64_t number = 0;
  for (const auto& [f, type] :
       values_and_types(affordable({1, 8, 41, 431, 512, 4096, 4097, 11008, 32768}, 4), kFloats))
    Trial(GetParam(), type, 4, f, gap_of(number++)).check();
  Trial(GetParam(), bf16, 300, 24, 0).check();
}

TEST_P(Gated, InPlaceIsBitEqual) {
  for (DType type : kFloats) {
    Trial separate(GetParam(), type, 5, 333, 8), over(GetParam(), type, 5, 333, 8);
    separate.backward(separate.d_gate, separate.d_up);
    over.backward(over.gate, over.up);
    EXPECT_TRUE(over.gate.same_bits(separate.d_gate) && over.up.same_bits(separate.d_up))
        << name(type);
  }
}

TEST_P(Gated, FusedLayout) {
  const int64_t n = 6, f = 90,
                stride = 2 * f + 7;  // gate and up are the halves of the rows of one tensor
  Trial separate(GetParam(), bf16, n, f, 0), fused(GetParam(), bf16, n, f, 0);
  Tensor both(bf16, {n, 2 * f}, {stride, 1});
  fused.gate = both.view({n, f}, {stride, 1});
  fused.up = both.view({n, f}, {stride, 1}, f);
  fused.gate.fill(separate.gate.values());
  fused.up.fill(separate.up.values());
  separate.forward();
  fused.forward();
  EXPECT_TRUE(fused.out.same_bits(separate.out));
  separate.backward(separate.d_gate, separate.d_up);
  fused.backward(fused.gate, fused.up);  // in place
  EXPECT_TRUE(fused.gate.same_bits(separate.d_gate) && fused.up.same_bits(separate.d_up));
  EXPECT_TRUE(both.untouched_outside());
}

TEST_P(Gated, LargeInputsStayFinite) {
  for (DType type : {f32, bf16}) {
    const double huge = 0x1p100;
    Trial run(GetParam(), type, 1, 8, 0);
    run.gate.fill(Values{1e4, -1e4, 88.8, -88.8, 0.0, -200.0, huge, -huge});
    run.forward();
    run.backward(run.d_gate, run.d_up);
    for (const Tensor& t : {run.out, run.d_gate, run.d_up}) {
      for (double value : t.values()) EXPECT_TRUE(std::isfinite(value));
    }
    run.gate.fill(Values{1e4, -1e4, 88.8, -88.8, 0.0, -200.0, 16.5, -16.5});
    run.check();
  }
}

INSTANTIATE_TEST_SUITE_P(, Gated, ::testing::Values(Activation::silu, Activation::gelu_tanh),
                         [](const auto& info) {
                           return info.param == Activation::silu ? "Swiglu" : "Geglu";
                         });

TEST(Swiglu, Multipliers) {
  for (DType type : kFloats) {
    for (double gamma : {0.5, 2.0, 0.884})
      Trial(Activation::silu, type, 3, 100, 0, gamma, 1.0 / gamma).check();
  }
}

// gelu(-5) is about -2e-7, although 1 + tanh has lost its digits there in f32.
TEST(Geglu, TailsKeepTheirDigits) {
  Trial run(Activation::gelu_tanh, f32, 1, 5, 0);
  const Values a{-4.0, -5.0, -6.0, -7.0, -8.0};
  run.gate.fill(a);
  run.up.fill(Values(5, 1.0));
  run.forward();
  const Values expected = geglu_reference(a, Values(5, 1.0));
  for (int64_t i = 0; i < 5; ++i)
    EXPECT_NEAR(run.out.get(i), expected[i], 3e-5 * std::fabs(expected[i])) << a[i];
}

// The gradient rounds d_out * up to the dtype, and then rounds the result.
TEST(Geglu, GradientRoundsWherePyTorchDoes) {
  for (DType type : {f16, bf16}) {
    Trial run(Activation::gelu_tanh, type, 4, 500, 0);
    run.backward(run.d_gate, run.d_up);
    const Values a = run.gate.values(), b = run.up.values(), c = run.d_out.values(),
                 got = run.d_gate.values();
    const Values ones(a.size(), 1.0), slope = geglu_gradient_reference(ones, a, ones).d_gate;
    const double half_of_last_bit = type == f16 ? 0x1p-11 : 0x1p-8;
    for (size_t i = 0; i < a.size(); ++i) {
      const double expected = rounded(c[i] * b[i], type) * slope[i];
      ASSERT_NEAR(got[i], expected, (half_of_last_bit + 1e-6) * std::fabs(expected) + 1e-6)
          << "element " << i;
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::gated_activation_test
