#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/core/reference.h"
#include "kernels/matmul/matmul_reference.h"

namespace ligerdsl::reference {

namespace {

// Returns rows [begin, end) of a matrix.
Values rows_between(const Values& matrix, int64_t begin, int64_t end, int64_t cols) {
  return {matrix.begin() + begin * cols, matrix.begin() + end * cols};
}

template <bool transposed_b>
Expected grouped_matmul(const ReferenceCall& call) {
  const int64_t n = call.size("N"), k = call.size("K");
  const std::vector<int64_t> offsets = call.integers("offsets");
  Values expected(static_cast<size_t>(call.size("M") * n), 0.0);
  for (size_t group = 0; group + 1 < offsets.size(); ++group) {
    const auto e = static_cast<int64_t>(group);
    const MatmulCase which{
        .m = offsets[group + 1] - offsets[group], .n = n, .k = k, .transposed_b = transposed_b};
    const Values rows =
        matmul_reference(which, rows_between(call["a"], offsets[group], offsets[group + 1], k),
                         rows_between(call["b"], e, e + 1, n * k), {}, {});
    std::copy(rows.begin(), rows.end(), expected.begin() + offsets[group] * n);
  }
  return {{"c", {std::move(expected), true, call.type("c")}}};
}

}  // namespace

LIGERDSL_REFERENCE(grouped_matmul_nt) {
  return grouped_matmul<true>(call);
}

LIGERDSL_REFERENCE(grouped_matmul_nn) {
  return grouped_matmul<false>(call);
}

LIGERDSL_REFERENCE(grouped_matmul_tn) {
  const int64_t m = call.size("M"), n = call.size("N");
  const std::vector<int64_t> offsets = call.integers("offsets");
  Values expected;
  for (size_t group = 0; group + 1 < offsets.size(); ++group) {
    const int64_t begin = offsets[group], end = offsets[group + 1];
    const MatmulCase which{.m = m, .n = n, .k = end - begin, .transposed_a = true};
    const Values one = matmul_reference(which, rows_between(call["a"], begin, end, m),
                                        rows_between(call["b"], begin, end, n), {}, {});
    expected.insert(expected.end(), one.begin(), one.end());
  }
  return {{"c", call.over_rows("c", std::move(expected), call.type("c"))}};
}

}  // namespace ligerdsl::reference
