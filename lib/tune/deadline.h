// A point in time before which a step must end.
#pragma once

#include <algorithm>
#include <chrono>

namespace ligerdsl::tune {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline after(double seconds) {
    constexpr double kLongest = 1e8;  // seconds; longer times could overflow the clock
    const std::chrono::duration<double> wait(std::clamp(seconds, 0.0, kLongest));
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(wait));
  }

  double left() const {
    return std::max(0.0, std::chrono::duration<double>(at_ - Clock::now()).count());
  }
  bool passed() const { return Clock::now() >= at_; }
  Clock::time_point at() const { return at_; }

  friend Deadline earlier(Deadline a, Deadline b) { return a.at_ < b.at_ ? a : b; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace ligerdsl::tune
