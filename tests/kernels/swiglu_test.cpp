#include "kernels/swiglu.h"

#include "tests/kernels/shapes.h"
#include "tests/support/oracle_elementwise.h"

namespace ligerdsl::test {
namespace {

struct Trial {
  DType type;
  int64_t n, f;
  double gamma, delta;
  Tensor gate, up, out, d_out, d_gate, d_up;

  Trial(DType type, int64_t n, int64_t f, int64_t gap, double gamma = 1, double delta = 1)
      : type(type), n(n), f(f), gamma(static_cast<float>(gamma)), delta(static_cast<float>(delta)) {
    gate = random_rows(type, n, f, 1, gap, 2.0);
    up = random_rows(type, n, f, 2, gap);
    d_out = random_rows(type, n, f, 3, gap);
    out = Tensor::rows(type, n, f, gap);
    d_gate = Tensor::rows(type, n, f, gap);
    d_up = Tensor::rows(type, n, f, gap);
  }
  Arguments common() const {
    return Arguments()
        .tensor("gate", gate)
        .tensor("up", up)
        .number("gate_multiplier", gamma)
        .number("down_multiplier", delta);
  }
  void forward() {
    backend().run(kernels::swiglu_forward(machine(), {.cols = f, .type = type}), n, common().tensor("out", out));
  }
  void backward(const Tensor& to_gate, const Tensor& to_up) {
    backend().run(kernels::swiglu_backward(machine(), {.cols = f, .type = type}), n,
                  common().tensor("d_out", d_out).tensor("d_gate", to_gate).tensor("d_up", to_up));
  }
  void check() {
    SCOPED_TRACE(std::string(name(type)) + " n=" + std::to_string(n) + " f=" + std::to_string(f));
    forward();
    EXPECT_TRUE(close(out.values(), swiglu_oracle(gate.values(), up.values(), gamma, delta), gate_e2(type))) << "out";
    backward(d_gate, d_up);
    const auto expected = swiglu_gradient_oracle(d_out.values(), gate.values(), up.values(), gamma, delta);
    EXPECT_TRUE(close(d_gate.values(), expected.d_gate, gate_e2(type))) << "d_gate";
    EXPECT_TRUE(close(d_up.values(), expected.d_up, gate_e2(type))) << "d_up";
    for (const Tensor& t : {out, d_gate, d_up}) EXPECT_TRUE(t.untouched_outside());
  }
};

TEST(Swiglu, WidthsAndTypes) {
  int64_t number = 0;
  for (int64_t f : affordable({1, 8, 41, 431, 512, 4096, 4097, 11008, 32768}, 4)) {
    for (DType type : kFloats) Trial(type, 4, f, gap_of(number++)).check();
  }
  Trial(bf16, 300, 24, 0).check();
}

TEST(Swiglu, Multipliers) {
  for (DType type : kFloats) {
    for (double gamma : {0.5, 2.0, 0.884}) Trial(type, 3, 100, 0, gamma, 1.0 / gamma).check();
  }
}

TEST(Swiglu, InPlaceIsBitEqual) {
  for (DType type : kFloats) {
    Trial apart(type, 5, 333, 8), over(type, 5, 333, 8);
    apart.backward(apart.d_gate, apart.d_up);
    over.backward(over.gate, over.up);
    EXPECT_TRUE(over.gate.same_bits(apart.d_gate) && over.up.same_bits(apart.d_up)) << name(type);
  }
}

TEST(Swiglu, FusedLayout) {
  const int64_t n = 6, f = 90, stride = 2 * f + 7;  // gate and up: halves of the rows of one tensor
  Trial apart(bf16, n, f, 0), fused(bf16, n, f, 0);
  Tensor both(bf16, {n, 2 * f}, {stride, 1});
  fused.gate = both.view({n, f}, {stride, 1});
  fused.up = both.view({n, f}, {stride, 1}, f);
  fused.gate.fill(apart.gate.values());
  fused.up.fill(apart.up.values());
  apart.forward();
  fused.forward();
  EXPECT_TRUE(fused.out.same_bits(apart.out));
  apart.backward(apart.d_gate, apart.d_up);
  fused.backward(fused.gate, fused.up);  // in place
  EXPECT_TRUE(fused.gate.same_bits(apart.d_gate) && fused.up.same_bits(apart.d_up));
  EXPECT_TRUE(both.untouched_outside());
}

TEST(Swiglu, LargeInputsStayFinite) {
  Trial run(f32, 1, 6, 0);
  run.gate.fill(Values{1e4, -1e4, 88.8, -88.8, 0.0, -200.0});
  run.check();
  for (double value : run.out.values()) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace ligerdsl::test
