// Tile of a matmul with many rows, chosen by predicted time.
//
// If rows of b are whole lines of L2, tiles of 128 x 256 that fill whole waves are fastest.
// Example: c [640, 4096] has 80 such tiles for 132 SMs, but 130 tiles of 128 x 160, which take 0.71
// of the time. In c [4096, 4104], 544 such tiles take five waves, but 528 tiles of 256 x 128 take
// four (H200).
//
// The model has the rates of an H200. A call's time is that of its waves or of its bytes, whichever
// is longer. A full wave takes one tile's time. The last wave takes the time of one tile, or of the
// parts of split tiles. A tile's time is linear in its k-steps. A k-step's time is that of its
// multiply-adds or of the lines that it loads, whichever is longer.
#pragma once

#include <cstdint>
#include <vector>

namespace ligerdsl::kernels {

struct MatmulTile {
  int rows = 128, cols = 256;  // of c
  int ctas = 1;                // CTAs of a cluster, which divide the rows and share b

  bool operator==(const MatmulTile&) const = default;
};

// A matmul by persistent programs, with k-steps of 64 16-bit elements.
struct WideMatmul {
  int64_t cols = 0, depth = 0;  // N and K
  int64_t sms = 0;
  int64_t least_saved = 0;  // least k-steps that splitting a wave must save; 0: no splits
  int64_t multiple = 1;     // the columns of a tile are a multiple of this
  // Rows of the operand are no multiples of 128 bytes, so that 128 bytes span two L2 cache lines.
  bool a_crosses_lines = false, b_crosses_lines = false;
  bool clusters = false;  // clusters of two CTAs are possible and may be fastest
};

// Returns the predicted time in us, without the launch. Only waves of usual tiles are split.
double predicted_us(const WideMatmul& matmul, int64_t rows, const MatmulTile& tile);

// Returns the cluster of two if it may be fastest, otherwise MatmulTile{}.
MatmulTile usual_tile(const WideMatmul& matmul);

// Returns the tile with the least predicted time, not counting a last wave. Any tile except
// usual_tile must save 5 % of usual_tile's time.
MatmulTile tile_for_any_rows(const WideMatmul& matmul);

// Returns the tile with the least predicted time. Any tile except tile_for_any_rows must save 5 %
// and 1 us of that tile's time.
MatmulTile chosen_tile(const WideMatmul& matmul, int64_t rows);

// Returns the tile for unknown K: the one for K = 4096, unless the one for a large K saves 5 %
// there. Splitting a wave saves more time if K is large; only usual tiles are split.
MatmulTile tile_for_any_depth(WideMatmul matmul, int64_t rows);

// Numbers of rows for which a tile is chosen.
class ChosenRows {
 public:
  static constexpr int64_t kBlock = 128;  // all numbers of rows in a block have the same tile

  explicit ChosenRows(const MatmulTile& tile) : tile_(tile) {}

  const MatmulTile& tile() const { return tile_; }
  // Adds the numbers of rows block x kBlock + 1 to (block + 1) x kBlock. Blocks must ascend.
  void add(int64_t block);
  // Returns true if the tile is chosen for this number of rows.
  bool contains(int64_t rows) const {
    const uint64_t block = static_cast<uint64_t>(rows - 1) / kBlock;
    return block < blocks_.size() && blocks_[block];
  }
  // Returns the largest of these numbers.
  int64_t most() const { return static_cast<int64_t>(blocks_.size()) * kBlock; }

 private:
  MatmulTile tile_;
  std::vector<bool> blocks_;
};

// Returns the numbers of rows for each chosen tile except tile_for_any_rows: more than `few` rows,
// and at most eight waves of MatmulTile{}.
std::vector<ChosenRows> rows_of_tiles(const WideMatmul& matmul, int64_t few);

}  // namespace ligerdsl::kernels
