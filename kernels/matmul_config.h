// The schedules of matrix products.
#pragma once

#include <vector>

#include "kernels/config.h"
#include "kernels/matmul.h"

namespace ligerdsl::kernels {

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
