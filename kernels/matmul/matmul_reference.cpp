#include "kernels/matmul/matmul_reference.h"

#include "kernels/core/reference.h"
#include "ligerdsl/ligerdsl.h"

namespace ligerdsl::reference {

namespace {

MatmulCase product_of(const ReferenceCall& call, bool transposed_a, bool transposed_b) {
  MatmulCase which{.m = call.size("M"),
                   .n = call.size("N"),
                   .k = call.size("K"),
                   .transposed_a = transposed_a,
                   .transposed_b = transposed_b,
                   .alpha = call.number("alpha", 1),
                   .beta = call.number("beta")};
  if (const int epilogue = call.option("epilogue"); epilogue != LIGERDSL_EPILOGUE_NONE)
    which.f = static_cast<ActivationKind>(epilogue - 1);
  return which;
}

// The error is a norm over all elements: an element may be small although its terms are
// large.
template <bool transposed_a, bool transposed_b>
Expected matmul(const ReferenceCall& call) {
  const MatmulCase which = product_of(call, transposed_a, transposed_b);
  const DType own = call.type("c");
  const Values before = which.beta != 0 ? call["c"] : Values{};
  return {{"c", {matmul_reference(which, call["a"], call["b"], call["bias"], before), true, own}}};
}

template <bool transposed_a, bool transposed_b>
Expected batched_matmul(const ReferenceCall& call) {
  const MatmulCase which = product_of(call, transposed_a, transposed_b);
  const auto matrix = [&](const char* name, int64_t number, int64_t elements) {
    const Values& all = call[name];
    return Values(all.begin() + number * elements, all.begin() + (number + 1) * elements);
  };
  Values made;
  for (int64_t i = 0; i < call.size("B"); ++i) {
    const Values one = matmul_reference(
        which, matrix("a", i, which.m * which.k), matrix("b", i, which.k * which.n), call["bias"],
        which.beta != 0 ? matrix("c", i, which.m * which.n) : Values{});
    made.insert(made.end(), one.begin(), one.end());
  }
  return {{"c", {made, true, call.type("c")}}};
}

}  // namespace

LIGERDSL_REFERENCE(matmul_nn) {
  return matmul<false, false>(call);
}

LIGERDSL_REFERENCE(matmul_nt) {
  return matmul<false, true>(call);
}

LIGERDSL_REFERENCE(matmul_tn) {
  return matmul<true, false>(call);
}

LIGERDSL_REFERENCE(matmul_tt) {
  return matmul<true, true>(call);
}

LIGERDSL_REFERENCE(batched_matmul_nn) {
  return batched_matmul<false, false>(call);
}

LIGERDSL_REFERENCE(batched_matmul_nt) {
  return batched_matmul<false, true>(call);
}

LIGERDSL_REFERENCE(batched_matmul_tn) {
  return batched_matmul<true, false>(call);
}

LIGERDSL_REFERENCE(batched_matmul_tt) {
  return batched_matmul<true, true>(call);
}

LIGERDSL_REFERENCE(scaled_matmul_nt) {
  const MatmulCase which{
      .m = call.size("M"), .n = call.size("N"), .k = call.size("K"), .transposed_b = true};
  const Values a = scaled_rows(call["a"], call["a_scale"], which.k),
               b = scaled_rows(call["b"], call["b_scale"], which.k);
  return {{"c", {matmul_reference(which, a, b, call["bias"], {}), true, call.type("c")}}};
}

}  // namespace ligerdsl::reference
