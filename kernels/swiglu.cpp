// SwiGLU; arithmetic in f32, T = type, sigma = logistic function.
//
//   u = gate_multiplier gate;  out = round_T(down_multiplier round_T(u sigma(u)) up)
//
//   c = down_multiplier dout, s = sigma(u)
//   dup = round_T(c u s);  dgate = round_T(gate_multiplier c up (s + u s (1 - s)))
//
// Bytes, s = sizeof(T): forward 3 n F s, backward 5 n F s. Streams with one vector per thread and no loop.
#include "kernels/swiglu.h"

#include "kernels/record.h"
#include "kernels/tile_shape.h"

namespace ligerdsl::kernels {
namespace {

// The tile of a program: blocks of columns are numbered fastest.
struct Position {
  Scalar row, column;
  Position(KernelBuilder& k, const View& view, const SwigluMeta& m) {
    Scalar blocks = cdiv(view.dim(1), m.block).to(i32);
    row = k.program_id(0) / blocks;
    column = k.program_id(0) % blocks;
  }
  Tile load(const View& view, const SwigluMeta& m) const {
    return view.partition({m.rows, m.block}).load({row, column}).to(f32);
  }
  void store(const View& view, const SwigluMeta& m, const Tile& value) const {
    view.partition({m.rows, m.block}).store({row, column}, value.to(m.type));
  }
};

}  // namespace

void swiglu_forward(KernelBuilder& k, const SwigluMeta& m) {
  View out = k.view("out", m.type, {dyn, m.cols});
  View gate = k.view("gate", m.type, {dyn, m.cols});
  View up = k.view("up", m.type, {dyn, m.cols});
  Scalar gate_multiplier = k.scalar("gate_multiplier", f32);
  Scalar down_multiplier = k.scalar("down_multiplier", f32);

  const Position at(k, out, m);
  Tile u = at.load(gate, m) * gate_multiplier;
  Tile activated = silu(u).to(m.type).to(f32);
  at.store(out, m, activated * at.load(up, m) * down_multiplier);
}

void swiglu_backward(KernelBuilder& k, const SwigluMeta& m) {
  View d_gate = k.view("d_gate", m.type, {dyn, m.cols});
  View d_up = k.view("d_up", m.type, {dyn, m.cols});
  View d_out = k.view("d_out", m.type, {dyn, m.cols});
  View gate = k.view("gate", m.type, {dyn, m.cols});
  View up = k.view("up", m.type, {dyn, m.cols});
  Scalar gate_multiplier = k.scalar("gate_multiplier", f32);
  Scalar down_multiplier = k.scalar("down_multiplier", f32);

  const Position at(k, d_out, m);
  Tile u = at.load(gate, m) * gate_multiplier;
  Tile b = at.load(up, m);
  Tile c = at.load(d_out, m) * down_multiplier;
  Tile s = sigmoid(u);
  Tile activated = u * s;
  at.store(d_up, m, c * activated);
  at.store(d_gate, m, gate_multiplier * c * b * fma(activated, 1.0f - s, s));
}

namespace {

Operation elementwise(const Machine& machine, const SwigluOptions& options, const std::string& name,
                      void (*build)(KernelBuilder&, const SwigluMeta&)) {
  const TileShape tile = elementwise_tile(machine, options.type, options.cols);
  SwigluMeta meta{options};
  meta.rows = tile.rows;
  meta.block = tile.cols;
  Launch launch{.program = record(name, options.type, build, meta), .num_warps = tile.num_warps};
  launch.grid = [rows = tile.rows, blocks = ceil_div(options.cols, tile.cols)](int64_t n) {
    return grid_of(ceil_div(n, rows) * blocks);
  };
  return {.launches = {launch}};
}

}  // namespace

Operation swiglu_forward(const Machine& machine, const SwigluOptions& options) {
  return elementwise(machine, options, "swiglu_forward", &swiglu_forward);
}

Operation swiglu_backward(const Machine& machine, const SwigluOptions& options) {
  return elementwise(machine, options, "swiglu_backward", &swiglu_backward);
}

}  // namespace ligerdsl::kernels
