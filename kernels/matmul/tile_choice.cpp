#include "kernels/matmul/tile_choice.h"

#include <algorithm>

#include "kernels/core/launch.h"
#include "kernels/core/machine_rates.h"
#include "kernels/matmul/split_wave.h"

namespace ligerdsl::kernels {
namespace {

constexpr int64_t kTileM = 128, kTileK = 64;
constexpr int kNarrowTiles[] = {224, 192, 160};

// Times in us of bf16 NT matmuls with K from 1,984 to 11,008 (H200). Reads from L2 limit narrower
// tiles than 160.
constexpr double kStepUs = 0.022, kColumnUs = 0.00253;  // k-step = kStepUs + tile_n x kColumnUs
constexpr double kTileUs = 1;                           // start and end of a tile
constexpr double kIdleGain = 0.2;  // part of the time that is saved if almost all SMs are idle
// Storing and adding the parts of a split wave, and the second launch.
constexpr double kSplitUs = 6, kPartUs = 0.08;

// Smaller gains may be errors of the prediction.
constexpr double kLeastGain = 0.05, kLeastGainUs = 1;
constexpr int64_t kMostWaves = 3;   // of widest tiles; more were not timed
constexpr size_t kMostBounds = 12;  // each is a schedule of the plan

double us_per_step(int tile_n) {
  return kStepUs + tile_n * kColumnUs;
}

// Returns the time of the last wave, which has `left` tiles.
double last_wave_us(const WideMatmul& m, int64_t left, int64_t k_steps, int tile_n) {
  const double whole = static_cast<double>(k_steps) * us_per_step(tile_n) + kTileUs;
  const int64_t programs_per_tile = m.programs / left;
  if (m.least_saved == 0 || tile_n != kWidestTile || programs_per_tile < 2) return whole;
  const int64_t steps =
      std::max<int64_t>(ceil_div(k_steps, programs_per_tile), SplitWave::kLeastSteps);
  if (k_steps - steps < m.least_saved) return whole;
  const int64_t parts = ceil_div(k_steps, steps) * left;
  return static_cast<double>(steps) * us_per_step(tile_n) + kTileUs + kSplitUs +
         static_cast<double>(parts) * kPartUs;
}

// Returns the largest number of rows whose tile width is chosen.
int64_t most_chosen_rows(const WideMatmul& m) {
  return kMostWaves * m.programs / ceil_div(m.cols, kWidestTile) * kTileM;
}

}  // namespace

double predicted_us(const WideMatmul& m, int64_t rows, int tile_n) {
  const int64_t tiles = ceil_div(rows, kTileM) * ceil_div(m.cols, tile_n),
                k_steps = ceil_div(m.depth, kTileK), waves = tiles / m.programs,
                left = tiles % m.programs;
  double us =
      static_cast<double>(waves) * (static_cast<double>(k_steps) * us_per_step(tile_n) + kTileUs);
  if (left > 0) us += last_wave_us(m, left, k_steps, tile_n);
  if (waves == 0)
    us *= 1 - kIdleGain * (1 - static_cast<double>(left) / static_cast<double>(m.programs));
  constexpr int64_t kBytes = 2;
  constexpr double kBytesPerGbpsUs = 1e3;
  const double memory =
      static_cast<double>(kBytes * (rows * m.depth + m.cols * m.depth + rows * m.cols)) /
      kBytesPerGbpsUs / kH200.memory_gbps;
  return std::max(us, memory);
}

int chosen_tile_n(const WideMatmul& m, int64_t rows) {
  int best = kWidestTile;
  if (rows > most_chosen_rows(m)) return best;
  const double widest = predicted_us(m, rows, kWidestTile);
  double least = std::min(widest * (1 - kLeastGain), widest - kLeastGainUs);
  for (const int tile_n : kNarrowTiles) {
    if (tile_n % m.multiple != 0) continue;
    const double us = predicted_us(m, rows, tile_n);
    if (us < least) best = tile_n, least = us;
  }
  return best;
}

std::vector<int64_t> bounds_of_tile_choices(const WideMatmul& m, int64_t few) {
  std::vector<int64_t> bounds;
  const int64_t most = most_chosen_rows(m);
  for (int64_t rows = (few / kTileM + 1) * kTileM; rows <= most; rows += kTileM)
    if (chosen_tile_n(m, rows) != chosen_tile_n(m, rows + kTileM)) bounds.push_back(rows);
  // After the last bound come tiles of kWidestTile columns.
  if (bounds.size() > kMostBounds) bounds.resize(kMostBounds);
  return bounds;
}

}  // namespace ligerdsl::kernels
