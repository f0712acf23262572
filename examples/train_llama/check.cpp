#include "check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>

#include "bf16.h"
#include "oracle.h"
#include "report.h"

namespace train {
namespace {

// Maps infinity and NaN to a value outside of every gate.
double finite_or_worst(double x) {
  return std::isfinite(x) ? x : std::numeric_limits<double>::infinity();
}

}  // namespace

Comparison compare(std::string name, std::string output, std::string shape,
                   const std::vector<double>& got, const std::vector<double>& expected, Gate gate,
                   int64_t row) {
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
      const double allowed = gate.atol * scale + gate.rtol * std::abs(expected[start + j]);
      if (error > 0)
        c.of_gate =
            std::max(c.of_gate, finite_or_worst(error / allowed));  // an exact gate allows 0
    }
  }
  const bool exact = gate.rtol == 0 && gate.atol == 0;
  c.gate = exact ? "exact" : fmt::format("{:.2g} + {:.2g}", gate.rtol, gate.atol);
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
  } else if (t.type == Type::i32) {
    std::vector<int32_t> values(t.size());
    ops.download(values.data(), t);
    out.assign(values.begin(), values.end());
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

std::vector<Comparison> missing_checks(std::span<const Ops::Operation> operations,
                                       const std::vector<Comparison>& made) {
  std::set<std::pair<std::string, std::string>> covered;
  auto for_each_word = [](const std::string& words, auto body) {
    std::istringstream in(words);
    for (std::string word; in >> word;) body(word);
  };
  for (const Comparison& c : made) {
    for_each_word(c.output, [&](const std::string& output) { covered.emplace(c.name, output); });
  }
  std::vector<Comparison> missing;
  for (const Ops::Operation& operation : operations) {
    for_each_word(operation.outputs, [&](const std::string& output) {
      if (covered.count({operation.name, output})) return;
      Comparison none{operation.name, output};
      none.error = none.of_gate = std::numeric_limits<double>::infinity();
      none.gate = "has no check";
      missing.push_back(std::move(none));
    });
  }
  return missing;
}

bool print_comparisons(const std::vector<Comparison>& comparisons) {
  say("{:<40} {:<12} {:<20} {:>10}  {:<15} {:>8}\n", "", "output", "shape", "error", "gate",
      "of gate");
  bool all = true;
  for (const Comparison& c : comparisons) {
    std::string name = c.variant.empty() ? c.name : c.name + ", " + c.variant;
    say("{:<40} {:<12} {:<20} {:>10.2e}  {:<15} {:>7.1f}% {}\n", name, c.output, c.shape, c.error,
        c.gate, 100 * c.of_gate, c.passed() ? "ok" : "FAILED");
    all = all && c.passed();
  }
  return all;
}

}  // namespace train
