// GroupNorm: Wu, He, "Group normalization", ECCV 2018, equations 1 to 6. The C channels of an image
// batch [N, C, positions] are split into `groups` groups. One group of one image is a row of cols =
// C / groups * positions contiguous elements:
//
//   mean, var over the row;  rstd = 1 / sqrt(var + eps)
//   y = (x - mean) rstd weight[channel] + bias[channel]
//
// x, y [N groups, cols] (the same memory as [N, C, positions]); weight, bias [C]; mean, rstd [N
// groups] f32. Rows may have any width. Rows are read twice; the second read comes from shared
// memory if the row fits there. Memory traffic: 2 N C positions sizeof(type) bytes.
#pragma once

#include <ligerdsl/dsl.h>

#include <algorithm>

namespace author_kernels {

using namespace ligerdsl;

struct GroupNormMeta {
  DType type = bf16;
  DType weight_type = f32;
  int64_t channels = 256;  // C
  int64_t groups = 32;
  int64_t positions = 1024;  // height times width
  int64_t block = 1024;      // columns per iteration; all in one channel if block divides positions
  int64_t vectors = 1;       // 16-byte vectors per thread and block
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("weight_type", weight_type);
    v("channels", channels);
    v("groups", groups);
    v("positions", positions);
    v("block", block, powers_of_two(256, 8192), Bits::row);
    v("vectors", vectors, choices({1, 2, 4}), Bits::row);
  }
  int64_t cols() const { return channels / groups * positions; }
};

namespace detail {

// Returns mean and variance of a row by Welford's method (Technometrics 4(3), 1962). Each position
// of the block tile accumulates its own moments over all blocks; the end combines them.
struct Moments {
  Scalar mean, variance;
};

inline Moments moments(KernelBuilder& k, const GroupNormMeta& m, const Partition& tiles,
                       const Scalar& row, const Resident& kept) {
  const int64_t blocks = ceil_div(m.cols(), m.block), tail = m.cols() % m.block;
  Tile zeros = k.zeros({m.block}, f32);
  auto [mean, m2] =
      k.for_range(0, kept.blocks(), 1, carry(zeros, zeros), [&](Scalar b, Tile mean, Tile m2) {
        Tile x = kept.load(b).to(f32), delta = x - mean;
        if (tail != 0) delta = where(tiles.inside({row, b}), delta, 0.0f);
        Tile next = fma(delta, 1.0f / (b + 1).to(f32), mean);
        return carry(next, fma(delta, x - next, m2));
      });
  // Number of elements that each position has seen.
  Tile count = k.full({m.block}, blocks, f32);
  if (tail != 0) count = where(k.arange(m.block) < tail, count, count - 1.0f);
  // The sum adds deviations from an approximate mean, because they are small and lose fewer digits.
  Scalar shift = sum(mean) * (1.0 / std::min(m.block, m.cols()));
  Scalar all = shift + sum(count * (mean - shift)) * (1.0 / m.cols());
  Tile away = mean - all;
  return {all, sum(fma(count * away, away, m2)) * (1.0 / m.cols())};
}

}  // namespace detail

inline void group_norm(KernelBuilder& k, const GroupNormMeta& m) {
  View y = k.view("y", m.type, {dyn, m.cols()});
  View mean = k.view("mean", f32, {dyn}), rstd = k.view("rstd", f32, {dyn});
  View x = k.view("x", m.type, {dyn, m.cols()});
  View weight = k.view("weight", m.weight_type, {m.channels}),
       bias = k.view("bias", m.weight_type, {m.channels});
  Scalar eps = k.scalar("eps", f32);

  Scalar row = k.program_id(0);
  assume(row < x.dim(0));
  const Partition tiles = x.partition({squeeze, m.block});
  Resident kept = tiles.resident({row});
  const detail::Moments all = detail::moments(k, m, tiles, row, kept);
  Scalar r = rsqrt(all.variance + eps);
  mean.store({row}, all.mean);
  rstd.store({row}, r);

  Scalar first = row % m.groups * (m.channels / m.groups);  // first channel of the row
  auto finish = [&](const Scalar& b, const auto& scale, const auto& shift) {
    Tile n = (kept.load(b).to(f32) - all.mean) * r;
    y.partition({squeeze, m.block}).store({row, b}, fma(n, scale, shift).to(m.type));
  };
  k.for_range(0, kept.blocks(), 1, [&](Scalar i) {
    Scalar b = kept.blocks() - 1 - i;
    if (m.positions % m.block == 0) {
      Scalar channel = first + b / (m.positions / m.block);
      finish(b, weight.load({channel}).to(f32), bias.load({channel}).to(f32));
    } else {
      Tile column = min(b * m.block + k.arange(m.block), m.cols() - 1),
           channel = first + column / m.positions;
      finish(b, load(weight.ptr() + channel).to(f32), load(bias.ptr() + channel).to(f32));
    }
  });
}

inline const Kernel<GroupNormMeta> group_norm_kernel{
    .name = "group_norm",
    .description = "y = (x - mean) rstd weight + bias over groups of channels",
    .build = group_norm,
    .launch = [](const GroupNormMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {a.dim("x", 0)},
                    .num_warps = warps_for(m.block, m.type, m.vectors),
                    .no_alias = true};
    }};

}  // namespace author_kernels
