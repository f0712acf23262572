#include "kernels/attention/attention_reference.h"

#include <cmath>

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

// Returns an attention case with all fields except batch, queries and keys.
AttentionCase attention_heads(const ReferenceCall& call) {
  const double scale = call.number("scale");
  return {.heads = call.size("A"),
          .kv_heads = call.size("K"),
          .dim = call.size("D"),
          .scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(call.size("D"))),
          .cap = call.number("softcap"),
          .left = call.option("window_left"),
          .right = call.flag("causal") ? 0 : call.option("window_right")};
}

AttentionCase attention_case(const ReferenceCall& call) {
  AttentionCase which = attention_heads(call);
  which.batch = call.size("B"), which.queries = call.size("S"), which.keys = call.size("T");
  return which;
}

AttentionSequences attention_sequences(const ReferenceCall& call) {
  return {.of_all = attention_heads(call),
          .queries = call.integers("cu_seqlens_q"),
          .keys = call.integers("cu_seqlens_k")};
}

// The error of o is a norm over all elements, because the kernel rounds p before the matmul p v.
template <class Which>
Expected forward(const ReferenceCall& call, const Which& which) {
  const auto r = attention_reference(which, call["q"], call["k"], call["v"], call["sinks"]);
  return {{"o", {r.o, true, call.type("o")}}, {"lse", {r.lse}}};
}

template <class Which>
Expected backward(const ReferenceCall& call, const Which& which) {
  const auto g =
      attention_gradient_reference(which, call["q"], call["k"], call["v"], call["o"], call["d_o"],
                                   call["lse"], call["d_lse"], call["sinks"]);
  const DType own = call.type("q");
  Expected expected{
      {"d_q", {g.dq, true, own}}, {"d_k", {g.dk, true, own}}, {"d_v", {g.dv, true, own}}};
  if (call.has("sinks")) {
    double norm = 0;
    for (const double terms : g.sink_terms) norm += terms * terms;
    expected["d_sinks"] = {g.d_sinks, true, DType::f32, std::sqrt(norm)};
  }
  return expected;
}

}  // namespace

LIGERDSL_REFERENCE(attention_forward) {
  return forward(call, attention_case(call));
}

LIGERDSL_REFERENCE(attention_backward) {
  return backward(call, attention_case(call));
}

LIGERDSL_REFERENCE(attention_varlen_forward) {
  return forward(call, attention_sequences(call));
}

LIGERDSL_REFERENCE(attention_varlen_backward) {
  return backward(call, attention_sequences(call));
}

}  // namespace ligerdsl::reference
