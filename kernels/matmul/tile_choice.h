// Tile of a matmul with many rows, chosen by predicted time.
//
// Tiles of 128 x 256 are fastest if they fill whole waves of SMs. Example: c [640, 4096] has 80 of
// them for 132 SMs, but 130 tiles of 128 x 160, which take 0.71 of the time. c [4096, 4104] has 544
// of them, five waves, but 528 tiles of 256 x 128, four waves (H200).
//
// A call takes the time of its waves, or of its bytes if that is longer. A full wave takes the time
// of one tile. The last wave takes that of one tile, or of the parts of split tiles. The time of a
// tile is linear in its k-steps. A k-step takes the time of its multiply-adds, or of the cache
// lines that it loads if that is longer.
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
  int64_t programs = 0;         // CTAs that run at one time
  int64_t least_saved = 0;      // k-steps that a split wave saves at least; 0: waves are not split
  int64_t multiple = 1;         // the columns of a tile are a multiple of this
  // Rows of the operand begin inside lines of L2, so that each part of a row takes a line more.
  bool cuts_a = false, cuts_b = false;
  bool clusters = false;  // clusters of two CTAs are possible
};

// Returns the predicted time in us, without the launch. Only usual tiles are split.
double predicted_us(const WideMatmul& matmul, int64_t rows, const MatmulTile& tile);

// Returns the cluster of two if it is possible and rows of b are cut, and else MatmulTile{}.
MatmulTile usual_tile(const WideMatmul& matmul);

// Returns the tile of the least predicted time. 0 rows: that for very many rows, whose last wave
// does not matter; it must save some percent of the time of the usual tile. For another number of
// rows, a tile must save some percent of the time of the tile for 0 rows.
MatmulTile chosen_tile(const WideMatmul& matmul, int64_t rows);

// Numbers of rows for which a tile is chosen.
class ChosenRows {
 public:
  static constexpr int64_t kBlock = 128;  // the choice is the same for all rows of a block

  explicit ChosenRows(const MatmulTile& tile) : tile_(tile) {}

  const MatmulTile& tile() const { return tile_; }
  void add(int64_t block);
  // Returns true if the tile is chosen for this number of rows, at least 1.
  bool contains(int64_t rows) const {
    const auto block = static_cast<uint64_t>((rows - 1) / kBlock);
    return block < blocks_.size() && blocks_[block];
  }
  // Returns the largest of these numbers.
  int64_t most() const { return static_cast<int64_t>(blocks_.size()) * kBlock; }

 private:
  MatmulTile tile_;
  std::vector<bool> blocks_;
};

// Returns the tiles that are chosen for some numbers of rows above `few`, except the tile for any
// number of rows.
std::vector<ChosenRows> rows_of_tiles(const WideMatmul& matmul, int64_t few);

}  // namespace ligerdsl::kernels
