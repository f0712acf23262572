// Matmul with an epilogue: c = f(alpha a_scale op(a) op(b) b_scale + bias) + beta c.
#pragma once

#include <optional>
#include <vector>

#include "kernels/core/activation_function.h"
#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "kernels/matmul/tile_choice.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Layout of a and b in memory: n as in the formula ([m, k], [k, n]), t transposed.
enum class Transposes { nn, nt, tn, tt };

// Activation f, in the order of LIGERDSL_EPILOGUE_*.
enum class Epilogue { none, gelu_tanh, gelu_erf, silu, relu, relu_squared };

struct MatmulOptions {
  Transposes transposes = Transposes::nn;
  int64_t cols = 4096;   // N: columns of c
  int64_t width = 4096;  // columns of a in memory: K, or M if a is transposed
  DType type = bf16;     // dtype of a and b
  bool mixed = false;    // fp8: b has the other fp8 dtype
  bool scaled_rows = false, scaled_cols = false;  // a_scale per row, b_scale per column
  // Each k-step accumulates from 0 and is added to an f32 accumulator outside of the tensor cores,
  // whose fp8 accumulators have only about 14 bits.
  bool two_level_accumulation = false;
  DType c_type = bf16;
  bool has_bias = false;
  DType bias_type = f32;
  Epilogue epilogue = Epilogue::none;
  bool scaled = false;     // alpha is not 1
  bool row_scale = false;  // multiply row i of op(a) op(b) by row_scale[i]
  bool adds = false;       // beta is not 0
  bool unit_beta = false;  // with `adds`: beta is 1
  bool outer = false;      // add the outer product of outer_rows and outer_cols to the accumulator
  int64_t batch = 0;       // number of matrices in a batch; 0: no batch dimension
  int64_t most_rows = 0;   // upper bound of M in all calls, for the schedule; 0: none
  // Rows of a or b are not aligned. If copies save time, unaligned operands are copied first
  // (aligned_copy.h). Otherwise the schedule loads single elements.
  bool unaligned = false;
  bool any_size = false;   // sizes are dynamic; cols and width only choose the schedule
  bool in_blocks = false;  // a is in column blocks (column_blocks.h); nothing is transposed
  // a and row_scale are in the tile order of row_tiles.h, c is in the original order. Tiles without
  // a counted row are not multiplied.
  bool row_tiles = false;
  bool some_depth = false;  // the range of K to multiply is read from the device
  // Fallback after a matmul with some_depth. If ignored rows of b have NaN or infinity, that matmul
  // has no k-steps, and this one multiplies all of K with zeros in place of these rows. Otherwise
  // this one does nothing.
  bool ignores_rows = false;
  DType label_type = i64;

  int64_t known(int64_t size) const { return any_size ? dyn : size; }
  bool transposed_a() const { return transposes == Transposes::tn || transposes == Transposes::tt; }
  bool transposed_b() const { return transposes == Transposes::nt || transposes == Transposes::tt; }
  DType b_type() const { return !mixed || !is_fp8(type) ? type : type == f8e4m3 ? f8e5m2 : f8e4m3; }

  template <class V>
  void visit(V&& v) {
    v("transposes", transposes, {"nn", "nt", "tn", "tt"});
    v("cols", cols);
    v("width", width);
    v("type", type);
    v("mixed", mixed);
    v("c_type", c_type);
    v("has_bias", has_bias);
    v("bias_type", bias_type);
    v("epilogue", epilogue, {"none", "gelu_tanh", "gelu_erf", "silu", "relu", "relu_squared"});
    v("scaled", scaled);
    v("scaled_rows", scaled_rows);
    v("scaled_cols", scaled_cols);
    v("two_level_accumulation", two_level_accumulation);
    v("row_scale", row_scale);
    v("adds", adds);
    v("unit_beta", unit_beta);
    v("batch", batch);
    v("most_rows", most_rows);
    v("unaligned", unaligned);
    v("any_size", any_size);
    v("in_blocks", in_blocks);
  }
};

struct MatmulMeta : MatmulOptions {
  int64_t tile_m = 128, tile_n = 128;       // tile of c
  int64_t tile_k = 32;                      // columns of A and rows of B per k-step
  int stages = 1;                           // num_stages of the loop over k
  int64_t group = 16;                       // rows of tiles per group of concurrent programs
  int64_t splits = 1;                       // programs that share a tile's k-steps
  bool persistent = false;                  // one program per SM, which loops over tiles
  bool tensor_copies = false;               // load a and b by TMA copies
  bool adds_in_memory = false;              // add to c by reductions in memory, without loading c
  bool tensor_stores = false;               // StoreOptions::tensor_copies
  int64_t rows = 1, block = 1024;           // tile of matmul_finish; rows of matmul_finish_wave
  bool copied_a = false, copied_b = false;  // the operand was copied to aligned_a, aligned_b
  int64_t most_split = 0;                   // largest number of tiles in a split wave
  int64_t least_k_steps = 0;                // with most_split: least K, in k-steps, to split
  int64_t programs = 0;                     // with most_split: persistent programs of the launch
};

// Arguments. With `batch`, matrices have a first dimension for the batch; vectors do not:
// - a [M, K], or [K, M] if transposed; with in_blocks [blocks, M, 2^block_shift] and block_shift
//   i32
// - b [K, N], or [N, K] if transposed
// - aligned_a and aligned_b instead of a and b, if they are copied (aligned_copy.h)
// - with splits: partials [splits, M, N] f32; otherwise c [M, N] and the arguments of the epilogue
// - with most_split: also partials [programs, tile_m, tile_n] f32
// - epilogue, vectors: bias [N]; a_scale [M] and b_scale [N] f32 of any stride; outer_rows [M] and
//   outer_cols [N] f32; row_scale [M] f32, where 0 makes a row 0 even if it is not finite
// - epilogue, scalars: alpha (`scaled`) and beta (`adds` without unit_beta) f32
// - with row_tiles: places [tiles of rows] i32
// - with some_depth: depth [2] i32, begin and end in K; begin is a multiple of tile_k
// - with ignores_rows: depth, labels [K], ignore_index i64; does nothing if depth[0] is 0
//
// The arguments do not overlap.
void matmul(KernelBuilder& k, const MatmulMeta& m);

// Adds the splits in order. Arguments: partials, c, and those of the epilogue.
void matmul_finish(KernelBuilder& k, const MatmulMeta& m);

// Adds the parts of a split wave's tiles (split_wave.h). Arguments: partials, c, those of the
// epilogue, and `a` (or aligned_a) if it is transposed.
void matmul_finish_wave(KernelBuilder& k, const MatmulMeta& m);

// Rows: rows of a in memory: M, or K if a is transposed.
Operation matmul(const Machine& machine, const MatmulOptions& options);

struct MatmulConfig {
  int tile_m = 128, tile_n = 128;  // tile of c
  int tile_k = 64;                 // columns of A and rows of B per k-step
  int stages = 3;                  // num_stages of the loop over k
  int num_warps = 8;
  int num_ctas = 1;  // sm_90a: CTAs of a cluster, which divide a tile's rows and share B's tile
  int group = 16;    // rows of tiles per group of concurrent programs, which share operands in L2
  int splits = 1;    // programs that share a tile's k-steps
  // One program per SM, which loads the next tile's operands while it stores the current tile.
  bool persistent = false;
  // Tiles of the last wave are split along K if that saves at least this many k-steps
  // (split_wave.h); 0: never. Only in persistent kernels without a batch.
  int least_saved = 0;
  // sm_90a: operands are loaded by TMA copies, not by 16-byte copies by all threads.
  bool tensor_copies = false;
  // Adds f32 results with beta = 1 to c by reductions in memory (Partition::add), so that no thread
  // waits for c.
  bool adds_in_memory = false;
  // c is stored by TMA copies, which overlap with the next tile of a persistent program. A matmul
  // that adds f32 to c then takes 1.12 times as long (H100).
  bool tensor_stores = false;

  template <class V>
  void visit(V&& v) {
    v("tile_m", tile_m, powers_of_two(16, 512), Bits::same);
    v("tile_n", tile_n, choices({16, 32, 64, 96, 128, 160, 192, 224, 256}), Bits::same);
    v("tile_k", tile_k, powers_of_two(16, 128), Bits::same);
    v("stages", stages, choices({1, 2, 3, 4, 5, 6}), Bits::same);
    v("num_warps", num_warps, powers_of_two(2, 16), Bits::same);
    v("num_ctas", num_ctas, choices({1, 2, 4}), Bits::same);
    v("group", group, powers_of_two(1, 64), Bits::same);
    v("splits", splits, powers_of_two(1, 16), Bits::batch);
    v("persistent", persistent, Bits::same);
    v("least_saved", least_saved, choices({0, 4, 8, 16, 24, 32}), Bits::batch);
    v("tensor_copies", tensor_copies, Bits::same);
    v("adds_in_memory", adds_in_memory, Bits::row);  // subnormal results become 0
    v("tensor_stores", tensor_stores, Bits::same);
  }
};

// Returns true if tensor cores accumulate fp8 with fewer bits than f32 has.
bool keeps_few_bits_of_fp8(const Machine& machine);

// Returns true if matmuls of this dtype are about as fast as those of cuBLASLt.
bool has_fast_products(const Machine& machine, DType type);

// Returns the values of most_rows that have their own schedules, in ascending order. With few rows,
// the tiles for many rows would be mostly empty or leave SMs idle.
std::vector<int64_t> few_rows(const Machine& machine, const MatmulOptions& options);

// Returns the row counts above few_rows for which tile_choice.h predicts a faster tile than that of
// the general schedule. The schedule with most_rows = most() uses this tile.
std::vector<ChosenRows> middle_rows(const Machine& machine, const MatmulOptions& options);

// Returns the matmul whose tile is chosen by predicted time for calls with more rows than few_rows,
// or none if the schedule does not predict times.
std::optional<WideMatmul> wide_matmul(const Machine& machine, MatmulOptions options);

// Returns true if calls with unaligned rows of a or b have their own schedule (`unaligned`). That
// is so if a row length is not a multiple of 16 bytes, or if a cluster, which needs TMA copies, may
// be fastest.
bool has_unaligned_schedule(const Machine& machine, const MatmulOptions& options);

// Returns the least number of rows of a in memory for which calls copy unaligned operands, or 0 if
// no call does.
int64_t least_rows_of_copies(const Machine& machine, const MatmulOptions& options);

// Returns the schedule of a matmul without clusters. Kernels that fuse more work into a matmul
// start from this schedule.
MatmulConfig one_cta_product(const Machine& machine, const MatmulOptions& options);

// Returns the compile-time parameters for options and a config.
MatmulMeta matmul_meta(const MatmulOptions& o, const MatmulConfig& config);
// Returns a matmul that reads its sizes from its views. Rows of its launch: number of tiles of c.
Step matmul_of_any_size(const Machine& machine, MatmulOptions options, const MatmulConfig& config);
// Returns the number of tiles of c [m, n].
int64_t matmul_tiles(const MatmulConfig& config, int64_t m, int64_t n);

using Matmul = ConfiguredKernel<MatmulOptions, MatmulConfig>;
extern const Matmul matmul_kernel;

}  // namespace ligerdsl::kernels
