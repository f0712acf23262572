// y = round_T(f(x)); dx = round_T(dy f'(x)), or round_T(dx + dy f'(x)) with `accumulate`.
// Arithmetic in f32, T = type; f is in activation_function.cpp.
//
// Bytes, s = sizeof(T): forward 2 n F s; backward 3 n F s, or 4 n F s if it accumulates. A program
// has one tile and no loop.
#include "kernels/elementwise/activation.h"

#include "kernels/core/program_tile.h"

namespace ligerdsl::kernels {

void activation_forward(KernelBuilder& k, const ActivationMeta& m) {
  View y = k.view("y", m.type, {dyn, m.cols});
  View x = k.view("x", m.type, {dyn, m.cols});

  const ProgramTile at(k, x, m);
  at.store(y, ActivationAt(m.kind, at.load(x)).value());
}

void activation_backward(KernelBuilder& k, const ActivationMeta& m) {
  View d_x = k.view("d_x", m.type, {dyn, m.cols});
  View d_y = k.view("d_y", m.type, {dyn, m.cols});
  View x = k.view("x", m.type, {dyn, m.cols});

  const ProgramTile at(k, x, m);
  Tile u = at.load(x);
  Tile d = at.load(d_y);
  Tile gradient = ActivationAt(m.kind, u).gradient(d);
  at.store(d_x, m.accumulate ? at.load(d_x) + gradient : gradient);
}

}  // namespace ligerdsl::kernels
