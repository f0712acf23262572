// Output of a run: progress, loss curve, memory.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "history.h"

namespace train {

// Prints to stdout. A closed pipe or a full disk does not end the training; output_complete()
// reports it at the end.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  (void)!std::fwrite(text.data(), 1, text.size(), stdout);
}
bool output_complete();

// Returns a text such as "04:05", "3:04:05" or "2 d 03:04:05".
std::string duration(double seconds);

// A progress bar. If stdout is not a terminal, only `line` prints.
class Progress {
 public:
  Progress(int64_t first_step, int64_t steps, int64_t tokens_per_step);
  bool live() const { return live_; }
  // pause() and resume() exclude time outside of training steps from tokens/s.
  void pause();
  void resume();
  double seconds() const;  // duration of training steps
  double tokens_per_second(int64_t done) const;
  void bar(int64_t done, double bits);
  // Prints a permanent line. held_out may be NaN.
  void line(int64_t done, double bits, double held_out);
  void clear();  // removes the bar

 private:
  using Clock = std::chrono::steady_clock;
  const int64_t first_, steps_, tokens_;
  const bool live_;
  Clock::time_point started_ = Clock::now(), drawn_{};
  double before_ = 0;  // seconds of training steps up to the last pause
  bool running_ = true;
};

enum class Plot { drawn, no_gnuplot, failed };
// Draws the loss curve as an SVG with gnuplot. Prints a message to stderr on failure.
Plot plot_losses(const std::filesystem::path& svg, const std::vector<Point>& training,
                 const std::vector<Point>& held_out, double byte_frequency_bits);

int64_t peak_resident_bytes();

}  // namespace train
