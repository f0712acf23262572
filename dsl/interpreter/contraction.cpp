// Matmul.
#include <bit>
#include <cmath>

#include "interpreter/convert.h"
#include "interpreter/machine.h"

namespace ligerdsl::interpreter {
namespace {

// Rounds to 11 significand bits, ties away from zero, as cvt.rna.tf32.f32 does.
double to_tf32(double number) {
  constexpr uint32_t kDropped = 13;  // bits
  if (!std::isfinite(number)) return number;
  const uint32_t bits =
      std::bit_cast<uint32_t>(static_cast<float>(number)) + (1u << (kDropped - 1));
  return std::bit_cast<float>(bits >> kDropped << kDropped);
}

// Calls put(index, total) for each element of acc + left * right.
template <class Number, class Put>
void multiply(const std::vector<Number>& left, const std::vector<Number>& right,
              const std::vector<Number>& acc, int64_t m, int64_t n, int64_t k, const Put& put) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      Number total = acc[i * n + j];
      for (int64_t at = 0; at < k; ++at) total += left[i * k + at] * right[at * n + j];
      put(i * n + j, total);
    }
  }
}

}  // namespace

void Machine::contraction(const Op& op, program::ContractionOp code) {
  switch (code) {
    case program::ContractionOp::dot: {
      const Shape &a = type(op.operands[0]).shape, &shape = type(op.results[0]).shape;
      const int64_t m = shape[0], n = shape[1], k = a[1];
      const Data& acc = data(op.operands[2]);
      Data& out = result(op);
      if (is_integer(type(op.operands[0]).dtype)) {
        multiply(data(op.operands[0]).integer, data(op.operands[1]).integer, acc.integer, m, n, k,
                 [&](int64_t at, int64_t total) { out.integer[at] = wrap_to(DType::i32, total); });
        return;
      }
      std::vector<double> left = data(op.operands[0]).real, right = data(op.operands[1]).real;
      if (program::roundsToTf32(op)) {
        for (auto* operand : {&left, &right})
          for (double& number : *operand) number = to_tf32(number);
      }
      multiply(left, right, acc.real, m, n, k,
               [&](int64_t at, double total) { out.real[at] = round_to(DType::f32, total); });
    }
  }
}

}  // namespace ligerdsl::interpreter
