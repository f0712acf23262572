// gate = round(x gate_weight^T), up = round(x up_weight^T), out = round(round(f(gate)) up); sums and arithmetic in f32.
//
// It rounds as two products with gated_forward behind them, whether gate and up are stored or not, so that gated_backward on
// what is stored, and recomputation without storing, see the numbers that out was made of.
//
// Flop 4 M F K. A turn loads one tile of x for both products.
#include "kernels/gated_matmul.h"

#include "kernels/product_tiles.h"

namespace ligerdsl::kernels {

void gated_matmul(KernelBuilder& k, const GatedMatmulMeta& m) {
  const View out = k.view("out", m.type, {dyn, m.cols});
  const View x = k.view("x", m.type, {dyn, m.width});
  const View gate_weight = k.view("gate_weight", m.type, {m.cols, m.width});
  const View up_weight = k.view("up_weight", m.type, {m.cols, m.width});
  std::optional<View> gate, up;
  if (m.stores_products) gate = k.view("gate", m.type, {dyn, m.cols}), up = k.view("up", m.type, {dyn, m.cols});

  const ProductTiles of_gate(k, m, x, gate_weight, out.dim(0), out.dim(1)),
      of_up(k, m, x, up_weight, out.dim(0), out.dim(1));
  of_gate.each_place([&](const ProductTiles::Place& tile) {
    const Tile zeros = k.zeros({m.tile_m, m.tile_n}, f32);
    const auto one_turn = [&](const Scalar& turn, const Tile& gate_sums, const Tile& up_sums) {
      const Tile left = of_gate.left(tile, turn);
      return carry(dot(left, of_gate.right(tile, turn), gate_sums), dot(left, of_up.right(tile, turn), up_sums));
    };
    const auto [gate_sums, up_sums] =
        k.for_range(0, of_gate.turns(), 1, options_of_turns(m), carry(zeros, zeros), one_turn);
    const auto store = [&](const View& view, const Tile& value) {
      view.partition({m.tile_m, m.tile_n}).store(tile.itself(), value, {.tensor_copies = m.tensor_stores});
    };
    const Tile of_type = gate_sums.to(m.type), times = up_sums.to(m.type);
    if (gate) store(*gate, of_type), store(*up, times);
    const Tile activated = ActivationAt(m.activation, of_type.to(f32)).value().to(m.type).to(f32);
    store(out, (activated * times.to(f32)).to(m.type));
  });
}

}  // namespace ligerdsl::kernels
