#include <fmt/format.h>

#include "check_table.h"

namespace train {
namespace {

using oracle::Array;

void embedding(CheckTable& t) {
  const int64_t vocab = t.c.vocab, width = t.c.width;
  auto table = t.random({vocab, width}), dout = t.random({t.rows, width});
  auto ids = t.random_ids(t.rows, vocab);
  Tensor out = t.like(dout.tensor), dtable = t.f32({vocab, width});
  t.ops.embedding(out, table.tensor, ids.tensor);
  t.add("out", out, oracle::embedding(table.values, ids.values, width), t.exact);
  const int64_t positions = std::max<int64_t>(t.rows / 3, 1);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < t.rows; ++i) places.push_back(i % positions);
  Tensor dpositions = t.f32({positions, width});
  t.ops.embedding_backward(dtable, dout.tensor, ids.tensor, dpositions);
  t.add("d_weight", dtable, oracle::embedding_backward(dout.values, ids.values, vocab, width),
        t.reduction);
  t.add("d_position_weight", dpositions,
        oracle::embedding_backward(dout.values, places, positions, width), t.reduction);
}

// Compares matmuls for all four transpositions of the operands. Each adds 0.5 a b to the old c.
void products(CheckTable& t) {
  const int64_t m = t.rows, n = t.c.width, k = t.c.ffn;
  auto c = t.random({m, n}, Type::f32);
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const auto a = ta ? t.random({k, m}) : t.random({m, k}),
                 b = tb ? t.random({n, k}) : t.random({k, n});
      Array expected = c.values;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t at = 0; at < k; ++at)
          for (int64_t j = 0; j < n; ++j)
            expected[i * n + j] += 0.5 * a.values[ta ? at * m + i : i * k + at] *
                                   b.values[tb ? j * k + at : at * n + j];
      Tensor out = t.f32({m, n});
      t.ops.upload(out, std::vector<float>(c.values.begin(), c.values.end()).data());
      t.ops.matmul(out, {a.tensor, ta}, {b.tensor, tb}, 0.5f, 1);
      t.add("c", out, expected, t.reduction);
    }
}

// Compares batched matmuls for all four transpositions of the operands.
void batched_products(CheckTable& t) {
  const int64_t matrices = 3, m = t.rows, n = t.c.width, k = t.c.head_dim();
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const auto a = ta ? t.random({matrices, k, m}) : t.random({matrices, m, k}),
                 b = tb ? t.random({matrices, n, k}) : t.random({matrices, k, n});
      Array expected(matrices * m * n);
      for (int64_t e = 0; e < matrices; ++e)
        for (int64_t i = 0; i < m; ++i)
          for (int64_t at = 0; at < k; ++at)
            for (int64_t j = 0; j < n; ++j)
              expected[(e * m + i) * n + j] +=
                  a.values[e * m * k + (ta ? at * m + i : i * k + at)] *
                  b.values[e * k * n + (tb ? j * k + at : at * n + j)];
      Tensor out = t.f32({matrices, m, n});
      t.ops.batched_matmul(out, {a.tensor, ta}, {b.tensor, tb});
      t.add("c", out, expected, t.reduction);
    }
}

// Returns rows [gate | up] of 2 ffn elements, the layout that the oracle expects.
Array joined(const Array& gate, const Array& up, int64_t ffn) {
  Array out;
  for (size_t at = 0; at < gate.size(); at += ffn) {
    out.insert(out.end(), gate.begin() + at, gate.begin() + at + ffn);
    out.insert(out.end(), up.begin() + at, up.begin() + at + ffn);
  }
  return out;
}

// Compares the kernel that computes gate_up = x weight^T and its SwiGLU.
void gated_products(CheckTable& t) {
  const int64_t m = t.rows, ffn = t.c.ffn, k = t.c.width;
  const auto x = t.random({m, k}), weight = t.random({2 * ffn, k});
  const Array products = oracle::matmul(x.values, weight.values, m, 2 * ffn, k, false, true);
  Tensor gate_up = t.ops.allocate(t.type, {m, 2 * ffn}), out = t.ops.allocate(t.type, {m, ffn});
  t.ops.gated_matmul(out, gate_up, x.tensor, weight.tensor);
  t.add("gate_up", gate_up, products, t.reduction);
  t.add("out", out, oracle::swiglu(products, ffn), t.reduction);
}

// Compares SwiGLU in both layouts: gate and up in one tensor, with gradients in place as in the
// model, and in separate tensors.
void swiglu(CheckTable& t) {
  const int64_t rows = t.rows, ffn = t.c.ffn;
  auto gate_up = t.random({rows, 2 * ffn}), dout = t.random({rows, ffn}),
       gate = t.random({rows, ffn}), up = t.random({rows, ffn});
  Tensor out = t.like(dout.tensor), dgate = t.like(dout.tensor), dup = t.like(dout.tensor);

  t.variant("one tensor");
  const Ops::Gated fused{.gate_up = gate_up.tensor};
  t.ops.swiglu(out, fused);
  t.add("out", out, oracle::swiglu(gate_up.values, ffn), t.twice_rounded);
  t.ops.swiglu_backward(fused, dout.tensor, fused);
  t.add("d_gate_up", gate_up.tensor, oracle::swiglu_backward(dout.values, gate_up.values, ffn),
        t.twice_rounded);

  t.variant("two tensors");
  Array both = joined(gate.values, up.values, ffn);
  t.ops.swiglu(out, {.gate = gate.tensor, .up = up.tensor});
  t.add("out", out, oracle::swiglu(both, ffn), t.twice_rounded);
  t.ops.swiglu_backward({.gate = dgate, .up = dup}, dout.tensor,
                        {.gate = gate.tensor, .up = up.tensor});
  t.add("d_gate d_up", fmt::format("2x {}x{}", rows, ffn),
        joined(fetch(t.ops, dgate), fetch(t.ops, dup), ffn),
        oracle::swiglu_backward(dout.values, both, ffn), t.twice_rounded);
  t.variant("");
}

}  // namespace

void check_elementwise(CheckTable& t) {
  embedding(t);
  products(t);
  batched_products(t);
  gated_products(t);
  swiglu(t);
}

}  // namespace train
