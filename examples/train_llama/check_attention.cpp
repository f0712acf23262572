#include <fmt/format.h>

#include <array>
#include <cmath>

#include "check_table.h"

namespace train {
namespace {

using oracle::Array;

struct RopeCase {
  const char* name;
  RopeLayout layout;
  bool complex = false;
};

// Returns the position that a plane of a multimodal table has at a text position. Each plane uses a
// different function, so that a wrong plane is found.
int64_t position_in(int64_t plane, int64_t position) {
  return plane == 0 ? position : plane == 1 ? position / 3 : position % 5;
}

// Compares rope and its backward on the queries and keys in the model's qkv rows. The values in
// these rows must stay unchanged.
void rope(CheckTable& t, const RopeCase& rope) {
  const int64_t d = t.c.head_dim(), row = t.c.qkv_width(), heads = t.c.heads,
                kv_heads = t.c.kv_heads, positions = t.c.context;
  const bool planes = rope.layout.kind == RopeLayout::multimodal;
  const auto& sections = rope.layout.sections;
  const int64_t rotated = rope.layout.rotated ? rope.layout.rotated : d, half = rotated / 2;
  auto angle = [&](int64_t plane, int64_t position, int64_t pair) {
    return position_in(plane, position) * std::pow(t.c.rope_base, -2.0 * pair / rotated);
  };

  // The operation reads only the first `half` columns of a table. A complex table has two columns
  // per angle.
  Array cosines, sines;
  for (int64_t plane = 0; plane < (planes ? 3 : 1); ++plane) {
    for (int64_t i = 0; i < positions * d; ++i) {
      double a = angle(plane, i / d, rope.complex ? i % d / 2 : i % d % std::max<int64_t>(half, 1));
      cosines.push_back(rope.complex && i % 2 ? std::sin(a) : std::cos(a));
      sines.push_back(std::sin(a));
    }
  }
  auto table = [&](const Array& values) {
    Tensor tensor = planes ? t.f32({3, 1, positions, d}) : t.f32({positions, d});
    fill(t.ops, tensor, values);
    return tensor;
  };
  Tensor cos = table(cosines), sin = rope.complex ? Tensor() : table(sines);

  auto qkv = t.random({t.rows, row});
  auto part = [&](int64_t first, int64_t count) {
    return qkv.tensor.strided({t.batch, positions, count, d}, {positions * row, row, d, 1},
                              first * d);
  };
  oracle::Rotation rotation{heads + kv_heads, d, rotated,
                            rope.layout.kind == RopeLayout::interleaved,
                            [&](int64_t position, int64_t pair) {
                              int64_t plane = !planes || pair < sections[0]      ? 0
                                              : pair < sections[0] + sections[1] ? 1
                                                                                 : 2;
                              return angle(plane, position, pair);
                            }};
  for (bool inverse : {false, true}) {
    Array expected = fetch(t.ops, qkv.tensor);
    oracle::rotate(expected, t.batch, positions, row, rotation, inverse ? -1 : 1);
    t.ops.rope(part(0, heads), part(heads, kv_heads), cos, sin, inverse, rope.layout);
    t.variant(fmt::format("{}{}", rope.name, inverse ? ", inverse" : ""));
    t.add("q_out k_out", qkv.tensor, expected, t.elementwise);
  }
  t.variant("");
}

void ropes(CheckTable& t) {
  using Layout = RopeLayout;
  const int64_t half = t.c.head_dim() / 2, third = half / 3;
  rope(t, {"half", {}});
  rope(t, {"interleaved", {Layout::interleaved}});
  rope(t, {"multimodal", {Layout::multimodal, 0, {half - 2 * third, third, third}}});
  rope(t, {"half a head, complex", {Layout::interleaved, (half + 1) / 2 * 2}, true});
}

void softmax(CheckTable& t) {
  const int64_t width = t.c.context, matrices = t.batch * t.c.heads;
  const double scale = 1 / std::sqrt(static_cast<double>(t.c.head_dim()));
  auto x = t.random({matrices, width, width}, t.type, 0, 3),
       dy = t.random({matrices, width, width});
  t.ops.causal_softmax(x.tensor, scale);
  t.add("y", x.tensor, oracle::causal_softmax(x.values, width, scale), t.elementwise);
  const Array expected =
      oracle::causal_softmax_backward(dy.values, fetch(t.ops, x.tensor), width, scale);
  t.ops.causal_softmax_backward(dy.tensor, x.tensor, scale);
  t.add("d_x", dy.tensor, expected, t.probability);
}

// Compares attention at the model's head counts, on rows that hold queries, keys and values.
void attention(CheckTable& t) {
  const int64_t d = t.c.head_dim(), row = t.c.qkv_width(), heads = t.c.heads,
                kv_heads = t.c.kv_heads, tokens = t.c.context;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const Gate products{t.type == Type::bf16 ? 1e-2 : 1e-5, 0,
                      true};  // probabilities are rounded to the type before the matmul
  const auto parts = [&](const Tensor& all) {
    const auto part = [&](int64_t first, int64_t count) {
      return all.strided({t.batch, tokens, count, d}, {tokens * row, row, d, 1}, first * d);
    };
    return Ops::Heads{part(0, heads), part(heads, kv_heads), part(heads + kv_heads, kv_heads)};
  };
  const auto qkv = t.random({t.rows, row}), d_o = t.random({t.batch, tokens, heads, d});
  const auto columns = [&](const Array& all, int64_t first, int64_t count) {
    Array out;
    for (int64_t r = 0; r < t.rows; ++r)
      out.insert(out.end(), all.begin() + r * row + first * d,
                 all.begin() + r * row + (first + count) * d);
    return out;
  };
  const auto each = [&](const Array& all) {
    return std::array{columns(all, 0, heads), columns(all, heads, kv_heads),
                      columns(all, heads + kv_heads, kv_heads)};
  };
  const oracle::Heads shape{t.batch, tokens, heads, kv_heads, d, scale};
  const auto [q, k, v] = each(qkv.values);
  const oracle::Attention expected = oracle::attention(q, k, v, shape);
  Tensor o = t.ops.allocate(t.type, {t.batch, tokens, heads, d}),
         lse = t.f32({t.batch, heads, tokens}), d_qkv = t.like(qkv.tensor);
  t.ops.attention(o, lse, parts(qkv.tensor), scale);
  t.add("o", o, expected.o, products);
  t.add("lse", lse, expected.lse, t.f32_elementwise);
  const oracle::AttentionGradients g = oracle::attention_backward(d_o.values, q, k, v, shape);
  t.ops.attention_backward(parts(d_qkv), d_o.tensor, o, lse, parts(qkv.tensor), scale);
  const auto [d_q, d_k, d_v] = each(fetch(t.ops, d_qkv));
  const std::string text = fmt::format("{}x{}x{}({})x{}", t.batch, tokens, heads, kv_heads, d);
  t.add("d_q", text, d_q, g.dq, products);
  t.add("d_k", text, d_k, g.dk, products);
  t.add("d_v", text, d_v, g.dv, products);
}

}  // namespace

void check_attention(CheckTable& t) {
  ropes(t);
  softmax(t);
  attention(t);
}

}  // namespace train
