// Tile of a matmul with many rows, chosen by predicted time.
//
// If rows of b are whole lines of L2, tiles of 128 x 256 that fill whole waves are fastest.
// Example: c [640, 4096] has 80 of them for 132 SMs, but 130 tiles of 128 x 160, which take 0.71 of
// the time. c [4096, 4104] has 544 of them, five waves, but 528 tiles of 256 x 128, four waves
// (H200).
//
// The model has the rates of an H200. A call takes the time of its waves, or of its bytes if that
// is longer. A full wave takes the time of one tile. The last wave takes that of one tile, or of
// the parts of split tiles. The time of a tile is linear in its k-steps. A k-step takes the time of
// its multiply-adds, or of the lines that it loads if that is longer.
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
  // Rows of the operand are no multiples of 128 bytes: 128 bytes of them take two lines of L2.
  bool a_crosses_lines = false, b_crosses_lines = false;
  bool clusters = false;  // clusters of two CTAs are possible and may be fastest
};

// Returns the predicted time in us, without the launch. Only waves of usual tiles are split.
double predicted_us(const WideMatmul& matmul, int64_t rows, const MatmulTile& tile);

// Returns the cluster of two if it may be fastest, and else MatmulTile{}.
MatmulTile usual_tile(const WideMatmul& matmul);

// Returns the tile of the least predicted time without a last wave. A tile must save 5 % of the
// time of usual_tile.
MatmulTile tile_for_any_rows(const WideMatmul& matmul);

// Returns the tile of the least predicted time. A tile must save 5 % and 1 us of the time of
// tile_for_any_rows.
MatmulTile chosen_tile(const WideMatmul& matmul, int64_t rows);

// Returns the tile for unknown K: that of K = 4096, or that of a large K if it saves 5 % there.
// Splitting a wave, which only usual tiles do, saves more time if K is large.
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

// Returns the rows of each chosen tile except tile_for_any_rows: more than `few` rows, and at most
// eight waves of MatmulTile{}.
std::vector<ChosenRows> rows_of_tiles(const WideMatmul& matmul, int64_t few);

}  // namespace ligerdsl::kernels
