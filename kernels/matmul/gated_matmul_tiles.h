// Tiles and accumulators of two matmuls with the same left operand: gate = x gate_weight^T and up =
// x up_weight^T.
#pragma once

#include <utility>

#include "kernels/matmul/matmul_tiles.h"

namespace ligerdsl::kernels {

// Arguments: x [M, K], gate_weight and up_weight [F, K].
class GatedMatmulTiles {
 public:
  // `m` has the parameters of each matmul. gate and up are [rows, cols].
  GatedMatmulTiles(KernelBuilder& k, const MatmulMeta& m, const Scalar& rows, const Scalar& cols)
      : k_(k),
        m_(m),
        x_(k.view("x", m.type, {dyn, m.width})),
        gate_(k, m, x_, k.view("gate_weight", m.type, {m.cols, m.width}), rows, cols),
        up_(k, m, x_, k.view("up_weight", m.type, {m.cols, m.width}), rows, cols) {}

  template <class Make>
  void each_place(Make make) const {
    gate_.each_place(make);
  }
  // Returns the accumulators of gate and up. A k-step loads one tile of x for both.
  std::pair<Tile, Tile> accumulate(const MatmulTiles::Place& tile) const {
    const Tile zeros = k_.zeros({m_.tile_m, m_.tile_n}, f32);
    const auto one_k_step = [&](const Scalar& k_step, const Tile& gate, const Tile& up) {
      const Tile left = gate_.left(tile, k_step);
      return carry(dot(left, gate_.right(tile, k_step), gate),
                   dot(left, up_.right(tile, k_step), up));
    };
    const auto [gate, up] =
        k_.for_range(0, gate_.k_steps(), 1, k_loop_options(m_), carry(zeros, zeros), one_k_step);
    return {gate, up};
  }

 private:
  KernelBuilder& k_;
  const MatmulMeta& m_;
  View x_;
  MatmulTiles gate_, up_;
};

}  // namespace ligerdsl::kernels
