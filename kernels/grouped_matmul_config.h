// The schedules of grouped products.
#pragma once

#include "kernels/config.h"
#include "kernels/grouped_matmul.h"

namespace ligerdsl::kernels {

struct GroupedMatmulConfig {
  int tile_m = 128, tile_n = 128;  // of c
  int tile_k = 64;                 // of a and b in one turn
  int stages = 3;                  // loads in flight: the turn at work and those on their way
  int num_warps = 8;
  int min_ctas_per_sm = 0;     // 2: one may begin a tile while the other one stores; 0: no floor
  bool persistent = false;     // each multiprocessor makes tile after tile
  bool tensor_copies = false;  // a and b come by copies of whole tiles
  bool tensor_stores = false;  // as of a product (matmul_config.h)

  template <class V>
  void visit(V&& v) {
    v("tile_m", tile_m, powers_of_two(16, 256), Bits::same);
    v("tile_n", tile_n, powers_of_two(16, 256), Bits::same);
    v("tile_k", tile_k, powers_of_two(16, 128), Bits::same);
    v("stages", stages, choices({1, 2, 3, 4, 5, 6}), Bits::same);
    v("num_warps", num_warps, powers_of_two(2, 16), Bits::same);
    v("min_ctas_per_sm", min_ctas_per_sm, choices({0, 2}), Bits::same);
    v("persistent", persistent, Bits::same);
    v("tensor_copies", tensor_copies, Bits::same);
    v("tensor_stores", tensor_stores, Bits::same);
  }
};

using GroupedMatmul = ConfiguredKernel<GroupedMatmulOptions, GroupedMatmulConfig>;
extern const GroupedMatmul grouped_matmul_kernel;

}  // namespace ligerdsl::kernels
