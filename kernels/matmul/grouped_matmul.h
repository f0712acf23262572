// Products of groups of rows by a matrix of each group, as the experts of a mixture have them.
//
// The rows of a lie sorted by group: offsets [experts + 1] are numbers of rows, of which group e has [offsets[e],
// offsets[e + 1]). They are read on the device. A group may be empty. Offsets that decrease, or that are below 0 or beyond
// the rows there are, are reported by the number of their group (kErrorBase); then every access stays within the
// arguments, and what is in c is not defined.
#pragma once

#include "kernels/core/config.h"
#include "kernels/matmul/matmul.h"

namespace ligerdsl::kernels {

// nn: c = a b[e], nt: c = a b[e]^T, of the rows of group e. tn: c[e] = a^T b, of the rows that group e has of both.
enum class GroupedFactors { nt, nn, tn };

struct GroupedMatmulOptions {
  GroupedFactors factors = GroupedFactors::nt;
  int64_t experts = 8;
  int64_t cols = 4096;   // N: width of c
  int64_t width = 4096;  // of a: K, or M of tn
  DType type = bf16;     // of a and b
  DType c_type = bf16;
  DType index_type = i64;
  bool adds = false;  // tn: c += ...

  template <class V>
  void visit(V&& v) {
    v("factors", factors, {"nt", "nn", "tn"});
    v("experts", experts);
    v("cols", cols);
    v("width", width);
    v("type", type);
    v("c_type", c_type);
    v("index_type", index_type);
    v("adds", adds);
  }
};

// tile, turns and stages of the product are those of one of two matrices.
struct GroupedMatmulMeta : MatmulMeta {
  int64_t experts = 1;
  DType index_type = i64;
};

// Arguments: offsets [experts + 1] of any stride; error [1] i64; a [T, K]; tiles [T / tile_m + experts + 2, 4] i64 (out), which the product takes.
void grouped_matmul_tiles(KernelBuilder& k, const GroupedMatmulMeta& m);

// Arguments: a [T, K]; b [experts, N, K] (nt) or [experts, K, N] (nn); c [T, N], and tiles if persistent, offsets and error otherwise. Rows of
// c that no group has become 0.
void grouped_matmul(KernelBuilder& k, const GroupedMatmulMeta& m);

// Arguments: a [T, M], b [T, N], offsets, error; c [experts, M, N], 0 for an empty group, or left as it is where it is added
// to.
void grouped_matmul_tn(KernelBuilder& k, const GroupedMatmulMeta& m);

// Rows: of a.
Operation grouped_matmul(const Machine& machine, const GroupedMatmulOptions& options);

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
