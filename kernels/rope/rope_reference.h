// float64 rotary position embedding.
#pragma once

#include <cstdint>

#include "kernels/core/reference_values.h"

namespace ligerdsl::reference {

struct RopeCase {
  int64_t batch = 1, seq = 1, heads = 1, d = 2;
  int64_t rotary = 0;       // rotated columns; 0 means d
  int64_t angle_batch = 1;  // batch size of cos and sin: 1 or batch
  bool interleaved = false;
  int64_t time = 0, height = 0, width = 0;  // angles per multimodal section; all 0: not multimodal
  double sign = 1;                          // -1 for the backward

  int64_t angles() const { return (rotary ? rotary : d) / 2; }
  int64_t planes() const { return time + height + width > 0 ? 3 : 1; }
};

// x [batch, seq, heads, d]; cos, sin [planes, angle_batch, seq, angles].
inline Values rope_reference(const Values& x, const Values& cos, const Values& sin,
                             const RopeCase& r) {
  Values out = x;
  const int64_t h = r.angles();
  for (int64_t token = 0; token < r.batch * r.seq; ++token) {
    const int64_t b = token / r.seq, s = token % r.seq;
    for (int64_t i = 0; i < h; ++i) {
      const int64_t plane = r.planes() == 1 || i < r.time ? 0 : i < r.time + r.height ? 1 : 2;
      const int64_t angle =
          ((plane * r.angle_batch + (r.angle_batch == 1 ? 0 : b)) * r.seq + s) * h + i;
      const double c = cos[angle], t = r.sign * sin[angle];
      for (int64_t head = 0; head < r.heads; ++head) {
        const int64_t row = (token * r.heads + head) * r.d;
        const int64_t first = row + (r.interleaved ? 2 * i : i),
                      second = r.interleaved ? first + 1 : first + h;
        out[first] = x[first] * c - x[second] * t;
        out[second] = x[second] * c + x[first] * t;
      }
    }
  }
  return out;
}

}  // namespace ligerdsl::reference
