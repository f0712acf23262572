#include "kernels/rope.h"

#include "tests/kernels/shapes.h"
#include "tests/support/oracle_elementwise.h"

namespace ligerdsl::test {
namespace {

// Heads of one tensor, logically [batch, seq, heads, d] over any memory order.
struct Heads {
  Tensor all;  // [batch, seq, heads, d]
  int64_t d;
  Tensor halves() const {
    const Sizes &n = all.shape(), &s = all.strides();
    return all.view({n[0], n[1], n[2], 2, d / 2}, {s[0], s[1], s[2], d / 2, 1});
  }
  Tensor tail() const {
    const Sizes &n = all.shape(), &s = all.strides();
    return all.view({n[0], n[1], n[2]}, {s[0], s[1], s[2]}, 2 * (d / 2));
  }
};

struct Case {
  int64_t batch = 1, seq = 1, q_heads = 1, k_heads = 1, d = 64;
  DType type = f32, angle_type = f32;
  bool batched_angles = false;
  bool heads_first = false;  // memory order [batch, heads, seq, d]
};

Heads make_heads(const Case& c, int64_t heads) {
  const int64_t n = std::max<int64_t>(heads, 1);
  Sizes strides = c.heads_first ? Sizes{n * c.seq * c.d, c.d, c.seq * c.d, 1} : Sizes{c.seq * n * c.d, n * c.d, c.d, 1};
  return {Tensor(c.type, {c.batch, c.seq, heads, c.d}, strides), c.d};
}

struct Trial {
  Case c;
  Heads q, k, q_out, k_out;
  Tensor cos, sin;

  explicit Trial(const Case& c)
      : c(c),
        q(make_heads(c, c.q_heads)),
        k(make_heads(c, c.k_heads)),
        q_out(make_heads(c, c.q_heads)),
        k_out(make_heads(c, c.k_heads)) {
    q.all.fill(Random(1).normals(q.all.size()));
    k.all.fill(Random(2).normals(k.all.size()));
    const int64_t angle_batch = c.batched_angles ? c.batch : 1;
    const Sizes shape{angle_batch, c.seq, c.d / 2}, strides{c.seq * c.d, c.d, 1};  // the second half stays poison
    cos = Tensor(c.angle_type, shape, strides);
    sin = Tensor(c.angle_type, shape, strides);
    Random random(3);
    for (int64_t i = 0; i < cos.size(); ++i) {
      const double angle = 6.28 * random.uniform();
      cos.set(i, std::cos(angle));
      sin.set(i, std::sin(angle));
    }
  }
  void run(const Heads& q_to, const Heads& k_to, const Heads& q_from, const Heads& k_from, double sign) {
    kernels::RopeOptions o{.type = c.type,
                           .angle_type = c.angle_type,
                           .q_heads = c.q_heads,
                           .k_heads = c.k_heads,
                           .head_dim = c.d,
                           .batched_angles = c.batched_angles};
    backend().run(kernels::rope(machine(), o), c.batch * c.seq,
                  Arguments()
                      .tensor("q_out", q_to.halves())
                      .tensor("q_in", q_from.halves())
                      .tensor("k_out", k_to.halves())
                      .tensor("k_in", k_from.halves())
                      .tensor("q_tail_out", q_to.tail())
                      .tensor("q_tail_in", q_from.tail())
                      .tensor("k_tail_out", k_to.tail())
                      .tensor("k_tail_in", k_from.tail())
                      .tensor("cos", cos)
                      .tensor("sin", sin)
                      .number("sign", sign));
  }
  Values expected(const Heads& x, int64_t heads, double sign) {
    return rope_oracle(x.all.values(), cos.values(), sin.values(), c.batch, c.seq, heads, c.d,
                       c.batched_angles ? c.batch : 1, sign);
  }
};

void run_and_check(const Case& c) {
  SCOPED_TRACE(std::string(name(c.type)) + " b" + std::to_string(c.batch) + " s" + std::to_string(c.seq) + " q" +
               std::to_string(c.q_heads) + " k" + std::to_string(c.k_heads) + " d" + std::to_string(c.d));
  for (double sign : {1.0, -1.0}) {
    Trial run(c);
    const Values q = run.expected(run.q, c.q_heads, sign), k = run.expected(run.k, c.k_heads, sign);
    run.run(run.q_out, run.k_out, run.q, run.k, sign);
    EXPECT_TRUE(close(run.q_out.all.values(), q, gate_e(c.type))) << "q";
    EXPECT_TRUE(close(run.k_out.all.values(), k, gate_e(c.type))) << "k";
    EXPECT_TRUE(run.q_out.all.untouched_outside() && run.k_out.all.untouched_outside());
    run.run(run.q, run.k, run.q, run.k, sign);
    EXPECT_TRUE(run.q.all.same_bits(run.q_out.all) && run.k.all.same_bits(run.k_out.all)) << "in place";
  }
}

TEST(Rope, HeadsAndTypes) {
  for (DType type : kFloats) {
    run_and_check({.batch = 2, .seq = 9, .q_heads = 8, .k_heads = 2, .d = 64, .type = type});
    run_and_check({.batch = 1, .seq = 3, .q_heads = 2, .k_heads = 5, .d = 92, .type = type});  // more k than q
    run_and_check({.batch = 1, .seq = 3, .q_heads = 73, .k_heads = 13, .d = 8, .type = type});
    run_and_check({.batch = 1, .seq = 2, .q_heads = 2, .k_heads = 0, .d = 16, .type = type});
  }
}

TEST(Rope, OddHeadDimension) {
  run_and_check({.batch = 2, .seq = 3, .q_heads = 4, .k_heads = 3, .d = 41, .type = bf16});
  run_and_check({.batch = 1, .seq = 2, .q_heads = 1, .k_heads = 1, .d = 3, .type = f32});
}

TEST(Rope, Strides) {
  run_and_check({.batch = 2, .seq = 5, .q_heads = 4, .k_heads = 2, .d = 32, .type = bf16, .heads_first = true});
  run_and_check({.batch = 2, .seq = 5, .q_heads = 1, .k_heads = 1, .d = 128, .type = f32, .heads_first = true});
}

TEST(Rope, AngleTypesAndBatches) {
  run_and_check({.batch = 3, .seq = 4, .q_heads = 2, .k_heads = 2, .d = 16, .type = bf16, .batched_angles = true});
  run_and_check({.batch = 2, .seq = 4, .q_heads = 2, .k_heads = 2, .d = 16, .type = f16, .angle_type = f16});
  run_and_check({.batch = 2, .seq = 4, .q_heads = 2, .k_heads = 2, .d = 16, .type = bf16, .angle_type = bf16});
}

TEST(Rope, WideHeadsInSeveralBlocks) {
  run_and_check({.batch = 1, .seq = 2, .q_heads = 213, .k_heads = 155, .d = 128, .type = bf16});
}

TEST(Rope, BackwardUndoesForward) {
  Trial run({.batch = 1, .seq = 6, .q_heads = 3, .k_heads = 1, .d = 64});
  run.run(run.q_out, run.k_out, run.q, run.k, 1.0);
  run.run(run.q_out, run.k_out, run.q_out, run.k_out, -1.0);
  EXPECT_TRUE(close(run.q_out.all.values(), run.q.all.values(), {1e-5, 1e-6}));
}

}  // namespace
}  // namespace ligerdsl::test
