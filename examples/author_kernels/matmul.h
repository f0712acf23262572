// c = a b in tiles, added up in f32 as outer products of a column of a and a row of b. The DSL has no `dot`, so this
// runs on a GPU's ordinary cores, not on its tensor cores: it is right, and far from what a library of products reaches.
//
// a [m, k], b [k, n], c [m, n] of one type; any sizes.
#pragma once

#include <ligerdsl/dsl.h>

namespace author_kernels {

using namespace ligerdsl;

struct MatmulMeta {
  DType type = bf16;
  int64_t block_m = 64, block_n = 128;  // of a tile of c
  int64_t unroll = 4;                   // outer products of one turn of the loop
  int64_t warps = 8;
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("block_m", block_m, powers_of_two(16, 128), Bits::same);
    v("block_n", block_n, powers_of_two(16, 256), Bits::same);
    v("unroll", unroll, choices({1, 2, 4, 8}), Bits::same);
    v("warps", warps, powers_of_two(1, 16), Bits::same);
  }
};

inline void matmul(KernelBuilder& k, const MatmulMeta& m) {
  View c = k.view("c", m.type, {dyn, dyn});
  View a = k.view("a", m.type, {dyn, dyn});
  View b = k.view("b", m.type, {dyn, dyn});
  Scalar column = k.program_id(0), row = k.program_id(1);
  auto [total] = k.for_range(0, a.dim(1), 1, unrolled(static_cast<int>(m.unroll)),
                             carry(k.zeros({m.block_m, m.block_n}, f32)), [&](Scalar i, Tile total) {
                               Tile of_a = a.partition({m.block_m, squeeze}).load({row, i}).to(f32).expand_dims(1);
                               Tile of_b = b.partition({squeeze, m.block_n}).load({i, column}).to(f32).expand_dims(0);
                               return carry(fma(of_a, of_b, total));
                             });
  c.partition({m.block_m, m.block_n}).store({row, column}, total.to(m.type));
}

inline const Kernel<MatmulMeta> matmul_kernel{
    .name = "matmul",
    .description = "c = a b by outer products",
    .build = matmul,
    .launch = [](const MatmulMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {ceil_div(a.dim("c", 1), m.block_n), ceil_div(a.dim("c", 0), m.block_m)},
                    .num_warps = static_cast<int>(m.warps),
                    .no_alias = true};
    }};

}  // namespace author_kernels
