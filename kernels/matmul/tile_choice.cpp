#include "kernels/matmul/tile_choice.h"

#include <algorithm>

#include "kernels/core/launch.h"
#include "kernels/core/machine_rates.h"
#include "kernels/matmul/split_wave.h"

namespace ligerdsl::kernels {
namespace {

constexpr int64_t kTileM = 128, kTileK = 64;
constexpr MatmulTile k128x256{}, kClusterOfTwo{256, 256, 2};
// Narrower tiles of 128 rows would be limited by reads from L2.
constexpr MatmulTile kOthers[] = {{256, 128}, {128, 224}, {128, 192}, {128, 160}};

// Times in us of bf16 matmuls with K from 1,984 to 11,008 (H200). Two calls take at least a third
// longer than predicted, for unknown reasons: 65536 x 320 x 4096 NT with tiles of 128 x 256, and
// 1025 x 4096 x 4096 NN with tiles of 128 x 160.
constexpr double kStepUs = 0.022, kColumnUs = 0.00253;  // 128 rows: us = kStepUs + cols * kColumnUs
constexpr double kClusterFactor = 1.15;                 // multiplies a cluster's multiply time
constexpr double kLineUs = 0.00145;                     // per L2 cache line that a k-step loads
constexpr double kTileUs = 1;                           // per tile: first loads and store
constexpr double kIdleGain = 0.2;  // fraction of a tile's time saved if other SMs are idle
// Cost of a split wave: the second launch, and storing and adding each part.
constexpr double kSplitUs = 6, kPartUs = 0.08;

// Least predicted gain, relative and in us. Errors of the prediction reach 10 %.
constexpr double kLeastGain = 0.05, kLeastGainUs = 1;
constexpr int64_t kMostWaves = 8;  // in tiles of k128x256; larger calls use tile_for_any_rows

double us_per_step(const WideMatmul& m, const MatmulTile& tile) {
  const double rows = static_cast<double>(tile.rows) / tile.ctas;
  const double multiply =
      (kStepUs + tile.cols * kColumnUs * rows / kTileM) * (tile.ctas > 1 ? kClusterFactor : 1);
  const double lines = rows * (m.a_crosses_lines ? 2 : 1) +
                       static_cast<double>(tile.cols) / tile.ctas * (m.b_crosses_lines ? 2 : 1);
  return std::max(multiply, lines * kLineUs);
}

double us_per_tile(const WideMatmul& m, const MatmulTile& tile) {
  return static_cast<double>(ceil_div(m.depth, kTileK)) * us_per_step(m, tile) + kTileUs;
}

// Returns the time in us of a last wave of `left` tiles on `at_once` programs.
double last_wave_us(const WideMatmul& m, int64_t left, int64_t at_once, const MatmulTile& tile) {
  const double whole = us_per_tile(m, tile);
  const int64_t k_steps = ceil_div(m.depth, kTileK), programs_per_tile = at_once / left;
  if (m.least_saved == 0 || tile != usual_tile(m) || programs_per_tile < 2) return whole;
  const int64_t steps =
      std::max<int64_t>(ceil_div(k_steps, programs_per_tile), SplitWave::kLeastSteps);
  if (k_steps - steps < m.least_saved) return whole;
  const int64_t parts = ceil_div(k_steps, steps) * left;
  return static_cast<double>(steps) * us_per_step(m, tile) + kTileUs + kSplitUs +
         static_cast<double>(parts * tile.ctas) * kPartUs;
}

// Returns SM-microseconds per row of c. The last wave and the rate of memory are ignored.
double sm_us_per_row(const WideMatmul& m, const MatmulTile& tile) {
  return static_cast<double>(ceil_div(m.cols, tile.cols) * tile.ctas) * us_per_tile(m, tile) /
         tile.rows;
}

// Returns the fastest tile if it saves more than `gain` compared with `usual`, otherwise `usual`.
template <class Time>
MatmulTile fastest_tile(const WideMatmul& m, const MatmulTile& usual, double gain, Time time) {
  MatmulTile best = usual;
  double least = time(usual) - gain;
  const auto compare = [&](const MatmulTile& tile) {
    if (const double us = time(tile); us < least) best = tile, least = us;
  };
  compare(usual_tile(m));
  for (const MatmulTile& tile : kOthers)
    if (tile.cols % m.multiple == 0) compare(tile);
  return best;
}

}  // namespace

MatmulTile usual_tile(const WideMatmul& m) {
  return m.clusters && m.b_crosses_lines ? kClusterOfTwo : k128x256;
}

double predicted_us(const WideMatmul& m, int64_t rows, const MatmulTile& tile) {
  const int64_t tiles = ceil_div(rows, tile.rows) * ceil_div(m.cols, tile.cols),
                at_once = std::max<int64_t>(m.sms / tile.ctas, 1), waves = tiles / at_once,
                left = tiles % at_once;
  double us = static_cast<double>(waves) * us_per_tile(m, tile);
  if (left > 0) us += last_wave_us(m, left, at_once, tile);
  if (waves == 0)
    us *= 1 - kIdleGain * (1 - static_cast<double>(left) / static_cast<double>(at_once));
  constexpr int64_t kBytes = 2;
  constexpr double kBytesPerGbpsUs = 1e3;
  const double memory =
      static_cast<double>(kBytes * (rows * m.depth + m.cols * m.depth + rows * m.cols)) /
      kBytesPerGbpsUs / kH200.memory_gbps;
  return std::max(us, memory);
}

MatmulTile tile_for_any_rows(const WideMatmul& m) {
  const auto time = [&](const MatmulTile& tile) { return sm_us_per_row(m, tile); };
  const MatmulTile usual = usual_tile(m);
  return fastest_tile(m, usual, time(usual) * kLeastGain, time);
}

MatmulTile chosen_tile(const WideMatmul& m, int64_t rows) {
  const auto time = [&](const MatmulTile& tile) { return predicted_us(m, rows, tile); };
  const MatmulTile usual = tile_for_any_rows(m);
  return fastest_tile(m, usual, std::max(time(usual) * kLeastGain, kLeastGainUs), time);
}

MatmulTile tile_for_any_depth(WideMatmul m, int64_t rows) {
  constexpr int64_t kUsualDepth = 4096, kLargeDepth = 32768;
  m.depth = kUsualDepth;
  const MatmulTile tile = chosen_tile(m, rows);
  m.depth = kLargeDepth;
  const MatmulTile deep = chosen_tile(m, rows);
  const double least = predicted_us(m, rows, tile) * (1 - kLeastGain);
  return least <= predicted_us(m, rows, deep) ? tile : deep;
}

void ChosenRows::add(int64_t block) {
  blocks_.resize(static_cast<size_t>(block) + 1);
  blocks_.back() = true;
}

std::vector<ChosenRows> rows_of_tiles(const WideMatmul& m, int64_t few) {
  std::vector<ChosenRows> found;
  const MatmulTile of_any_rows = tile_for_any_rows(m);
  const int64_t blocks = kMostWaves * m.sms / ceil_div(m.cols, k128x256.cols);
  for (int64_t block = few / ChosenRows::kBlock; block < blocks; ++block) {
    const MatmulTile tile = chosen_tile(m, (block + 1) * ChosenRows::kBlock);
    if (tile == of_any_rows) continue;
    const auto same = std::ranges::find(found, tile, &ChosenRows::tile);
    (same == found.end() ? found.emplace_back(tile) : *same).add(block);
  }
  return found;
}

}  // namespace ligerdsl::kernels
