// c = a b in tiles with f32 accumulation by `dot`. On a GPU, bf16 and f16 use its tensor cores; f32
// uses them only as tf32.
//
// a [m, k], b [k, n], c [m, n] of one type; any sizes. i8 gives an exact i32 result. Transposed
// operands are stored as a [k, m] and b [n, k].
#pragma once

#include <ligerdsl/dsl.h>

namespace author_kernels {

using namespace ligerdsl;

struct MatmulMeta {
  DType type = bf16;
  int64_t block_m = 128, block_n = 128;  // tile of c
  int64_t block_k = 32;                  // columns of a and rows of b per k-step
  int64_t stages = 3;                    // num_stages: loads start stages - 1 k-steps ahead
  int64_t warps = 8;
  int64_t group = 16;  // rows of tiles whose programs run concurrently, to share operands in L2
  bool transposed_a = false, transposed_b = false;
  bool persistent =
      false;  // runs one program per SM, which loads the next tile while it stores the current one
  bool tensor_copies = false;  // sm_90a: one thread copies whole tiles (TMA)
  bool tf32 = false;           // rounds f32 operands to 11 significand bits
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("block_m", block_m, powers_of_two(16, 128), Bits::same);
    v("block_n", block_n, powers_of_two(16, 256), Bits::same);
    v("block_k", block_k, powers_of_two(16, 128), Bits::same);
    v("stages", stages, choices({1, 2, 3, 4, 5, 6}), Bits::same);
    v("warps", warps, powers_of_two(1, 16), Bits::same);
    v("group", group, powers_of_two(1, 64), Bits::same);
    v("transposed_a", transposed_a);
    v("transposed_b", transposed_b);
    v("persistent", persistent, Bits::same);
    v("tensor_copies", tensor_copies, Bits::same);
    v("tf32", tf32);
  }
};

inline void matmul(KernelBuilder& k, const MatmulMeta& m) {
  const DType sums = m.type == i8 ? i32 : f32, result = m.type == i8 ? i32 : m.type;
  const DotOptions options{.input_precision = m.tf32 ? InputPrecision::tf32 : InputPrecision::ieee};
  View c = k.view("c", result, {dyn, dyn});
  View a = k.view("a", m.type, {dyn, dyn});
  View b = k.view("b", m.type, {dyn, dyn});
  const Scalar rows = cdiv(c.dim(0), m.block_m), columns = cdiv(c.dim(1), m.block_n);
  const Scalar depth = cdiv(a.dim(m.transposed_a ? 0 : 1), m.block_k);
  const Partition of_a =
      m.transposed_a ? a.partition({m.block_k, m.block_m}) : a.partition({m.block_m, m.block_k});
  const Partition of_b =
      m.transposed_b ? b.partition({m.block_n, m.block_k}) : b.partition({m.block_k, m.block_n});
  const auto make = [&](const Scalar& number) {
    const TilePlace tile = grouped_tiles(number, rows, columns, m.group);
    const auto load_a = [&](Scalar i) {
      return m.transposed_a ? of_a.load({i, tile.row}).permute({1, 0}) : of_a.load({tile.row, i});
    };
    const auto load_b = [&](Scalar i) {
      return m.transposed_b ? of_b.load({tile.column, i}).permute({1, 0})
                            : of_b.load({i, tile.column});
    };
    auto [total] = k.for_range(
        0, depth, 1, {.num_stages = static_cast<int>(m.stages), .tensor_copies = m.tensor_copies},
        carry(k.zeros({m.block_m, m.block_n}, sums)),
        [&](Scalar i, Tile total) { return carry(dot(load_a(i), load_b(i), total, options)); });
    c.partition({m.block_m, m.block_n}).store({tile.row, tile.column}, total.to(result));
  };
  if (m.persistent)
    k.for_range(k.program_id(0), (rows * columns).to(i32), k.num_programs(0), make);
  else
    make(k.program_id(0));
}

inline const Kernel<MatmulMeta> matmul_kernel{
    .name = "matmul",
    .description = "c = a b",
    .build = matmul,
    .launch = [](const MatmulMeta& m, const LaunchArguments& a) {
      const int64_t tiles = ceil_div(a.dim("c", 1), m.block_n) * ceil_div(a.dim("c", 0), m.block_m);
      const bool few = m.persistent && a.has_target() && a.target().is_gpu();
      return Launch{.grid = {few ? std::min<int64_t>(tiles, a.target().sms) : tiles},
                    .num_warps = static_cast<int>(m.warps),
                    .no_alias = true};
    }};

}  // namespace author_kernels
