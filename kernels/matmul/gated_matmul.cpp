// gate = round(x gate_weight^T), up = round(x up_weight^T), out = round(round(f(gate)) up); sums and arithmetic in f32.
//
// It rounds as two products with gated_forward behind them, whether gate and up are stored or not, so that gated_backward on
// what is stored, and recomputation without storing, see the numbers that out was made of.
//
// Flop 4 M F K.
#include "kernels/matmul/gated_matmul.h"

#include "kernels/matmul/gated_product.h"

namespace ligerdsl::kernels {

void gated_matmul(KernelBuilder& k, const GatedMatmulMeta& m) {
  const View out = k.view("out", m.type, {dyn, m.cols});
  const GatedProduct products(k, m, out.dim(0), out.dim(1));
  std::optional<View> gate, up;
  if (m.stores_products) gate = k.view("gate", m.type, {dyn, m.cols}), up = k.view("up", m.type, {dyn, m.cols});

  products.each_place([&](const ProductTiles::Place& tile) {
    const auto [gate_sums, up_sums] = products.sums(tile);
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
