// Matrix products: alone, in batches, in groups, scaled and gated.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/oracle/matmul.h"
#include "lib/cli/oracle/formulas.h"

namespace ligerdsl::cli {

namespace {

oracle::MatmulCase product_of(const Call& c, bool transposed_a, bool transposed_b) {
  oracle::MatmulCase which{.m = c.size("M"),
                           .n = c.size("N"),
                           .k = c.size("K"),
                           .transposed_a = transposed_a,
                           .transposed_b = transposed_b,
                           .alpha = c.number("alpha", 1),
                           .beta = c.number("beta")};
  if (const int epilogue = c.option("epilogue"); epilogue != LIGERDSL_EPILOGUE_NONE)
    which.f = static_cast<oracle::ActivationKind>(epilogue - 1);
  return which;
}

// The error of a sum is one of all that is added up, so it is measured in the norm of all elements.
template <bool transposed_a, bool transposed_b>
Expected matmul(const Call& c) {
  const oracle::MatmulCase which = product_of(c, transposed_a, transposed_b);
  const DType own = c.type("c");
  const Values before = which.beta != 0 ? c["c"] : Values{};
  return {{"c", {oracle::matmul_oracle(which, c["a"], c["b"], c["bias"], before), true, own}}};
}

oracle::ActivationKind activation_of(const Call& c) {
  return static_cast<oracle::ActivationKind>(c.option("activation"));
}

oracle::GatedProduct gated_product(const Call& c) {
  return oracle::gated_matmul_oracle(activation_of(c), c["x"], c["weight"], c.size("M"), c.size("F"), c.size("K"));
}

Expected gated_matmul_backward(const Call& c) {
  auto made = gated_product(c);
  const DType own = c.type("d_gate_up");
  return {{"d_gate_up",
           {oracle::gated_matmul_gradient_oracle(activation_of(c), c["d_out"], made.gate_up, c.size("M"), c.size("F")),
            true, own}},
          {"out", {std::move(made.out), true, own}}};
}

Expected gated_matmul(const Call& c) {
  auto made = gated_product(c);
  const DType own = c.type("out");
  return {{"gate_up", {std::move(made.gate_up), true, own}}, {"out", {std::move(made.out), true, own}}};
}

// One matrix of c after the other.
template <bool transposed_a, bool transposed_b>
Expected batched_matmul(const Call& c) {
  const oracle::MatmulCase which = product_of(c, transposed_a, transposed_b);
  const auto matrix = [&](const char* name, int64_t number, int64_t elements) {
    const Values& all = c[name];
    return Values(all.begin() + number * elements, all.begin() + (number + 1) * elements);
  };
  Values made;
  for (int64_t i = 0; i < c.size("B"); ++i) {
    const Values one =
        oracle::matmul_oracle(which, matrix("a", i, which.m * which.k), matrix("b", i, which.k * which.n), c["bias"],
                              which.beta != 0 ? matrix("c", i, which.m * which.n) : Values{});
    made.insert(made.end(), one.begin(), one.end());
  }
  return {{"c", {made, true, c.type("c")}}};
}

// Every row by its number; as it is where there is none.
Values scaled_rows(Values matrix, const Values& scales, int64_t cols) {
  for (size_t i = 0; !scales.empty() && i < matrix.size(); ++i) matrix[i] *= scales[i / cols];
  return matrix;
}

Expected scaled_matmul(const Call& c) {
  const oracle::MatmulCase which{.m = c.size("M"), .n = c.size("N"), .k = c.size("K"), .transposed_b = true};
  const Values a = scaled_rows(c["a"], c["a_scale"], which.k), b = scaled_rows(c["b"], c["b_scale"], which.k);
  return {{"c", {oracle::matmul_oracle(which, a, b, c["bias"], {}), true, c.type("c")}}};
}

// Rows [begin, end) of a matrix.
Values rows_between(const Values& matrix, int64_t begin, int64_t end, int64_t cols) {
  return {matrix.begin() + begin * cols, matrix.begin() + end * cols};
}

template <bool transposed_b>
Expected grouped_matmul(const Call& c) {
  const int64_t n = c.size("N"), k = c.size("K");
  const std::vector<int64_t> offsets = c.integers("offsets");
  Values expected(static_cast<size_t>(c.size("M") * n), 0.0);
  for (size_t group = 0; group + 1 < offsets.size(); ++group) {
    const auto e = static_cast<int64_t>(group);
    const oracle::MatmulCase which{
        .m = offsets[group + 1] - offsets[group], .n = n, .k = k, .transposed_b = transposed_b};
    const Values rows = oracle::matmul_oracle(which, rows_between(c["a"], offsets[group], offsets[group + 1], k),
                                              rows_between(c["b"], e, e + 1, n * k), {}, {});
    std::copy(rows.begin(), rows.end(), expected.begin() + offsets[group] * n);
  }
  return {{"c", {std::move(expected), true, c.type("c")}}};
}

Expected grouped_matmul_tn(const Call& c) {
  const int64_t m = c.size("M"), n = c.size("N");
  const std::vector<int64_t> offsets = c.integers("offsets");
  Values expected;
  for (size_t group = 0; group + 1 < offsets.size(); ++group) {
    const int64_t begin = offsets[group], end = offsets[group + 1];
    const oracle::MatmulCase which{.m = m, .n = n, .k = end - begin, .transposed_a = true};
    const Values one =
        oracle::matmul_oracle(which, rows_between(c["a"], begin, end, m), rows_between(c["b"], begin, end, n), {}, {});
    expected.insert(expected.end(), one.begin(), one.end());
  }
  return {{"c", c.over_rows("c", std::move(expected), c.type("c"))}};
}

}  // namespace

Formulas product_formulas() {
  return {{"matmul_nn", matmul<false, false>},
          {"matmul_nt", matmul<false, true>},
          {"matmul_tn", matmul<true, false>},
          {"matmul_tt", matmul<true, true>},
          {"batched_matmul_nn", batched_matmul<false, false>},
          {"batched_matmul_nt", batched_matmul<false, true>},
          {"batched_matmul_tn", batched_matmul<true, false>},
          {"batched_matmul_tt", batched_matmul<true, true>},
          {"scaled_matmul_nt", scaled_matmul},
          {"grouped_matmul_nt", grouped_matmul<true>},
          {"grouped_matmul_nn", grouped_matmul<false>},
          {"grouped_matmul_tn", grouped_matmul_tn},
          {"gated_matmul_nt", gated_matmul},
          {"gated_matmul_nt_backward", gated_matmul_backward}};
}

}  // namespace ligerdsl::cli
