// Products of groups of rows by a matrix of each group, as the experts of a mixture have them.
//
// The rows of a lie sorted by group: offsets [experts + 1] are numbers of rows, of which group e has [offsets[e],
// offsets[e + 1]). They are read on the device. A group may be empty. Offsets that decrease, or that are below 0 or beyond
// the rows there are, are reported by the number of their group (kErrorBase); then every access stays within the
// arguments, and what is in c is not defined.
#pragma once

#include "kernels/matmul.h"

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

}  // namespace ligerdsl::kernels
