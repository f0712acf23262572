#include "report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace train {

Progress::Progress(int64_t first_step, int64_t steps, int64_t tokens_per_step)
    : first_(first_step), steps_(steps), tokens_(tokens_per_step), live_(isatty(STDOUT_FILENO)) {}

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
  auto left =
      std::chrono::seconds(static_cast<int64_t>((steps_ - done) * seconds() / std::max<int64_t>(done - first_, 1)));
  fmt::print("\r\033[K[{:=<{}}{:-<{}}] {}/{}  {:.3f} bits/byte  {:.0f} tokens/s  {:%M:%S} left", "", filled, "",
             kWidth - filled, done, steps_, bits, tokens_per_second(done), left);
  std::fflush(stdout);
}

void Progress::line(int64_t done, double bits, double held_out) {
  clear();
  std::string held = std::isnan(held_out) ? "" : fmt::format("   held-out {:.3f}", held_out);
  fmt::print("step {:>6}/{}   training {:.3f}{} bits/byte   {:>7.0f} tokens/s   {:>4.0f} s   {:.0f} MiB\n", done,
             steps_, bits, held, tokens_per_second(done), seconds(), peak_resident_bytes() / 1048576.0);
  std::fflush(stdout);
}

void Progress::clear() {
  if (live_) fmt::print("\r\033[K");
}

bool plot_losses(const std::filesystem::path& svg, const std::vector<Point>& training,
                 const std::vector<Point>& held_out, double byte_frequency_bits) {
  if (std::system("command -v gnuplot >/dev/null 2>&1") != 0) {
    fmt::print(stderr, "no loss curve: gnuplot was not found (Debian: apt-get install gnuplot-nox)\n");
    return false;
  }
  FILE* gnuplot = popen("gnuplot", "w");
  if (!gnuplot) return false;
  std::string name;
  for (char c : svg.string()) name += c == '\'' ? std::string("''") : std::string(1, c);
  fmt::print(gnuplot,
             "set terminal svg size 800,480 font 'sans,14' background 'white'\nset output '{}'\n"
             "set xlabel 'step'\nset ylabel 'bits per byte'\nset grid\nset yrange [0:*]\n"
             "plot '-' with lines lc rgb '#9ecae1' title 'training batch', "
             "'-' with linespoints lw 2 pt 7 ps 0.5 lc rgb '#08519c' title 'held-out text', "
             "{} with lines dt 2 lc rgb '#969696' title 'byte frequencies alone'\n",
             name, byte_frequency_bits);
  for (const auto* points : {&training, &held_out}) {
    for (const Point& p : *points) fmt::print(gnuplot, "{} {}\n", p.step, p.bits);
    fmt::print(gnuplot, "e\n");
  }
  bool written = pclose(gnuplot) == 0 && std::filesystem::exists(svg);
  if (!written) fmt::print(stderr, "no loss curve: gnuplot could not write {}\n", svg.string());
  return written;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace train
