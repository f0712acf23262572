// Matrix products.
#include "interpreter/convert.h"
#include "interpreter/machine.h"

namespace ligerdsl::interpreter {

void Machine::contraction(const Op& op, program::ContractionOp code) {
  switch (code) {
    case program::ContractionOp::dot: {
      const Shape &a = type(op.operands[0]).shape, &shape = type(op.results[0]).shape;
      const int64_t m = shape[0], n = shape[1], k = a[1];
      Data& out = result(op);
      const std::vector<double>&left = data(op.operands[0]).real, &right = data(op.operands[1]).real,
            &sums = data(op.operands[2]).real;
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = sums[i * n + j];
          for (int64_t at = 0; at < k; ++at) sum += left[i * k + at] * right[at * n + j];
          out.real[i * n + j] = round_to(DType::f32, sum);
        }
      }
    }
  }
}

}  // namespace ligerdsl::interpreter
