// RoPE, half rotation; arithmetic in f32, T = type, h = D / 2, c = cos_i, s = sign sin_i:
//
//   y_i = round_T(x_i c - x_{i+h} s);  y_{i+h} = round_T(x_{i+h} c + x_i s);  0 <= i < h
//
// The backward is the same rotation with sign = -1. Bytes: 2 tokens (q_heads + k_heads) D sizeof(T), and cos and sin
// once per token. A program owns one token: its heads share cos and sin, and all loads of a head block come before its
// stores.
#include "kernels/rope.h"

#include "kernels/record.h"
#include "kernels/tile_shape.h"

namespace ligerdsl::kernels {
namespace {

// The heads of one tensor.
struct Heads {
  View out, in, tail_out, tail_in;
  int64_t count, block;

  Heads(KernelBuilder& k, const RopeMeta& m, const std::string& name, int64_t count, int64_t block)
      : count(count), block(block) {
    const Shape dims{dyn, dyn, count, 2, m.head_dim / 2};
    const Shape strides{dyn, dyn, dyn, dyn, 1};
    out = k.view(name + "_out", m.type, dims, {.strides = strides});
    in = k.view(name + "_in", m.type, dims, {.strides = strides});
    if (!m.tail) return;
    const ViewOptions any_strides{.strides = {dyn, dyn, dyn}};
    tail_out = k.view(name + "_tail_out", m.type, {dyn, dyn, count}, any_strides);
    tail_in = k.view(name + "_tail_in", m.type, {dyn, dyn, count}, any_strides);
  }

  void rotate(const RopeMeta& m, const Scalar& batch, const Scalar& position, const Tile& cos, const Tile& sin) const {
    for (int64_t first = 0; first < ceil_div(count, block); ++first) {
      auto source = in.partition({squeeze, squeeze, block, squeeze, m.half});
      Tile lower = source.load({batch, position, first, 0, 0}).to(f32);
      Tile upper = source.load({batch, position, first, 1, 0}).to(f32);
      auto target = out.partition({squeeze, squeeze, block, squeeze, m.half});
      target.store({batch, position, first, 0, 0}, fma(lower, cos, -(upper * sin)).to(m.type));
      target.store({batch, position, first, 1, 0}, fma(upper, cos, lower * sin).to(m.type));
      if (!m.tail) continue;
      const Shape heads{squeeze, squeeze, block};
      tail_out.partition(heads).store({batch, position, first},
                                      tail_in.partition(heads).load({batch, position, first}));
    }
  }
};

}  // namespace

void rope(KernelBuilder& k, const RopeMeta& m) {
  Heads q(k, m, "q", m.q_heads, m.q_block);
  std::optional<Heads> keys;
  if (m.k_heads > 0) keys.emplace(k, m, "k", m.k_heads, m.k_block);
  View cos_view = k.view("cos", m.angle_type, {dyn, dyn, m.head_dim / 2});
  View sin_view = k.view("sin", m.angle_type, {dyn, dyn, m.head_dim / 2});
  Scalar sign = k.scalar("sign", f32);

  Scalar seq = q.in.dim(1).to(i32);
  Scalar batch = k.program_id(0) / seq, position = k.program_id(0) % seq;
  Scalar angle_batch = m.batched_angles ? batch : k.constant(0, i32);
  auto angles = [&](const View& view) {
    return view.partition({squeeze, squeeze, m.half}).load({angle_batch, position, 0}).to(f32).expand_dims(0);
  };
  Tile cos = angles(cos_view);
  Tile sin = angles(sin_view) * sign;
  q.rotate(m, batch, position, cos, sin);
  if (keys) keys->rotate(m, batch, position, cos, sin);
}

Operation rope(const Machine& machine, const RopeOptions& options) {
  RopeMeta meta{options};
  const int64_t half = options.head_dim / 2;
  meta.half = tile_width(half);
  meta.tail = options.head_dim % 2 != 0;
  const bool gpu = machine.target == Target::nvptx;
  // Heads of one tile: at most 8192 elements per half, 16 per thread of the largest CTA used here.
  const int64_t most = std::max<int64_t>(1, floor_power_of_two(8192 / meta.half));
  meta.q_block = std::min(tile_width(options.q_heads), most);
  meta.k_block = std::min(tile_width(std::max<int64_t>(options.k_heads, 1)), most);
  const int64_t elements = 2 * (meta.q_block + meta.k_block) * meta.half;
  Launch launch{.program = record("rope", options.type, &rope, meta),
                .num_warps = gpu ? warps_for(elements, options.type, 4, 16) : 4};
  launch.grid = [](int64_t tokens) { return grid_of(tokens); };
  return {.launches = {launch}};
}

}  // namespace ligerdsl::kernels
