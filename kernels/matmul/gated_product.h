// The tiles of two products of one left factor, gate = x gate_weight^T and up = x up_weight^T, and the sums of one tile of each.
#pragma once

#include <utility>

#include "kernels/matmul/product_tiles.h"

namespace ligerdsl::kernels {

// Arguments: x [M, K], gate_weight and up_weight [F, K].
class GatedProduct {
 public:
  // m: of each product. rows, cols: M and F, of a result.
  GatedProduct(KernelBuilder& k, const MatmulMeta& m, const Scalar& rows, const Scalar& cols)
      : k_(k),
        m_(m),
        x_(k.view("x", m.type, {dyn, m.width})),
        gate_(k, m, x_, k.view("gate_weight", m.type, {m.cols, m.width}), rows, cols),
        up_(k, m, x_, k.view("up_weight", m.type, {m.cols, m.width}), rows, cols) {}

  template <class Make>
  void each_place(Make make) const {
    gate_.each_place(make);
  }
  // Of gate and of up, f32. A turn loads one tile of x for both.
  std::pair<Tile, Tile> sums(const ProductTiles::Place& tile) const {
    const Tile zeros = k_.zeros({m_.tile_m, m_.tile_n}, f32);
    const auto one_turn = [&](const Scalar& turn, const Tile& gate, const Tile& up) {
      const Tile left = gate_.left(tile, turn);
      return carry(dot(left, gate_.right(tile, turn), gate), dot(left, up_.right(tile, turn), up));
    };
    const auto [gate, up] = k_.for_range(0, gate_.turns(), 1, options_of_turns(m_), carry(zeros, zeros), one_turn);
    return {gate, up};
  }

 private:
  KernelBuilder& k_;
  const MatmulMeta& m_;
  View x_;
  ProductTiles gate_, up_;
};

}  // namespace ligerdsl::kernels
