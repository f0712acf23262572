// gate = round(x gate_weight^T), up = round(x up_weight^T), out = round(round(f(gate)) up).
// Accumulators and arithmetic are f32.
//
// Results are rounded as by two matmuls and gated_forward, even if gate and up are not stored. So
// gated_backward sees the same gate and up, whether they are stored or recomputed.
//
// Flop 4 M F K.
#include "kernels/matmul/gated_matmul.h"

#include "kernels/matmul/gated_matmul_tiles.h"

namespace ligerdsl::kernels {

void gated_matmul(KernelBuilder& k, const GatedMatmulMeta& m) {
  const View out = k.view("out", m.type, {dyn, m.cols});
  const GatedMatmulTiles tiles(k, m, out.dim(0), out.dim(1));
  std::optional<View> gate, up;
  if (m.stores_products)
    gate = k.view("gate", m.type, {dyn, m.cols}), up = k.view("up", m.type, {dyn, m.cols});

  tiles.each_place([&](const MatmulTiles::Place& tile) {
    const auto [gate_acc, up_acc] = tiles.accumulate(tile);
    const auto store = [&](const View& view, const Tile& value) {
      view.partition({m.tile_m, m.tile_n})
          .store(tile.itself(), value, {.tensor_copies = m.tensor_stores});
    };
    const Tile rounded_gate = gate_acc.to(m.type), rounded_up = up_acc.to(m.type);
    if (gate) store(*gate, rounded_gate), store(*up, rounded_up);
    const Tile activated =
        ActivationAt(m.activation, rounded_gate.to(f32)).value().to(m.type).to(f32);
    store(out, (activated * rounded_up.to(f32)).to(m.type));
  });
}

}  // namespace ligerdsl::kernels
