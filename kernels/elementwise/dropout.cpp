// Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", JMLR
// 2014, with kept elements scaled by 1 / (1 - p) in training:
//
//   y_i  = w_i >= floor(p 2^32) ? x_i / (1 - p) : 0
//   dx_i = w_i >= floor(p 2^32) ? dy_i / (1 - p) : 0
//
// w_i is word i % 4 of philox(seed, offset + i / 4), an unsigned integer; i = row F + column. So
// the mask depends only on seed, offset and the position of the element. Arithmetic is f32. The
// result is rounded once, after the residual or d_x is added.
//
// Bytes, s = sizeof(T): 2 n F s, or 3 n F s with a residual or if d_x accumulates. A program has
// one tile and no loop. A Philox call needs about 40 instructions, 19 of them 64-bit
// multiplications. With 16-bit types, they take nearly as long as a copy of the elements. So the
// kernel uses all four words of a call, one per element, and compares words instead of converting
// them to floats.
#include "kernels/elementwise/dropout.h"

#include "kernels/core/program_tile.h"

namespace ligerdsl::kernels {
namespace {

using Words = std::array<Tile, 4>;  // random words for groups of four elements

// Returns a tile [R, B] whose column 4 k + j is column k of words[j], a tile [R, B / 4].
Tile by_column(const Words& words) {
  Tile even = interleave(words[0], words[2]);
  Tile odd = interleave(words[1], words[3]);
  return interleave(even, odd);
}

// Shifts each row's words left by first mod 4, because a row may begin inside a counter's four
// words. `first` [R, 1]: number of each row's first element. `more`: words of the next counters.
// `even`: every row begins at an even element.
Tile shifted(const Words& words, const Words& more, const Tile& first, bool even) {
  std::array<Tile, 7> w = {words[0], words[1], words[2], words[3], more[0], more[1], more[2]};
  Tile two = (first & int64_t{2}) != 0;
  for (int j = 0; j < 5; ++j) w[j] = where(two, w[j + 2], w[j]);
  if (!even) {
    Tile one = (first & int64_t{1}) != 0;
    for (int j = 0; j < 4; ++j) w[j] = where(one, w[j + 1], w[j]);
  }
  return by_column({w[0], w[1], w[2], w[3]});
}

class Dropout {
 public:
  // Declares the arguments that both kernels share. Create a ProgramTile after all arguments.
  Dropout(KernelBuilder& k, const DropoutMeta& m) : k_(k), m_(m) {
    threshold_ = k.scalar("threshold", i32);
    scale_ = k.scalar("scale", f32);
    offset_ = k.scalar("offset", i64);
    if (m.device_seed) {
      device_seed_ = k.view("device_seed", i64, {1});
      device_offset_ = k.view("device_offset", i64, {1});
    } else {
      seed_ = k.scalar("seed", i64);
    }
  }
  Tile operator()(const ProgramTile& at, const Tile& x) const {
    return where(kept(at), x * scale_, 0.0f);
  }
  Tile operator()(const ProgramTile& at, const Tile& x, const Tile& addend) const {
    return where(kept(at), fma(x, scale_, addend), addend);
  }

 private:
  Tile kept(const ProgramTile& at) const { return uge(words(at), threshold_); }

  Tile words(const ProgramTile& at) const {
    const int64_t group = 4, groups = m_.block / group;
    Scalar seed = m_.device_seed ? device_seed_.load({0}) : seed_;
    Scalar offset = m_.device_seed ? offset_ + device_offset_.load({0}) : offset_;
    offset = offset + at.column().to(i64) * groups;
    Tile columns = k_.arange(groups).to(i64).expand_dims(0);
    Tile rows = k_.arange(m_.rows).to(i64).expand_dims(1);
    Scalar row = at.row().to(i64) * m_.rows;
    if (m_.cols % group == 0)
      return by_column(philox(seed, (rows + row) * (m_.cols / group) + offset + columns));
    Tile before = (rows + row) * m_.cols;  // number of elements in earlier rows
    Tile position = (before >> 2) + offset + columns;
    return shifted(philox(seed, position), philox(seed, position + 1), before, m_.cols % 2 == 0);
  }

  KernelBuilder& k_;
  const DropoutMeta& m_;
  Scalar threshold_, scale_, seed_, offset_;
  View device_seed_, device_offset_;
};

}  // namespace

void dropout_forward(KernelBuilder& k, const DropoutMeta& m) {
  View y = k.view("y", m.type, {dyn, m.cols});
  View x = k.view("x", m.type, {dyn, m.cols});
  View residual;
  if (m.add) residual = k.view("residual", m.type, {dyn, m.cols});
  const Dropout dropout(k, m);

  const ProgramTile at(k, x, m);
  Tile u = at.load(x);
  at.store(y, m.add ? dropout(at, u, at.load(residual)) : dropout(at, u));
}

void dropout_backward(KernelBuilder& k, const DropoutMeta& m) {
  View d_x = k.view("d_x", m.type, {dyn, m.cols});
  View d_y = k.view("d_y", m.type, {dyn, m.cols});
  const Dropout dropout(k, m);

  const ProgramTile at(k, d_y, m);
  Tile d = at.load(d_y);
  at.store(d_x, m.add ? dropout(at, d, at.load(d_x)) : dropout(at, d));
}

}  // namespace ligerdsl::kernels
