#include "check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bf16.h"
#include "oracle.h"

namespace train {
namespace {

// An infinity or NaN in a result is never within a gate.
double finite_or_worst(double x) {
  return std::isfinite(x) ? x : std::numeric_limits<double>::infinity();
}

}  // namespace

Comparison compare(std::string name, std::string output, std::string shape, const std::vector<double>& got,
                   const std::vector<double>& expected, Gate gate, int64_t row) {
  Comparison c{std::move(name), std::move(output), std::move(shape)};
  if (gate.normwise) {
    oracle::Array difference(got.size());
    for (size_t i = 0; i < got.size(); ++i) difference[i] = got[i] - expected[i];
    double size = oracle::norm(expected);
    c.error = finite_or_worst(oracle::norm(difference) / (size > 0 ? size : 1));
    c.of_gate = c.error / gate.rtol;
    c.gate = fmt::format("norm {:.2g}", gate.rtol);
    return c;
  }
  int64_t width = row > 0 ? row : static_cast<int64_t>(got.size());
  for (size_t start = 0; start < got.size(); start += width) {
    double largest = 0;
    for (int64_t j = 0; j < width; ++j) largest = std::max(largest, std::abs(expected[start + j]));
    double scale = largest > 0 ? largest : 1;
    for (int64_t j = 0; j < width; ++j) {
      double error = finite_or_worst(std::abs(got[start + j] - expected[start + j]));
      c.error = std::max(c.error, error / scale);
      c.of_gate = std::max(c.of_gate, error / (gate.atol * scale + gate.rtol * std::abs(expected[start + j])));
    }
  }
  c.gate = fmt::format("{:.2g} + {:.2g}", gate.rtol, gate.atol);
  return c;
}

std::vector<double> fetch(Ops& ops, const Tensor& t) {
  std::vector<double> out(t.size());
  if (t.type == Type::f32) {
    std::vector<float> values(t.size());
    ops.download(values.data(), t);
    out.assign(values.begin(), values.end());
  } else if (t.type == Type::bf16) {
    std::vector<uint16_t> values(t.size());
    ops.download(values.data(), t);
    std::transform(values.begin(), values.end(), out.begin(), from_bf16);
  } else {
    std::vector<int64_t> values(t.size());
    ops.download(values.data(), t);
    out.assign(values.begin(), values.end());
  }
  return out;
}

std::vector<double> fill(Ops& ops, const Tensor& t, std::vector<double> values) {
  if (t.type == Type::f32) {
    std::vector<float> rounded(values.begin(), values.end());
    ops.upload(t, rounded.data());
  } else if (t.type == Type::bf16) {
    std::vector<uint16_t> rounded;
    for (double v : values) rounded.push_back(to_bf16(static_cast<float>(v)));
    ops.upload(t, rounded.data());
  } else {
    std::vector<int64_t> whole(values.begin(), values.end());
    ops.upload(t, whole.data());
  }
  return fetch(ops, t);
}

bool print_comparisons(const std::vector<Comparison>& comparisons) {
  fmt::print("{:<24} {:<12} {:<20} {:>10}  {:<15} {:>8}\n", "", "output", "shape", "error", "gate", "of gate");
  bool all = true;
  for (const Comparison& c : comparisons) {
    fmt::print("{:<24} {:<12} {:<20} {:>10.2e}  {:<15} {:>7.1f}% {}\n", c.name, c.output, c.shape, c.error, c.gate,
               100 * c.of_gate, c.passed() ? "ok" : "FAILED");
    all = all && c.passed();
  }
  return all;
}

}  // namespace train
