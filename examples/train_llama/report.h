// What a run shows: progress while it goes, the loss curve, memory.
#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

#include "config.h"

namespace train {

// A bar that moves on a terminal; elsewhere nothing but the plain lines that `line` prints.
class Progress {
 public:
  Progress(int64_t first_step, int64_t steps, int64_t tokens_per_step);
  bool live() const { return live_; }
  // Time spent outside of training steps does not count for tokens/s.
  void pause();
  void resume();
  double seconds() const;  // training alone
  double tokens_per_second(int64_t done) const;
  void bar(int64_t done, double bits);
  // One lasting line. held_out may be NaN.
  void line(int64_t done, double bits, double held_out);
  void clear();  // takes the bar away

 private:
  using Clock = std::chrono::steady_clock;
  const int64_t first_, steps_, tokens_;
  const bool live_;
  Clock::time_point started_ = Clock::now(), drawn_{};
  double before_ = 0;  // seconds of earlier stretches
  bool running_ = true;
};

struct Point {
  int64_t step;
  double bits;
};
// Writes an SVG through gnuplot; a message on stderr when that is not possible. Returns whether the file is there.
bool plot_losses(const std::filesystem::path& svg, const std::vector<Point>& training,
                 const std::vector<Point>& held_out, double byte_frequency_bits);

int64_t peak_resident_bytes();

}  // namespace train
