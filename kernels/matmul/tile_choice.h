// Width of a matmul's tiles, chosen by predicted time.
//
// Tiles of 128 x 256 are fastest if they fill whole waves of SMs. Example: c [640, 4096] has 80 of
// them for 132 SMs, but 130 tiles of 128 x 160, which take 0.71 of the time (H200).
//
// A call takes the time of its waves, or of its bytes if that is longer. A full wave takes the time
// of one tile. The last wave takes that of one tile, or of the parts of split tiles. The time of a
// tile is linear in its k-steps, and that of a k-step is linear in the columns of the tile.
#pragma once

#include <cstdint>
#include <vector>

namespace ligerdsl::kernels {

// A matmul by persistent programs with tiles of 128 x columns, and k-steps of 64 16-bit elements.
struct WideMatmul {
  int64_t cols = 0, depth = 0;  // N and K
  int64_t programs = 0;         // that run at one time
  int64_t least_saved = 0;      // k-steps that a split wave saves at least; 0: waves are not split
  int64_t multiple = 1;         // the columns of a tile are a multiple of this
};

constexpr int kWidestTile = 256;

// Returns the predicted time in us, without the launch. The last wave is split only if tiles have
// kWidestTile columns.
double predicted_us(const WideMatmul& matmul, int64_t rows, int tile_n);

// Returns the columns of the tiles for this number of rows. Narrower tiles than kWidestTile must
// save some percent.
int chosen_tile_n(const WideMatmul& matmul, int64_t rows);

// Returns upper bounds of row counts, more than `few`, whose choices differ from that of the next
// bound. More rows than the last bound have tiles of kWidestTile columns.
std::vector<int64_t> bounds_of_tile_choices(const WideMatmul& matmul, int64_t few);

}  // namespace ligerdsl::kernels
