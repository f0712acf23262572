#include <fmt/format.h>
#include <ligerdsl/ligerdsl.h>

#include "check_table.h"

namespace train {
namespace {

using oracle::Array;

void sums(CheckTable& t) {
  auto a = t.random({t.rows * t.c.width}), b = t.random({t.rows * t.c.width});
  Tensor out = t.ops.allocate(t.type, {t.rows * t.c.width});
  t.ops.vector_add(out, a.tensor, b.tensor);
  t.add("out", out, oracle::add(a.values, b.values), t.elementwise);
}

void scale(CheckTable& t) {
  auto x = t.random({t.rows, t.c.width}), factor = t.random({1}, Type::f32);
  Tensor out = t.like(x.tensor);
  Array expected = x.values;
  for (double& value : expected) value *= factor.values[0];
  t.ops.scale(out, x.tensor, factor.tensor);
  t.add("out", out, expected, t.elementwise);
}

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
  t.add("d_weight", dtable, oracle::embedding_backward(dout.values, ids.values, vocab, width), t.reduction);
  t.add("d_position_weight", dpositions, oracle::embedding_backward(dout.values, places, positions, width),
        t.reduction);
}

// Operands in both orders; results are added to old values.
void products(CheckTable& t) {
  const int64_t m = t.rows, n = t.c.width, k = t.c.ffn;
  auto c = t.random({m, n}, Type::f32);
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const auto a = ta ? t.random({k, m}) : t.random({m, k}), b = tb ? t.random({n, k}) : t.random({k, n});
      Array expected = c.values;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t at = 0; at < k; ++at)
          for (int64_t j = 0; j < n; ++j)
            expected[i * n + j] +=
                0.5 * a.values[ta ? at * m + i : i * k + at] * b.values[tb ? j * k + at : at * n + j];
      Tensor out = t.f32({m, n});
      t.ops.upload(out, std::vector<float>(c.values.begin(), c.values.end()).data());
      t.ops.matmul(out, {a.tensor, ta}, {b.tensor, tb}, 0.5f, 1);
      t.add("c", out, expected, t.reduction);
    }
}

// Compares every matrix of a batch.
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
              expected[(e * m + i) * n + j] += a.values[e * m * k + (ta ? at * m + i : i * k + at)] *
                                               b.values[e * k * n + (tb ? j * k + at : at * n + j)];
      Tensor out = t.f32({matrices, m, n});
      t.ops.batched_matmul(out, {a.tensor, ta}, {b.tensor, tb});
      t.add("c", out, expected, t.reduction);
    }
}

// fp8 operands, drawn from a few numbers with known codes.
void scaled_products(CheckTable& t) {
  constexpr struct {
    uint8_t code;
    double number;
  } kNumbers[] = {{0x30, 0.5},  {0x34, 0.75},  {0x38, 1},  {0x3c, 1.5},
                  {0xb0, -0.5}, {0xb4, -0.75}, {0xb8, -1}, {0x01, 0x1p-9}};
  const int64_t m = t.rows, n = t.c.width, k = t.c.ffn;
  const auto factor = [&](int64_t rows) {
    CheckTable::Data made{t.ops.allocate(Type::f8e4m3, {rows, k}), Array(rows * k)};
    const CheckTable::Ids which = t.random_ids(rows * k, std::size(kNumbers));
    std::vector<uint8_t> codes(rows * k);
    for (int64_t i = 0; i < rows * k; ++i) {
      codes[i] = kNumbers[which.values[i]].code;
      made.values[i] = kNumbers[which.values[i]].number;
    }
    t.ops.upload(made.tensor, codes.data());
    return made;
  };
  const auto a = factor(m), b = factor(n), a_scale = t.random({m}, Type::f32), b_scale = t.random({n}, Type::f32);
  Array expected(m * n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t at = 0; at < k; ++at) sum += a.values[i * k + at] * b.values[j * k + at];
      expected[i * n + j] = a_scale.values[i] * b_scale.values[j] * sum;
    }
  Tensor out = t.ops.allocate(t.type, {m, n});
  t.ops.scaled_matmul(out, a.tensor, b.tensor, a_scale.tensor, b_scale.tensor);
  t.add("c", out, expected, t.ops.on_gpu() ? Gate{5e-3, 0, true} : t.reduction);
}

// Groups of rows, one of them empty, each with its matrix. The gradient of the matrices is added to
// old values.
void grouped_products(CheckTable& t) {
  const int64_t m = t.rows, n = t.c.width, k = t.c.ffn, groups = 4;
  const std::vector<int64_t> begins = {0, m / 3, m / 3, m - m / 4, m};
  Tensor offsets = t.ops.allocate(Type::i64, {groups + 1});
  t.ops.upload(offsets, begins.data());
  const auto x = t.random({m, k}), y = t.random({m, n});
  const auto each = [&](auto body) {
    for (int64_t e = 0; e < groups; ++e)
      for (int64_t row = begins[e]; row < begins[e + 1]; ++row)
        for (int64_t i = 0; i < k; ++i)
          for (int64_t j = 0; j < n; ++j) body(e, row, i, j);
  };
  for (const bool transposed : {true, false}) {
    const auto w = transposed ? t.random({groups, n, k}) : t.random({groups, k, n});
    Array expected(m * n);
    each([&](int64_t e, int64_t row, int64_t i, int64_t j) {
      expected[row * n + j] += x.values[row * k + i] * w.values[e * k * n + (transposed ? j * k + i : i * n + j)];
    });
    Tensor out = t.like(y.tensor);
    t.ops.grouped_matmul(out, x.tensor, {w.tensor, transposed}, offsets);
    t.add("c", out, expected, t.reduction);
  }
  const auto held = t.random({groups, k, n}, Type::f32);
  Array expected = held.values;
  each([&](int64_t e, int64_t row, int64_t i, int64_t j) {
    expected[e * k * n + i * n + j] += x.values[row * k + i] * y.values[row * n + j];
  });
  Tensor sums = t.f32({groups, k, n});
  t.ops.upload(sums, std::vector<float>(held.values.begin(), held.values.end()).data());
  t.ops.grouped_matmul_tn(sums, x.tensor, y.tensor, offsets, true);
  t.add("c", sums, expected, t.reduction);
}

void bias(CheckTable& t) {
  const int64_t ffn = t.c.ffn;
  auto x = t.random({t.rows, ffn}), b = t.random({ffn});
  Tensor y = t.like(x.tensor), db = t.f32({ffn});
  Array sum = x.values, columns(ffn);
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] += b.values[i % ffn];
    columns[i % ffn] += x.values[i];
  }
  t.ops.bias_add(y, x.tensor, b.tensor);
  t.add("y", y, sum, t.elementwise);
  t.ops.bias_add_backward(db, x.tensor);
  t.add("d_bias", db, columns, t.reduction);
}

void activations(CheckTable& t) {
  auto x = t.random({t.rows, t.c.ffn}, t.type, 0, 2), dy = t.random({t.rows, t.c.ffn});
  Tensor y = t.like(x.tensor), dx = t.like(x.tensor);
  const struct {
    int kind;
    const char* name;
    oracle::Activation (*formula)(double);
  } functions[] = {{LIGERDSL_ACTIVATION_GELU_TANH, "GELU, tanh", oracle::gelu},
                   {LIGERDSL_ACTIVATION_GELU_ERF, "GELU, erf", oracle::gelu_erf},
                   {LIGERDSL_ACTIVATION_SILU, "SiLU", oracle::silu},
                   {LIGERDSL_ACTIVATION_RELU, "ReLU", oracle::relu},
                   {LIGERDSL_ACTIVATION_RELU_SQUARED, "ReLU squared", oracle::relu_squared}};
  for (const auto& [kind, name, formula] : functions) {
    Array value(x.values.size()), gradient(x.values.size());
    for (size_t i = 0; i < value.size(); ++i) {
      const oracle::Activation a = formula(x.values[i]);
      value[i] = a.value;
      gradient[i] = dy.values[i] * a.slope;
    }
    t.variant(name);
    t.ops.activation(y, x.tensor, kind);
    t.add("y", y, value, t.elementwise);
    t.ops.activation_backward(dx, dy.tensor, x.tensor, kind);
    t.add("d_x", dx, gradient, t.elementwise);
  }
  t.variant("");
}

void dropout(CheckTable& t) {
  auto x = t.random({t.rows, t.c.ffn}), residual = t.random({t.rows, t.c.ffn});
  Tensor y = t.like(x.tensor);
  const Ops::Draws draws{.p = 0.25f, .seed = 0x0123456789abcdef, .offset = 0x1ffffffff};
  Array kept = oracle::dropout_mask(static_cast<int64_t>(x.values.size()), draws.p, draws.seed, draws.offset);
  for (size_t i = 0; i < kept.size(); ++i) kept[i] *= x.values[i] / 0.75;
  t.ops.dropout(y, x.tensor, {}, draws);
  t.add("y", y, kept, t.elementwise);
  t.ops.dropout_backward(y, x.tensor, draws);
  t.add("d_x", y, kept, t.elementwise);
  t.variant("residual");
  t.ops.dropout(y, x.tensor, residual.tensor, draws);
  t.add("y", y, oracle::add(kept, residual.values), t.elementwise);
  t.variant("");
}

// Joins gate and up per row, as the oracle expects them; the next function splits them.
Array joined(const Array& gate, const Array& up, int64_t ffn) {
  Array out;
  for (size_t at = 0; at < gate.size(); at += ffn) {
    out.insert(out.end(), gate.begin() + at, gate.begin() + at + ffn);
    out.insert(out.end(), up.begin() + at, up.begin() + at + ffn);
  }
  return out;
}

// Both matmuls and their activation; and their gradients, which recompute both.
void gated_products(CheckTable& t) {
  const int64_t m = t.rows, ffn = t.c.ffn, k = t.c.width;
  const auto x = t.random({m, k}), weight = t.random({2 * ffn, k}), d_out = t.random({m, ffn});
  const Array products = oracle::matmul(x.values, weight.values, m, 2 * ffn, k, false, true);
  Tensor gate_up = t.ops.allocate(t.type, {m, 2 * ffn}), out = t.ops.allocate(t.type, {m, ffn}), again = t.like(out);
  for (const bool gelu : {false, true}) {
    t.variant(gelu ? "GELU, tanh" : "SiLU");
    const Array activated = gelu ? oracle::geglu(products, ffn) : oracle::swiglu(products, ffn);
    const Array gradient = gelu ? oracle::geglu_backward(d_out.values, products, ffn)
                                : oracle::swiglu_backward(d_out.values, products, ffn);
    t.ops.gated_matmul(out, gate_up, x.tensor, weight.tensor, gelu);
    t.add("gate_up", gate_up, products, t.reduction);
    t.add("out", out, activated, t.reduction);
    fill(t.ops, again, Array(d_out.values.size(), -1));
    t.ops.gated_matmul_backward(gate_up, again, d_out.tensor, x.tensor, weight.tensor, gelu);
    t.add("d_gate_up", gate_up, gradient, t.reduction);
    t.add("out", again, activated, t.reduction);
  }
  t.variant("");
}

struct Activation {
  void (Ops::*forward)(const Tensor& out, const Ops::Gated& in);
  void (Ops::*backward)(const Ops::Gated& d_in, const Tensor& d_out, const Ops::Gated& in);
  Array (*formula)(oracle::View gate_up, int64_t ffn);
  Array (*gradient)(oracle::View dout, oracle::View gate_up, int64_t ffn);
};

// Both in one tensor and in place, as in the model; then in separate tensors.
void gated(CheckTable& t, const Activation& activation) {
  const int64_t rows = t.rows, ffn = t.c.ffn;
  auto gate_up = t.random({rows, 2 * ffn}), dout = t.random({rows, ffn}), gate = t.random({rows, ffn}),
       up = t.random({rows, ffn});
  Tensor out = t.like(dout.tensor), dgate = t.like(dout.tensor), dup = t.like(dout.tensor);

  t.variant("one tensor");
  const Ops::Gated fused{.gate_up = gate_up.tensor};
  (t.ops.*activation.forward)(out, fused);
  t.add("out", out, activation.formula(gate_up.values, ffn), t.twice_rounded);
  (t.ops.*activation.backward)(fused, dout.tensor, fused);
  t.add("d_gate_up", gate_up.tensor, activation.gradient(dout.values, gate_up.values, ffn), t.twice_rounded);

  t.variant("two tensors");
  Array both = joined(gate.values, up.values, ffn);
  (t.ops.*activation.forward)(out, {.gate = gate.tensor, .up = up.tensor});
  t.add("out", out, activation.formula(both, ffn), t.twice_rounded);
  (t.ops.*activation.backward)({.gate = dgate, .up = dup}, dout.tensor, {.gate = gate.tensor, .up = up.tensor});
  t.add("d_gate d_up", fmt::format("2x {}x{}", rows, ffn), joined(fetch(t.ops, dgate), fetch(t.ops, dup), ffn),
        activation.gradient(dout.values, both, ffn), t.twice_rounded);
  t.variant("");
}

}  // namespace

void check_elementwise(CheckTable& t) {
  sums(t);
  scale(t);
  embedding(t);
  products(t);
  batched_products(t);
  scaled_products(t);
  grouped_products(t);
  gated_products(t);
  bias(t);
  activations(t);
  dropout(t);
  gated(t, {&Ops::swiglu, &Ops::swiglu_backward, oracle::swiglu, oracle::swiglu_backward});
  gated(t, {&Ops::geglu, &Ops::geglu_backward, oracle::geglu, oracle::geglu_backward});
}

}  // namespace train
