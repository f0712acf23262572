// SwiGLU and GeGLU; arithmetic in f32, T = type, sigma = logistic function.
//
// Both activations are f(u) = u sigma(w(u)):
//   silu   w = u
//   gelu   w = 2 k (u + 0.044715 u^3), k = sqrt(2 / pi): u/2 (1 + tanh(w / 2)), because (1 + tanh z) / 2 = sigma(2 z).
//          Written so, nothing cancels where f is small.
// and f'(u) = s + u s (1 - s) w'(u) with s = sigma(w(u)).
//
//   SwiGLU   u = gate_multiplier gate;  out = round_T(down_multiplier round_T(f(u)) up)
//            c = down_multiplier dout;  dup = round_T(c f(u));  dgate = round_T(gate_multiplier c up f'(u))
//   GeGLU    u = gate;                  out = round_T(round_T(f(u)) up)
//                                       dup = round_T(dout round_T(f(u)));  dgate = round_T(dout up f'(u))
//
// Bytes, s = sizeof(T): forward 3 n F s, backward 5 n F s. Streams with one vector per thread and no loop.
#include "kernels/gated_activation.h"

namespace ligerdsl::kernels {
namespace {

// The tile of a program: blocks of columns are numbered fastest.
struct Position {
  Scalar row, column;
  Position(KernelBuilder& k, const View& view, const GatedMeta& m) {
    Scalar blocks = cdiv(view.dim(1), m.block).to(i32);
    row = k.program_id(0) / blocks;
    column = k.program_id(0) % blocks;
  }
  Tile load(const View& view, const GatedMeta& m) const {
    return view.partition({m.rows, m.block}).load({row, column}).to(f32);
  }
  void store(const View& view, const GatedMeta& m, const Tile& value) const {
    view.partition({m.rows, m.block}).store({row, column}, value.to(m.type));
  }
};

// What SwiGLU multiplies with; GeGLU has no such arguments and multiplies with nothing.
struct Multipliers {
  std::optional<Scalar> gate, down;
  Multipliers(KernelBuilder& k, const GatedMeta& m) {
    if (m.activation != Activation::silu) return;
    gate = k.scalar("gate_multiplier", f32);
    down = k.scalar("down_multiplier", f32);
  }
};

Tile times(const Tile& x, const std::optional<Scalar>& factor) {
  return factor ? x * *factor : x;
}

constexpr double kGeluOuter = 2 * 0.7978845608028654;  // 2 sqrt(2 / pi)
constexpr double kGeluInner = 0.044715;

// u^2 for gelu. From |u| = 16 on sigma is 0 or 1: a larger square would only overflow, and infinity times 0 is NaN.
Tile gelu_square(const Tile& u) {
  return min(u * u, 256.0f);
}

// s = sigma(w(u)); f(u) = u s.
Tile gate_of(const GatedMeta& m, const Tile& u) {
  if (m.activation == Activation::silu) return sigmoid(u);
  return sigmoid(u * fma(gelu_square(u), kGeluOuter * kGeluInner, kGeluOuter));
}

// f'(u) from s and value = u s.
Tile slope_of(const GatedMeta& m, const Tile& u, const Tile& s, const Tile& value) {
  if (m.activation == Activation::silu) return fma(value, 1.0f - s, s);
  Tile inner = fma(gelu_square(u), 3 * kGeluOuter * kGeluInner, kGeluOuter);  // w'(u)
  return fma(value * inner, 1.0f - s, s);
}

}  // namespace

void gated_forward(KernelBuilder& k, const GatedMeta& m) {
  View out = k.view("out", m.type, {dyn, m.cols});
  View gate = k.view("gate", m.type, {dyn, m.cols});
  View up = k.view("up", m.type, {dyn, m.cols});
  const Multipliers multiplier(k, m);

  const Position at(k, out, m);
  Tile u = times(at.load(gate, m), multiplier.gate);
  Tile activated = (u * gate_of(m, u)).to(m.type).to(f32);
  at.store(out, m, times(activated * at.load(up, m), multiplier.down));
}

void gated_backward(KernelBuilder& k, const GatedMeta& m) {
  View d_gate = k.view("d_gate", m.type, {dyn, m.cols});
  View d_up = k.view("d_up", m.type, {dyn, m.cols});
  View d_out = k.view("d_out", m.type, {dyn, m.cols});
  View gate = k.view("gate", m.type, {dyn, m.cols});
  View up = k.view("up", m.type, {dyn, m.cols});
  const Multipliers multiplier(k, m);

  const Position at(k, d_out, m);
  Tile u = times(at.load(gate, m), multiplier.gate);
  Tile b = at.load(up, m);
  Tile c = times(at.load(d_out, m), multiplier.down);
  Tile s = gate_of(m, u);
  Tile value = u * s;
  at.store(d_up, m, c * (m.activation == Activation::gelu ? value.to(m.type).to(f32) : value));
  at.store(d_gate, m, times(c, multiplier.gate) * b * slope_of(m, u, s, value));
}

}  // namespace ligerdsl::kernels
