// Attention, and the positions that its queries and keys are turned by.
#include "kernels/oracle/attention.h"

#include <cmath>

#include "kernels/oracle/elementwise.h"
#include "lib/cli/oracle/formulas.h"

namespace ligerdsl::cli {

namespace {

Expected rope(const Call& c) {
  oracle::RopeCase r{.batch = c.size("B"),
                     .seq = c.size("S"),
                     .heads = c.size("A"),
                     .d = c.size("D"),
                     .rotary = static_cast<int64_t>(c.number("rotary_dim")),
                     .interleaved = c.option("layout") == LIGERDSL_ROPE_INTERLEAVED,
                     .sign = c.flag("inverse") ? -1.0 : 1.0};
  if (c.option("layout") == LIGERDSL_ROPE_MULTIMODAL) {
    r.time = static_cast<int64_t>(c.number("time_section")),
    r.height = static_cast<int64_t>(c.number("height_section"));
    r.width = static_cast<int64_t>(c.number("width_section"));
  }
  const bool complex = c.flag("complex_table");
  Values cos, sin;  // the first columns of the tables' rows
  for (int64_t row = 0; row < r.planes() * r.seq; ++row) {
    for (int64_t i = 0; i < r.angles(); ++i) {
      const auto at = static_cast<size_t>(row * r.d + (complex ? 2 * i : i));
      cos.push_back(c["cos"][at]);
      sin.push_back(complex ? c["cos"][at + 1] : c["sin"][at]);
    }
  }
  Expected expected = {{"q_out", {oracle::rope_oracle(c["q"], cos, sin, r)}}};
  r.heads = c.size("K");
  if (c.has("k")) expected["k_out"] = {oracle::rope_oracle(c["k"], cos, sin, r)};
  return expected;
}

// Without batch, queries and keys.
oracle::AttentionCase attention_heads(const Call& c) {
  const double scale = c.number("scale");
  return {.heads = c.size("A"),
          .kv_heads = c.size("K"),
          .dim = c.size("D"),
          .scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(c.size("D"))),
          .cap = c.number("softcap"),
          .left = c.option("window_left"),
          .right = c.flag("causal") ? 0 : c.option("window_right")};
}

oracle::AttentionCase attention_case(const Call& c) {
  oracle::AttentionCase which = attention_heads(c);
  which.batch = c.size("B"), which.queries = c.size("S"), which.keys = c.size("T");
  return which;
}

oracle::AttentionSequences attention_sequences(const Call& c) {
  return {.of_all = attention_heads(c), .queries = c.integers("cu_seqlens_q"), .keys = c.integers("cu_seqlens_k")};
}

// Weights are rounded before they are multiplied: errors are those of sums.
template <class Which>
Expected attention_forward(const Call& c, const Which& which) {
  const auto r = oracle::attention_oracle(which, c["q"], c["k"], c["v"]);
  return {{"o", {r.o, true, c.type("o")}}, {"lse", {r.lse}}};
}

template <class Which>
Expected attention_backward(const Call& c, const Which& which) {
  const auto g = oracle::attention_gradient_oracle(which, c["q"], c["k"], c["v"], c["o"], c["d_o"], c["lse"]);
  const DType own = c.type("q");
  return {{"d_q", {g.dq, true, own}}, {"d_k", {g.dk, true, own}}, {"d_v", {g.dv, true, own}}};
}

}  // namespace

Formulas attention_formulas() {
  return {{"attention_forward", [](const Call& c) { return attention_forward(c, attention_case(c)); }},
          {"attention_backward", [](const Call& c) { return attention_backward(c, attention_case(c)); }},
          {"attention_varlen_forward", [](const Call& c) { return attention_forward(c, attention_sequences(c)); }},
          {"attention_varlen_backward", [](const Call& c) { return attention_backward(c, attention_sequences(c)); }},
          {"rope", rope}};
}

}  // namespace ligerdsl::cli
