// Matrix products with an epilogue: c = f(alpha a_scale op(a) op(b) b_scale + bias) + beta c.
#pragma once

#include <optional>
#include <vector>

#include "kernels/core/activation_function.h"
#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// How a and b lie in memory: n as they are multiplied, t transposed.
enum class Factors { nn, nt, tn, tt };

// f, as LIGERDSL_EPILOGUE_* counts them.
enum class Epilogue { none, gelu_tanh, gelu_erf, silu, relu, relu_squared };

struct MatmulOptions {
  Factors factors = Factors::nn;
  int64_t cols = 4096;                            // N: width of c
  int64_t width = 4096;                           // of a in memory: K, or M where a is transposed
  DType type = bf16;                              // of a and b
  bool mixed = false;                             // of fp8: b is of the other one than a
  bool scaled_rows = false, scaled_cols = false;  // by a_scale of each row, b_scale of each column
  // A turn's sums are made from 0 and added outside of the tensor cores, which keep some 14 bits of sums of fp8.
  bool turns_apart = false;
  DType c_type = bf16;
  bool has_bias = false;
  DType bias_type = f32;
  Epilogue epilogue = Epilogue::none;
  bool scaled = false;     // alpha is not 1
  bool row_scale = false;  // every row of op(a) op(b) is multiplied by a number of its own
  bool adds = false;       // beta is not 0
  bool unit_beta = false;  // where it adds, beta is 1
  bool outer = false;      // sums then get a number of their row times one of their column
  int64_t batch = 0;       // products of matrices of their own, one behind the other; 0: one, of two dimensions
  int64_t most_rows = 0;   // that calls have, for the schedule; 0: any number
  bool unaligned = false;  // rows of a or b that begin anywhere, for the schedule
  bool any_size = false;   // no size is known when the kernel is compiled; cols and width are what the schedule is for
  bool in_blocks = false;  // a's columns lie in blocks (column_blocks.h), its rows and b as they are multiplied
  // Rows of a and of row_scale stand in tiles where row_tiles.h says; tiles none of whose rows counts are not multiplied.
  bool row_tiles = false;
  bool some_depth = false;  // a device's numbers say which part of K is multiplied
  // Does what matmul with some_depth leaves out if ignored rows of b hold something else than finite numbers: K is all
  // multiplied, with zeros in these rows. Nothing is done otherwise.
  bool ignores_rows = false;
  DType label_type = i64;

  int64_t known(int64_t size) const { return any_size ? dyn : size; }
  bool transposed_a() const { return factors == Factors::tn || factors == Factors::tt; }
  bool transposed_b() const { return factors == Factors::nt || factors == Factors::tt; }
  DType b_type() const { return !mixed || !is_fp8(type) ? type : type == f8e4m3 ? f8e5m2 : f8e4m3; }

  template <class V>
  void visit(V&& v) {
    v("factors", factors, {"nn", "nt", "tn", "tt"});
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
    v("turns_apart", turns_apart);
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
  int64_t tile_m = 128, tile_n = 128;  // of c
  int64_t tile_k = 32;                 // of a and b in one turn
  int stages = 1;                      // loads in flight
  int64_t group = 16;                  // rows of tiles that are done together
  int64_t splits = 1;                  // programs that share a tile's turns
  bool persistent = false;             // fewer programs than tiles: each makes tile after tile
  bool tensor_copies = false;          // a and b come by copies of whole tiles
  bool adds_in_memory = false;         // c is not loaded in order to be added to
  bool tensor_stores = false;          // StoreOptions::tensor_copies
  int64_t rows = 1, block = 1024;      // of a tile of matmul_finish
};

// Arguments, all but vectors with the batch in front where there is one: a [M, K] or, transposed, [K, M], or in blocks
// [blocks, M, 2^block_shift] and block_shift i32; b [K, N] or
// [N, K]; with splits partials [splits, M, N] f32, else c [M, N], bias [N] where there is one, a_scale [M] and b_scale [N] f32
// of any stride, row_scale [M] f32 (rows whose number is 0 are 0, whatever their sums), outer_rows [M] and outer_cols [N] f32,
// f32 scalars alpha and beta where they count (beta not where it is 1); with row_tiles places [tiles of rows] i32; with some_depth
// depth [2] i32, where K begins, at a multiple of tile_k, and ends; with ignores_rows depth, which does nothing unless
// K begins behind 0, labels [K] and ignore_index i64. Nothing overlaps.
void matmul(KernelBuilder& k, const MatmulMeta& m);

// Arguments: partials, and what matmul has without splits beside a and b.
void matmul_finish(KernelBuilder& k, const MatmulMeta& m);

// Rows: of a in memory, M or, where it is transposed, K.
Operation matmul(const Machine& machine, const MatmulOptions& options);

struct MatmulConfig {
  int tile_m = 128, tile_n = 128;  // of c
  int tile_k = 64;                 // of a and b in one turn
  int stages = 3;                  // loads in flight: the turn at work and those on their way
  int num_warps = 8;
  int num_ctas = 1;  // sm_90a: of a cluster, which share the rows of a tile and read its columns' factor once for all
  int group = 16;    // rows of tiles that are done together, so that what they read stays in the second-level cache
  int splits = 1;    // programs that share a tile's turns along k
  bool persistent = false;  // each multiprocessor makes tile after tile, whose first copies arrive while one is stored
  // sm_90a: one thread asks for a turn's factors (TMA) instead of all threads for 16 bytes after 16.
  bool tensor_copies = false;
  // Of f32 results that add with beta = 1: the memory adds (Partition::add), so that no thread waits for what is in c.
  bool adds_in_memory = false;
  // c goes to memory by tensor copies, while the next tile is multiplied where there is one. Of plain products not by themselves: an H100 took
  // 0.98 to 1.08 of the time of 16-byte stores, and 1.12 to add f32 to memory.
  bool tensor_stores = false;

  template <class V>
  void visit(V&& v) {
    v("tile_m", tile_m, powers_of_two(16, 512), Bits::same);
    v("tile_n", tile_n, powers_of_two(16, 256), Bits::same);
    v("tile_k", tile_k, powers_of_two(16, 128), Bits::same);
    v("stages", stages, choices({1, 2, 3, 4, 5, 6}), Bits::same);
    v("num_warps", num_warps, powers_of_two(2, 16), Bits::same);
    v("num_ctas", num_ctas, choices({1, 2, 4}), Bits::same);
    v("group", group, powers_of_two(1, 64), Bits::same);
    v("splits", splits, powers_of_two(1, 16), Bits::batch);
    v("persistent", persistent, Bits::same);
    v("tensor_copies", tensor_copies, Bits::same);
    v("adds_in_memory", adds_in_memory, Bits::row);  // subnormal sums become 0
    v("tensor_stores", tensor_stores, Bits::same);
  }
};

// Whether its tensor cores keep fewer bits of sums of fp8 than f32 has.
bool keeps_few_bits_of_fp8(const Machine& machine);

// Whether products of such factors are about as fast as those of the device's maker.
bool has_fast_products(const Machine& machine, DType type);

// Calls of at most so many rows have a schedule of their own (most_rows), fewest first: tiles of many rows would be empty, or
// leave multiprocessors without one.
std::vector<int64_t> few_rows(const Machine& machine, const MatmulOptions& options);

// Whether calls whose rows of a or b begin anywhere have a schedule of their own (unaligned): where their lengths say that they may, and
// where the schedule of others is of a cluster, which shares tensor copies alone.
bool has_unaligned_schedule(const Machine& machine, const MatmulOptions& options);

// The schedule of products of this kind whose CTAs share no tile: what kernels that multiply and do more begin with.
MatmulConfig one_cta_product(const Machine& machine, const MatmulOptions& options);

// What a Config makes of the options.
MatmulMeta matmul_meta(const MatmulOptions& o, const MatmulConfig& config);
// A product of any sizes, which takes its numbers from its views: rows of a launch are tiles of c.
Step matmul_of_any_size(const Machine& machine, MatmulOptions options, const MatmulConfig& config);
// The tiles of c [m, n].
int64_t matmul_tiles(const MatmulConfig& config, int64_t m, int64_t n);

using Matmul = ConfiguredKernel<MatmulOptions, MatmulConfig>;
extern const Matmul matmul_kernel;

}  // namespace ligerdsl::kernels
