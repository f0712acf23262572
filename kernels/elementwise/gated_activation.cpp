// SwiGLU and GeGLU; arithmetic in f32, T = type. f is SiLU or the tanh form of GELU
// (activation_function.cpp).
//
//   SwiGLU   u = gate_multiplier gate;  out = round_T(down_multiplier round_T(f(u)) up)
//            c = down_multiplier dout;  dup = round_T(c f(u))
//                                       dgate = round_T(gate_multiplier c up f'(u))
//   GeGLU    u = gate;                  out = round_T(round_T(f(u)) up)
//                                       dup = round_T(dout round_T(f(u)))
//                                       dgate = round_T(round_T(dout up) f'(u))
//
// GeGLU rounds where PyTorch's separate operations round. With 16-bit types, its gradients also
// compute f by 1 + tanh, as PyTorch does. So a sum of gradients whose terms cancel agrees with
// PyTorch's.
//
// Bytes, s = sizeof(T): forward 3 n F s, backward 5 n F s. A program has one tile and no loop.
#include "kernels/elementwise/gated_activation.h"

#include "kernels/core/program_tile.h"

namespace ligerdsl::kernels {
namespace {

// Multipliers of SwiGLU. GeGLU has none.
struct Multipliers {
  std::optional<Scalar> gate, down;
  Multipliers(KernelBuilder& k, const GatedMeta& m) {
    if (m.activation != Activation::silu) return;
    gate = k.scalar("gate_multiplier", f32);
    down = k.scalar("down_multiplier", f32);
  }
};

// f and f' of GELU's tanh form, computed from 1 + tanh. That sum loses digits for u < -3.
class GeluByTanh {
 public:
  explicit GeluByTanh(const Tile& u) : u_(u), near_(clamp(u, -kMost, kMost)) {
    tanh_ = tanh(fma(near_ * near_ * near_, kInner, near_) * kOuter);
  }
  Tile value() const { return u_ * 0.5f * (tanh_ + 1.0f); }
  Tile slope() const {
    const Tile inner = fma(near_ * (3 * kInner), near_, 1.0f) * kOuter;
    return fma(near_ * 0.5f * fma(-tanh_, tanh_, 1.0f), inner, (tanh_ + 1.0f) * 0.5f);
  }

 private:
  static constexpr double kOuter = 0.7978845608028654, kInner = 0.044715;  // sqrt(2 / pi)
  static constexpr float kMost = 16;  // for |u| > 16, tanh is 1 or -1, and u^2 could overflow
  Tile u_, near_, tanh_;
};

Tile times(const Tile& x, const std::optional<Scalar>& factor) {
  return factor ? x * *factor : x;
}

}  // namespace

void gated_forward(KernelBuilder& k, const GatedMeta& m) {
  View out = k.view("out", m.type, {dyn, m.cols});
  View gate = k.view("gate", m.type, {dyn, m.cols});
  View up = k.view("up", m.type, {dyn, m.cols});
  const Multipliers multiplier(k, m);

  const ProgramTile at(k, out, m);
  Tile u = times(at.load(gate), multiplier.gate);
  Tile activated = ActivationAt(m.activation, u).value().to(m.type).to(f32);
  at.store(out, times(activated * at.load(up), multiplier.down));
}

void gated_backward(KernelBuilder& k, const GatedMeta& m) {
  View d_gate = k.view("d_gate", m.type, {dyn, m.cols});
  View d_up = k.view("d_up", m.type, {dyn, m.cols});
  View d_out = k.view("d_out", m.type, {dyn, m.cols});
  View gate = k.view("gate", m.type, {dyn, m.cols});
  View up = k.view("up", m.type, {dyn, m.cols});
  const Multipliers multiplier(k, m);

  const ProgramTile at(k, d_out, m);
  Tile u = times(at.load(gate), multiplier.gate);
  Tile b = at.load(up);
  Tile c = times(at.load(d_out), multiplier.down);
  gated_gradients(
      m.activation, m.type, u, b, c, multiplier.gate, [&](const Tile& d) { at.store(d_up, d); },
      [&](const Tile& d) { at.store(d_gate, d); });
}

void gated_gradients(Activation activation, DType type, const Tile& u, const Tile& up,
                     const Tile& d_out, const std::optional<Scalar>& gate_multiplier,
                     const StoreTile& d_up, const StoreTile& d_gate) {
  const auto rounded = [&](const Tile& x) {
    return activation == Activation::gelu_tanh ? x.to(type).to(f32) : x;
  };
  const auto of = [&](const auto& f) {
    d_up(d_out * rounded(f.value()));
    d_gate(rounded(times(d_out, gate_multiplier) * up) * f.slope());
  };
  if (activation == Activation::gelu_tanh && type != f32) return of(GeluByTanh(u));
  const ActivationAt f(activation, u);
  if (activation != Activation::relu && activation != Activation::relu_squared) return of(f);
  d_up(d_out * f.value());
  d_gate(f.gradient(times(d_out, gate_multiplier) * up));
}

}  // namespace ligerdsl::kernels
