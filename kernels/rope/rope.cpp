// RoPE in f32 arithmetic. T is `type`, R columns are rotated, h = R / 2, c = cos_i, s = sign sin_i,
// and (a, b) is pair i of a head, 0 <= i < h:
//
//   a' = round_T(a c - b s);  b' = round_T(b c + a s)
//
// The backward is the same rotation with sign = -1. Bytes: 2 tokens (q_heads + k_heads) D
// sizeof(T), and cos and sin once per token. A program rotates one token, whose heads share cos and
// sin. It loads a block of heads before it stores the block, because q_out may be q_in.
#include "kernels/rope/rope.h"

namespace ligerdsl::kernels {
namespace {

// split() returns the even and odd columns of a tile [n, 2 w] as [n, w] tiles; join() is its
// inverse. The elements of a pair are contiguous, so one thread has both, and no values are
// exchanged.
struct Pairs {
  Tile is_odd;  // [1, 1, 2]
  explicit Pairs(KernelBuilder& k) : is_odd((k.arange(2) == 1).reshape({1, 1, 2})) {}

  Carry<Tile, Tile> split(const Tile& x) const {
    Tile pairs = x.reshape({x.shape()[0], x.shape()[1] / 2, 2});
    return carry(sum(where(is_odd, 0.0f, pairs), 2), sum(where(is_odd, pairs, 0.0f), 2));
  }
  Tile join(const Tile& even, const Tile& odd) const {
    return where(is_odd, odd.expand_dims(2), even.expand_dims(2))
        .reshape({even.shape()[0], 2 * even.shape()[1]});
  }
};

// cos and sign * sin of the program's token: [1, half].
struct Angles {
  Tile cos, sin;
};

class AngleTables {
 public:
  AngleTables(KernelBuilder& k, const RopeMeta& m) : k_(k), m_(m) {
    Shape dims{dyn, dyn, m.complex_angles ? 2 * m.angles() : m.angles()};
    if (m.layout == RopeLayout::multimodal) dims.insert(dims.begin(), 3);
    cos_ = k.view("cos", m.angle_type, dims);
    if (!m.complex_angles) sin_ = k.view("sin", m.angle_type, dims);
  }

  Angles load(const Scalar& batch, const Scalar& position, const Scalar& sign) const {
    Scalar b = m_.batched_angles ? batch : k_.constant(0, i32);
    if (!m_.complex_angles)
      return {columns(cos_, b, position, m_.half), columns(sin_, b, position, m_.half) * sign};
    auto [cos, sin] = Pairs(k_).split(columns(cos_, b, position, 2 * m_.half));
    return {cos, sin * sign};
  }

 private:
  // Returns one token's row of cos or sin, [1, width].
  Tile columns(const View& view, const Scalar& batch, const Scalar& position, int64_t width) const {
    if (m_.layout == RopeLayout::multimodal) return sections(view, batch, position, width);
    return view.partition({squeeze, squeeze, width})
        .load({batch, position, 0})
        .to(f32)
        .expand_dims(0);
  }
  // Returns one token's row, in which each column comes from the plane (time, height or width) of
  // its section.
  Tile sections(const View& view, const Scalar& batch, const Scalar& position,
                int64_t width) const {
    const int64_t per_angle = m_.complex_angles ? 2 : 1;
    Tile column = k_.arange(width).to(i64);
    Tile plane = (column >= m_.time_section * per_angle).to(i64) +
                 (column >= (m_.time_section + m_.height_section) * per_angle).to(i64);
    Tile offset = plane * view.stride(0) +
                  (batch.to(i64) * view.stride(1) + position.to(i64) * view.stride(2)) + column;
    return ligerdsl::load(view.ptr() + offset, column < view.dim(3)).to(f32).expand_dims(0);
  }

  KernelBuilder& k_;
  const RopeMeta& m_;
  View cos_, sin_;
};

// The heads of q or k.
class Heads {
 public:
  Heads(KernelBuilder& k, const RopeMeta& m, const std::string& name, int64_t count, int64_t block)
      : k_(k), m_(m), count_(count), block_(block) {
    const bool pairs = m.layout == RopeLayout::interleaved;
    const Shape dims =
        pairs ? Shape{dyn, dyn, count, 2 * m.angles()} : Shape{dyn, dyn, count, 2, m.angles()};
    Shape strides(dims.size(), dyn);
    strides.back() = 1;
    out_ = k.view(name + "_out", m.type, dims, {.strides = strides});
    in_ = k.view(name + "_in", m.type, dims, {.strides = strides});
    if (m.tail() == 0) return;
    const ViewOptions any_strides{.strides = {dyn, dyn, dyn, 1}};
    tail_out_ = k.view(name + "_tail_out", m.type, {dyn, dyn, count, m.tail()}, any_strides);
    tail_in_ = k.view(name + "_tail_in", m.type, {dyn, dyn, count, m.tail()}, any_strides);
  }

  const View& in() const { return in_; }

  void rotate(const Scalar& batch, const Scalar& position, const Angles& angles) const {
    constexpr int64_t kMostUnrolled = 32;  // models have one to four blocks
    const int64_t blocks = ceil_div(count_, block_);
    if (blocks > kMostUnrolled) {
      k_.for_range(0, blocks, 1,
                   [&](Scalar first) { rotate_block(batch, position, first, angles); });
      return;
    }
    for (int64_t first = 0; first < blocks; ++first) rotate_block(batch, position, first, angles);
  }

 private:
  void rotate_block(const Scalar& batch, const Scalar& position, const ScalarArg& first,
                    const Angles& angles) const {
    if (m_.layout == RopeLayout::interleaved) {
      rotate_pairs(batch, position, first, angles);
    } else {
      rotate_halves(batch, position, first, angles);
    }
    if (m_.tail() > 0) copy_tail(batch, position, first);
  }
  // Returns (a', b') of (a, b).
  Carry<Tile, Tile> rotated(const Tile& a, const Tile& b, const Angles& angle) const {
    return carry(fma(a, angle.cos, -(b * angle.sin)).to(m_.type),
                 fma(b, angle.cos, a * angle.sin).to(m_.type));
  }
  void rotate_halves(const Scalar& batch, const Scalar& position, const ScalarArg& first,
                     const Angles& angles) const {
    const Shape tile{squeeze, squeeze, block_, squeeze, m_.half};
    auto source = in_.partition(tile), target = out_.partition(tile);
    Tile lower = source.load({batch, position, first, 0, 0}).to(f32);
    Tile upper = source.load({batch, position, first, 1, 0}).to(f32);
    auto [new_lower, new_upper] = rotated(lower, upper, angles);
    target.store({batch, position, first, 0, 0}, new_lower);
    target.store({batch, position, first, 1, 0}, new_upper);
  }
  void rotate_pairs(const Scalar& batch, const Scalar& position, const ScalarArg& first,
                    const Angles& angles) const {
    const Shape tile{squeeze, squeeze, block_, 2 * m_.half};
    const Pairs pairs(k_);
    auto [even, odd] = pairs.split(in_.partition(tile).load({batch, position, first, 0}).to(f32));
    auto [new_even, new_odd] = rotated(even, odd, angles);
    out_.partition(tile).store({batch, position, first, 0}, pairs.join(new_even, new_odd));
  }
  void copy_tail(const Scalar& batch, const Scalar& position, const ScalarArg& first) const {
    const Shape tile{squeeze, squeeze, block_, m_.tail_block};
    tail_out_.partition(tile).store({batch, position, first, 0},
                                    tail_in_.partition(tile).load({batch, position, first, 0}));
  }

  KernelBuilder& k_;
  const RopeMeta& m_;
  int64_t count_, block_;
  View out_, in_, tail_out_, tail_in_;
};

}  // namespace

void rope(KernelBuilder& k, const RopeMeta& m) {
  const Heads q(k, m, "q", m.q_heads, m.q_block);
  std::optional<Heads> keys;
  if (m.k_heads > 0) keys.emplace(k, m, "k", m.k_heads, m.k_block);
  const AngleTables tables(k, m);
  Scalar sign = k.scalar("sign", f32);

  Scalar seq = q.in().dim(1).to(i32);
  Scalar batch = k.program_id(0) / seq, position = k.program_id(0) % seq;
  const Angles angles = tables.load(batch, position, sign);
  q.rotate(batch, position, angles);
  if (keys) keys->rotate(batch, position, angles);
}

}  // namespace ligerdsl::kernels
