// Reproducible random data, without the distributions of the standard library, which differ between
// implementations.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace ligerdsl::test {

class Random {
 public:
  explicit Random(uint64_t seed = 1) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}

  uint64_t bits() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
  std::vector<double> normals(int64_t n, double scale = 1.0, double mean = 0.0) {
    std::vector<double> out(n);
    for (double& value : out) value = mean + scale * normal();
    return out;
  }

 private:
  uint64_t state_;
};

}  // namespace ligerdsl::test
