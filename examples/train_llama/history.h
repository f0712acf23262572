// Losses of a run so far. A checkpoint includes them, so that a resumed run shows the whole loss
// curve.
#pragma once

#include <cstdint>
#include <numbers>
#include <vector>

namespace train {

struct Point {
  int64_t step;  // completed steps
  double bits;   // bits per byte
  bool operator==(const Point&) const = default;
};

struct History {
  std::vector<float> losses;    // loss of each step's batch, in nats per byte
  std::vector<Point> held_out;  // evaluations

  std::vector<Point> training() const {
    std::vector<Point> points;
    for (size_t i = 0; i < losses.size(); ++i) {
      points.push_back({static_cast<int64_t>(i) + 1, losses[i] / std::numbers::ln2});
    }
    return points;
  }
  bool operator==(const History&) const = default;
};

}  // namespace train
