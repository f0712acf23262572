// Recomputes gate = round(x gate_weight^T) and up = round(x up_weight^T). Then it computes d_gate
// and d_up as gated_backward does, and out as gated_matmul does.
//
// So a gated MLP need not store gate and up for its backward pass.
//
// Flop 4 M F K. The load of a tile of d_out overlaps with the matmuls.
#include "kernels/matmul/gated_matmul_backward.h"

#include "kernels/elementwise/gated_activation.h"
#include "kernels/matmul/gated_matmul_tiles.h"

namespace ligerdsl::kernels {

void gated_matmul_backward(KernelBuilder& k, const GatedMatmulBackwardMeta& m) {
  const auto of_out = [&](const char* name) { return k.view(name, m.type, {dyn, m.cols}); };
  const View d_gate = of_out("d_gate"), d_up = of_out("d_up"), d_out = of_out("d_out");
  std::optional<View> out;
  if (m.stores_out) out = of_out("out");
  const GatedMatmulTiles tiles(k, m, d_out.dim(0), d_out.dim(1));

  tiles.each_place([&](const MatmulTiles::Place& tile) {
    const auto tile_of = [&](const View& view) { return view.partition({m.tile_m, m.tile_n}); };
    const auto store = [&](const View& view, const Tile& value) {
      tile_of(view).store(tile.itself(), value.to(m.type), {.tensor_copies = m.tensor_stores});
    };
    const Tile upstream = tile_of(d_out).load(tile.itself());
    const auto [gate_acc, up_acc] = tiles.accumulate(tile);
    const Tile gate = gate_acc.to(m.type).to(f32), up = up_acc.to(m.type).to(f32);
    if (out) store(*out, ActivationAt(m.activation, gate).value().to(m.type).to(f32) * up);
    gated_gradients(
        m.activation, m.type, gate, up, upstream.to(f32), {},
        [&](const Tile& d) { store(d_up, d); }, [&](const Tile& d) { store(d_gate, d); });
  });
}

}  // namespace ligerdsl::kernels
