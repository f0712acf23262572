#include "report.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace train {
namespace {

// Returns true if stdout is a terminal that can redraw a line.
bool can_redraw() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) && term && std::strcmp(term, "dumb");
}

}  // namespace

bool output_complete() {
  return std::fflush(stdout) == 0 && !std::ferror(stdout);
}

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, 1e15));
  const int64_t days = whole / 86400, h = whole / 3600 % 24, m = whole / 60 % 60, s = whole % 60;
  if (days) return fmt::format("{} d {:02}:{:02}:{:02}", days, h, m, s);
  return h ? fmt::format("{}:{:02}:{:02}", h, m, s) : fmt::format("{:02}:{:02}", m, s);
}

Progress::Progress(int64_t first_step, int64_t steps, int64_t tokens_per_step)
    : first_(first_step), steps_(steps), tokens_(tokens_per_step), live_(can_redraw()) {}

void Progress::pause() {
  before_ = seconds();
  running_ = false;
}

void Progress::resume() {
  started_ = Clock::now();
  running_ = true;
}

double Progress::seconds() const {
  return before_ + (running_ ? std::chrono::duration<double>(Clock::now() - started_).count() : 0);
}

double Progress::tokens_per_second(int64_t done) const {
  return (done - first_) * tokens_ / std::max(seconds(), 1e-9);
}

void Progress::bar(int64_t done, double bits) {
  if (!live_ || Clock::now() - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = Clock::now();
  constexpr int kWidth = 30;
  int filled = static_cast<int>(kWidth * done / steps_);
  double left = static_cast<double>(steps_ - done) * seconds() /
                static_cast<double>(std::max<int64_t>(done - first_, 1));
  say("\r\033[K[{:=<{}}{:-<{}}] {}/{}  {:.3f} bits/byte  {:.0f} tokens/s  {} left", "", filled, "",
      kWidth - filled, done, steps_, bits, tokens_per_second(done), duration(left));
  std::fflush(stdout);
}

void Progress::line(int64_t done, double bits, double held_out) {
  clear();
  std::string held = std::isnan(held_out) ? "" : fmt::format("   held-out {:.3f}", held_out);
  say("step {:>6}/{}   training {:.3f}{} bits/byte   {:>7.0f} tokens/s   {:>4.0f} s   peak host "
      "memory {:.0f} MiB\n",
      done, steps_, bits, held, tokens_per_second(done), seconds(),
      peak_resident_bytes() / 1048576.0);
  std::fflush(stdout);
}

void Progress::clear() {
  if (live_) say("\r\033[K");
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace train
