// Matmuls of groups of rows with one matrix per group, as in a mixture of experts.
//
// The rows of a are sorted by group. offsets [experts + 1] are row numbers on the device: group e
// has the rows [offsets[e], offsets[e + 1]). A group may be empty. The error flag reports a group
// whose offsets decrease, are negative or exceed the number of rows (kErrorBase). Then accesses
// stay within the arguments, and c is undefined.
#pragma once

#include "kernels/core/config.h"
#include "kernels/matmul/matmul.h"

namespace ligerdsl::kernels {

// nn: c = a b[e], nt: c = a b[e]^T, for the rows of group e. tn: c[e] = a^T b, where a and b are
// restricted to the rows of group e.
enum class GroupedTransposes { nt, nn, tn };

struct GroupedMatmulOptions {
  GroupedTransposes transposes = GroupedTransposes::nt;
  int64_t experts = 8;
  int64_t cols = 4096;   // N: columns of c
  int64_t width = 4096;  // columns of a: K, or M for tn
  DType type = bf16;     // dtype of a and b
  DType c_type = bf16;
  DType index_type = i64;
  bool adds = false;  // tn: c += ...

  template <class V>
  void visit(V&& v) {
    v("transposes", transposes, {"nt", "nn", "tn"});
    v("experts", experts);
    v("cols", cols);
    v("width", width);
    v("type", type);
    v("c_type", c_type);
    v("index_type", index_type);
    v("adds", adds);
  }
};

// The fields of MatmulMeta have the same meaning as in a plain matmul.
struct GroupedMatmulMeta : MatmulMeta {
  int64_t experts = 1;
  DType index_type = i64;
};

// Lists the nonempty tiles for a persistent grouped_matmul. Arguments: offsets [experts + 1] of any
// stride; error [1] i64; a [T, K]; tiles [ceil(T / tile_m) + experts + 2, 4] i64 (out).
void grouped_matmul_tiles(KernelBuilder& k, const GroupedMatmulMeta& m);

// Arguments: a [T, K]; b [experts, N, K] (nt) or [experts, K, N] (nn); c [T, N]; tiles if
// persistent, otherwise offsets and error. Rows of c that belong to no group become 0.
void grouped_matmul(KernelBuilder& k, const GroupedMatmulMeta& m);

// Arguments: a [T, M], b [T, N], offsets, error; c [experts, M, N]. For an empty group e, c[e] is
// 0, or unchanged with `adds`.
void grouped_matmul_tn(KernelBuilder& k, const GroupedMatmulMeta& m);

// Rows: rows of a.
Operation grouped_matmul(const Machine& machine, const GroupedMatmulOptions& options);

struct GroupedMatmulConfig {
  int tile_m = 128, tile_n = 128;  // tile of c
  int tile_k = 64;                 // columns of a and rows of b per k-step
  int stages = 3;                  // num_stages of the loop over k
  int num_warps = 8;
  int min_ctas_per_sm = 0;     // 2: one CTA can compute while another stores; 0: no minimum
  bool persistent = false;     // one program per SM, which loops over tiles
  bool tensor_copies = false;  // load a and b by TMA copies
  bool tensor_stores = false;  // store results by TMA copies (MatmulConfig)

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
