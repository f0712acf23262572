// Chooses the tile of a matmul with many rows by predicted time.
//
// If rows of b are whole L2 cache lines, tiles of 128 x 256 are fastest, provided that they fill
// whole waves. Example: c [640, 4096] has 80 such tiles for the 132 SMs of an H200, but 130 tiles
// of 128 x 160, which are faster. In c [4096, 4104], 544 such tiles take five waves, but 528 tiles
// of 256 x 128 take four.
//
// The model has the rates of an H200. A call takes as long as its waves or its bytes in memory,
// whichever is longer. A full wave takes as long as one tile. The last wave takes as long as one
// tile, or one part of a split tile. A tile's time is linear in its k-steps. A k-step takes as long
// as its multiply-adds or its loads of cache lines, whichever is longer.
#pragma once

#include <cstdint>
#include <vector>

namespace ligerdsl::kernels {

struct MatmulTile {
  int rows = 128, cols = 256;  // of c
  int ctas = 1;                // CTAs of a cluster, which divide the rows and share the tile of b

  bool operator==(const MatmulTile&) const = default;
};

// A matmul by persistent programs, with k-steps of 64 16-bit elements.
struct WideMatmul {
  int64_t cols = 0, depth = 0;  // N and K
  int64_t sms = 0;
  int64_t least_saved = 0;  // least k-steps that splitting the last wave must save; 0: no splits
  int64_t multiple = 1;     // the columns of a tile are a multiple of this
  // The operand's rows are not multiples of 128 bytes, so 128 bytes of a row span two L2 cache
  // lines.
  bool a_crosses_lines = false, b_crosses_lines = false;
  bool clusters = false;  // clusters of two CTAs are possible and may be fastest
};

// Returns the predicted time in us, without the launch. Only waves of usual_tile are split.
double predicted_us(const WideMatmul& matmul, int64_t rows, const MatmulTile& tile);

// Returns the tile of a cluster of two CTAs if it may be fastest, otherwise MatmulTile{}.
MatmulTile usual_tile(const WideMatmul& matmul);

// Returns the tile with the least predicted time per row, without a last wave. A tile other than
// usual_tile must save 5 % of usual_tile's time.
MatmulTile tile_for_any_rows(const WideMatmul& matmul);

// Returns the tile with the least predicted time for `rows` rows. A tile other than
// tile_for_any_rows must save 5 % of that tile's time, and 1 us.
MatmulTile chosen_tile(const WideMatmul& matmul, int64_t rows);

// Returns the tile for unknown K. It is the tile for K = 4096, unless the tile for K = 32768 saves
// 5 % at K = 32768. The tiles may differ, because splitting a wave saves more with a large K.
MatmulTile tile_for_any_depth(WideMatmul matmul, int64_t rows);

// Set of the row counts for which chosen_tile returns tile().
class ChosenRows {
 public:
  static constexpr int64_t kBlock = 128;  // all row counts in a block have the same tile

  explicit ChosenRows(const MatmulTile& tile) : tile_(tile) {}

  const MatmulTile& tile() const { return tile_; }
  // Adds the row counts block * kBlock + 1 to (block + 1) * kBlock. Blocks must ascend.
  void add(int64_t block);
  // Returns true if the set has this row count.
  bool contains(int64_t rows) const {
    const uint64_t block = static_cast<uint64_t>(rows - 1) / kBlock;
    return block < blocks_.size() && blocks_[block];
  }
  // Returns the largest row count in the set.
  int64_t most() const { return static_cast<int64_t>(blocks_.size()) * kBlock; }

 private:
  MatmulTile tile_;
  std::vector<bool> blocks_;
};

// Returns one set per chosen tile other than tile_for_any_rows. Row counts are more than `few`, and
// need at most eight waves of MatmulTile{}.
std::vector<ChosenRows> rows_of_tiles(const WideMatmul& matmul, int64_t few);

}  // namespace ligerdsl::kernels
