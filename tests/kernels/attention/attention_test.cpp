// Compares attention and its gradients with float64.
#include "kernels/attention/attention.h"

#include <cmath>

#include "kernels/attention/attention_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::attention_test {
namespace {

using kernels::AttentionOptions;

struct Trial {
  DType type = f32;
  int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, dim = 64;
  int64_t left = -1, right = -1;
  double cap = 0;
  bool heads_first = false;  // memory order [batch, heads, tokens, dim]
  int64_t gap = 0;           // elements after each row
  double size = 1;           // magnitude of the scores
  MetaValues forward = {}, backward = {};
  std::vector<double> sinks = {};  // one per head, or none
  bool with_d_lse = false;

  AttentionOptions options() const {
    return {.type = type,
            .dim = dim,
            .heads = heads,
            .kv_heads = kv_heads,
            .queries = queries,
            .keys = keys,
            .left = left >= 0,
            .right = right >= 0,
            .softcap = cap > 0,
            .with_lse = true,
            .with_sinks = !sinks.empty(),
            .with_d_lse = with_d_lse};
  }
  Tensor tensor(int64_t tokens, int64_t n_heads) const {
    const int64_t row = dim + gap;
    return heads_first ? Tensor(type, {batch, tokens, n_heads, dim},
                                {n_heads * tokens * row, row, tokens * row, 1})
                       : Tensor(type, {batch, tokens, n_heads, dim},
                                {tokens * n_heads * row, n_heads * row, row, 1});
  }
  Tensor random(int64_t tokens, int64_t n_heads, uint64_t seed) const {
    Tensor t = tensor(tokens, n_heads);
    return t.fill(Random(seed).normals(t.size()));
  }
  std::string text() const {
    return kernels::meta_text(options()) + " batch " + std::to_string(batch) + " left " +
           std::to_string(left) + " right " + std::to_string(right) +
           (heads_first ? " heads first" : "") + " gap " + std::to_string(gap);
  }
  // Returns random gradients of lse, with NaN for queries without a finite lse.
  Tensor random_d_lse(const Values& lse, uint64_t seed) const {
    Values values = Random(seed).normals(static_cast<int64_t>(lse.size()));
    for (size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(lse[i])) values[i] = NAN;
    return Tensor(f32, {batch, heads, queries}).fill(values);
  }

  void check(uint64_t seed) const {
    SCOPED_TRACE(text() + " seed " + std::to_string(seed));
    const Tensor q = random(queries, heads, seed), k = random(keys, kv_heads, seed + 1),
                 v = random(keys, kv_heads, seed + 2), d_o = random(queries, heads, seed + 3);
    Tensor o = tensor(queries, heads), lse(f32, {batch, heads, queries});
    const double scale = size / std::sqrt(static_cast<double>(dim));
    Arguments arguments;
    arguments.tensor("q", q).tensor("k", k).tensor("v", v).tensor("o", o).tensor("lse", lse);
    arguments.number("scale", scale)
        .number("cap", cap)
        .number("inverse_cap", cap > 0 ? 1 / cap : 0)
        .integer("window_left", left)
        .integer("window_right", right);
    Tensor sink(f32, {heads}), d_sinks(f32, {heads});
    if (!sinks.empty()) arguments.tensor("sinks", sink.fill(sinks)).tensor("d_sinks", d_sinks);
    const Values given = sinks.empty() ? Values() : sink.values();
    const auto forward_of = kernels::attention_forward_kernel;
    backend().run(
        forward_of.build(machine(), options(), forward_of.chosen(machine(), options(), forward)),
        batch, arguments);
    const reference::AttentionCase which{.batch = batch,
                                         .queries = queries,
                                         .keys = keys,
                                         .heads = heads,
                                         .kv_heads = kv_heads,
                                         .dim = dim,
                                         .scale = static_cast<float>(scale),
                                         .cap = cap,
                                         .left = left,
                                         .right = right};
    const auto wanted =
        reference::attention_reference(which, q.values(), k.values(), v.values(), given);
    EXPECT_TRUE(close_normwise(o.values(), wanted.o, gate()));
    EXPECT_TRUE(close(lse.values(), wanted.lse, {1e-5, 3e-6}));
    EXPECT_TRUE(o.untouched_outside() && lse.untouched_outside());

    // The backward gets the reference's rounded results, so that the forward's errors do not count.
    o.fill(wanted.o);
    lse.fill(wanted.lse);
    Tensor d_q = tensor(queries, heads), d_k = tensor(keys, kv_heads), d_v = tensor(keys, kv_heads);
    arguments.tensor("d_o", d_o).tensor("d_q", d_q).tensor("d_k", d_k).tensor("d_v", d_v);
    const Tensor d_lse = random_d_lse(wanted.lse, seed + 4);
    if (with_d_lse) arguments.tensor("d_lse", d_lse);
    const auto backward_of = kernels::attention_backward_kernel;
    backend().run(
        backward_of.build(machine(), options(), backward_of.chosen(machine(), options(), backward)),
        batch, arguments);
    const auto gradients = reference::attention_gradient_reference(
        which, q.values(), k.values(), v.values(), o.values(), d_o.values(), lse.values(),
        with_d_lse ? d_lse.values() : Values(), given);
    EXPECT_TRUE(close_normwise(d_q.values(), gradients.dq, gate())) << "d_q";
    EXPECT_TRUE(close_normwise(d_k.values(), gradients.dk, gate())) << "d_k";
    EXPECT_TRUE(close_normwise(d_v.values(), gradients.dv, gate())) << "d_v";
    EXPECT_TRUE(d_q.untouched_outside() && d_k.untouched_outside() && d_v.untouched_outside());
    for (size_t h = 0; h < given.size(); ++h)
      EXPECT_NEAR(d_sinks.values()[h], gradients.d_sinks[h], 1e-5 * gradients.sink_terms[h] + 1e-30)
          << "d_sinks of head " << h;
  }
  // Weights and their gradients are rounded to the dtype before matmuls. With f32, the error of the
  // exponents grows with the scores.
  double gate() const {
    return type == f32 ? 1e-5 * std::max(1.0, size / 10) : type == f16 ? 1.5e-3 : 1e-2;
  }
};

TEST(Attention, TypesAndHeads) {
  uint64_t seed = 11;
  for (DType type : kFloats) {
    Trial{.type = type,
          .batch = 2,
          .queries = 40,
          .keys = 40,
          .heads = 2,
          .kv_heads = 2,
          .dim = 32,
          .right = 0}
        .check(seed += 5);
    Trial{.type = type, .queries = 21, .keys = 70, .heads = 4, .kv_heads = 2, .dim = 16}.check(
        seed += 5);
    Trial{.type = type, .queries = 5, .keys = 3, .heads = 3, .kv_heads = 1, .dim = 16, .right = 0}
        .check(seed += 5);
    Trial{.type = type, .batch = 3, .dim = 8}.check(seed += 5);
  }
}

// Cases: tiles wider than heads, heads whose columns are not a multiple of a vector, the widest
// heads.
TEST(Attention, HeadDimensions) {
  uint64_t seed = 201;
  for (int64_t dim : {1, 40, 80, 96, 100, 128, 136, 192, 208, 256})
    Trial{.type = bf16, .queries = 24, .keys = 40, .dim = dim, .right = 0}.check(seed += 5);
  Trial{.type = f32, .queries = 20, .keys = 40, .dim = 100}.check(seed += 5);
}

// If the head dimension is a multiple of a vector, every step uses its aligned variant, for any
// number of tokens.
TEST(Attention, HeadsOfWholeVectorsAtOddLengths) {
  uint64_t seed = 221;
  backend().took_generic();
  for (int64_t dim : {72, 80, 104, 120, 176, 240})
    Trial{.type = bf16, .queries = 67, .keys = 131, .dim = dim, .right = 0}.check(seed += 5);
  Trial{.type = f16,
        .queries = 67,
        .keys = 131,
        .heads = 2,
        .kv_heads = 1,
        .dim = 24,
        .right = 0,
        .cap = 3}
      .check(seed);
  EXPECT_EQ(backend().took_generic(), std::vector<std::string>());
}

// With the default schedules, some blocks of keys are fully visible and some contain an edge of the
// window.
TEST(Attention, ManyBlocks) {
  uint64_t seed = 251;
  for (int64_t dim : {64, 128, 256})
    Trial{.type = bf16, .queries = 40, .keys = 200, .dim = dim, .left = 190, .right = 0}.check(
        seed += 5);
  Trial{.type = bf16, .queries = 40, .keys = 200, .dim = 128, .right = 0}.check(seed += 5);
}

// A CPU core's L2 holds two of the three heads: two run together, then the last one.
TEST(Attention, HeadsGroupedByL2) {
  Trial{.type = bf16,
        .batch = 3,
        .queries = 200,
        .keys = 200,
        .heads = 2,
        .kv_heads = 1,
        .dim = 128,
        .right = 0}
      .check(261);
}

// Schedules that reload operands from shared memory or hold them in registers, with two or three
// stages.
TEST(Attention, Schedules) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no pipelined loads";
  uint64_t seed = 271;
  for (DType type : {bf16, f32})
    for (const char* reload : {"false", "true"})
      for (const char* stages : {"2", "3"})
        Trial{.type = type,
              .queries = 40,
              .keys = 100,
              .heads = 2,
              .kv_heads = 1,
              .dim = 16,
              .right = 0,
              .forward = {{"queries", "64"},
                          {"keys", "32"},
                          {"num_warps", "4"},
                          {"reload", reload},
                          {"stages", stages}},
              .backward = {{"k_queries", "32"},
                           {"k_keys", "64"},
                           {"k_warps", "4"},
                           {"k_reload", reload},
                           {"k_stages", stages},
                           {"q_queries", "64"},
                           {"q_keys", "32"},
                           {"q_warps", "4"},
                           {"q_reload", reload},
                           {"q_stages", stages}}}
            .check(seed += 5);
}

TEST(Attention, Strides) {
  uint64_t seed = 301;
  for (bool heads_first : {false, true})
    for (int64_t gap : {0, 8, 3})
      Trial{.type = bf16,
            .batch = 2,
            .queries = 34,
            .keys = 50,
            .heads = 4,
            .kv_heads = 2,
            .dim = 32,
            .right = 0,
            .heads_first = heads_first,
            .gap = gap}
          .check(seed += 5);
}

// Queries that see no key get zeros, even if the first key's values are infinite and NaN.
TEST(Attention, HiddenValues) {
  for (const auto& [type, dim] : {std::pair<DType, int64_t>{bf16, 64}, {f32, 40}}) {
    const Trial which{.type = type,
                      .queries = 150,
                      .keys = 40,
                      .heads = 2,
                      .kv_heads = 1,
                      .dim = dim,
                      .right = 0};
    const int64_t unseen = which.queries - which.keys;
    const Tensor q = which.random(which.queries, which.heads, 3),
                 k = which.random(which.keys, which.kv_heads, 4);
    Tensor v = which.tensor(which.keys, which.kv_heads),
           o = which.tensor(which.queries, which.heads);
    std::vector<double> values = Random(5).normals(v.size());
    values[0] = INFINITY, values[1] = NAN;
    v.fill(values);
    Tensor lse(f32, {1, which.heads, which.queries});
    Arguments arguments;
    arguments.tensor("q", q)
        .tensor("k", k)
        .tensor("v", v)
        .tensor("o", o)
        .tensor("lse", lse)
        .number("scale", 0.125);
    arguments.integer("window_right", 0);
    backend().run(kernels::attention_forward(machine(), which.options()), 1, arguments);
    const std::vector<double> found = o.values();
    for (int64_t i = 0; i < unseen * which.heads * dim; ++i)
      ASSERT_EQ(found[static_cast<size_t>(i)], 0) << i;
    for (int64_t head = 0; head < which.heads; ++head)
      EXPECT_EQ(lse.values()[static_cast<size_t>(head * which.queries + unseen - 1)], -INFINITY);
    EXPECT_FALSE(std::isfinite(found[static_cast<size_t>(unseen * which.heads * dim)]))
        << "the first that sees the first key";
  }
}

// Cases: blocks before, on and after both edges of the band, queries that see no key, and distant
// edges.
TEST(Attention, Windows) {
  uint64_t seed = 401;
  struct Window {
    int64_t left, right;
  };
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{150, 150}, {40, 150}, {150, 40}})
    for (const auto& [left, right] :
         {Window{-1, 0}, {17, 0}, {0, 0}, {70, 3}, {-1, 40}, {30, -1}, {1000, 1000}})
      Trial{.type = bf16,
            .queries = queries,
            .keys = keys,
            .heads = 2,
            .kv_heads = 1,
            .dim = 16,
            .left = left,
            .right = right,
            .forward = {{"queries", "32"}, {"keys", "32"}},
            .backward = {{"k_queries", "32"},
                         {"k_keys", "32"},
                         {"q_queries", "32"},
                         {"q_keys", "32"}}}
          .check(seed += 5);
}

// Scores are computed one block ahead of the values. With TMA copies, one loop processes all
// blocks. Cases: first and last iterations, edges, rows that see no key.
TEST(Attention, ScoresAheadAndTmaCopies) {
  struct Schedule {
    MetaValues forward, backward = {};
  };
  struct Window {
    int64_t left, right;
  };
  std::vector<Schedule> schedules{{{{"ahead", "true"}}}};
  if (machine().is_gpu()) {
    schedules.push_back({{{"ahead", "true"},
                          {"queries", "128"},
                          {"keys", "32"},
                          {"num_warps", "8"},
                          {"reload", "true"}}});
    schedules.push_back(
        {{{"ahead", "true"}, {"tensor_copies", "true"}},
         {{"k_tensor_copies", "true"}, {"q_tensor_copies", "true"}, {"q_reload", "true"}}});
    schedules.push_back({{{"ahead", "true"},
                          {"keys", "32"},
                          {"stages", "3"},
                          {"reload", "true"},
                          {"tensor_copies", "true"}},
                         {{"k_keys", "64"},
                          {"k_queries", "32"},
                          {"k_warps", "4"},
                          {"k_stages", "3"},
                          {"k_tensor_copies", "true"}}});
  }
  uint64_t seed = 451;
  const std::vector<std::pair<int64_t, int64_t>> lengths{{150, 150}, {40, 150}, {150, 40}};
  const std::vector<Window> windows{{-1, 0}, {-1, -1}, {17, 0}, {70, 3}, {30, -1}};
  for (const auto& [schedule, length, window] : combinations(schedules, lengths, windows))
    Trial{.type = bf16,
          .queries = length.first,
          .keys = length.second,
          .heads = 2,
          .kv_heads = 1,
          .dim = 64,
          .left = window.left,
          .right = window.right,
          .forward = schedule.forward,
          .backward = schedule.backward}
        .check(seed += 5);
  const MetaValues ahead = schedules[0].forward;
  for (int64_t dim : {40, 128, 256})
    Trial{.type = bf16, .queries = 40, .keys = 200, .dim = dim, .right = 0, .forward = ahead}.check(
        seed += 5);
  Trial{
      .type = f32, .queries = 40, .keys = 200, .dim = 32, .right = 0, .size = 100, .forward = ahead}
      .check(seed += 5);
  Trial{.type = f16,
        .queries = 40,
        .keys = 66,
        .dim = 32,
        .right = 0,
        .cap = 3,
        .size = 4,
        .forward = ahead}
      .check(seed += 5);
}

TEST(Attention, Softcap) {
  uint64_t seed = 501;
  for (DType type : kFloats)
    Trial{.type = type,
          .queries = 40,
          .keys = 66,
          .heads = 2,
          .kv_heads = 1,
          .dim = 32,
          .right = 0,
          .cap = 3,
          .size = 4}
        .check(seed += 5);
}

// Scores are in the hundreds, so a row's maximum changes from block to block.
TEST(Attention, LargeScores) {
  Trial{.type = f32, .queries = 40, .keys = 200, .dim = 32, .right = 0, .size = 100}.check(601);
  Trial{.type = f16, .queries = 40, .keys = 200, .dim = 32, .size = 100}.check(606);
}

// Cases:
// - sinks below, among and far above the scores, and no sink
// - queries without keys, windows, a softcap
// - more partial sums of d_sinks than one tile holds
TEST(AttentionSinks, MatchFormula) {
  uint64_t seed = 801;
  const std::vector<double> sinks{0.5, -30, 100, -INFINITY};
  struct Scores {
    int64_t left, right;
    double cap, size;
  };
  const std::vector<Scores> all_scores{{-1, 0, 0, 1}, {17, 2, 3, 4}, {-1, -1, 3, 4}};
  const std::vector<bool> gradients_of_lse{false, true};
  for (const auto& [type, scores, with_d_lse] : combinations(kFloats, all_scores, gradients_of_lse))
    Trial{.type = type,
          .batch = 2,
          .queries = 70,
          .keys = 50,
          .heads = 4,
          .kv_heads = 2,
          .dim = 32,
          .left = scores.left,
          .right = scores.right,
          .cap = scores.cap,
          .size = scores.size,
          .sinks = sinks,
          .with_d_lse = with_d_lse}
        .check(seed += 5);
  Trial{.type = bf16, .batch = 3, .dim = 8, .sinks = {1.5}, .with_d_lse = true}.check(seed += 5);
  Trial{.type = f32, .batch = 520, .dim = 8, .sinks = {-1}}.check(seed += 5);
}

TEST(AttentionSinks, Schedules) {
  uint64_t seed = 901;
  std::vector<std::pair<MetaValues, MetaValues>> schedules{
      {{{"ahead", "true"}}, {{"apart", "true"}}}};
  if (machine().is_gpu())
    schedules.push_back(
        {{{"ahead", "true"}, {"reload", "true"}, {"tensor_copies", "true"}},
         {{"k_tensor_copies", "true"}, {"q_tensor_copies", "true"}, {"q_reload", "true"}}});
  const std::vector<int64_t> dims{64, 128}, rights{-1, 0};
  for (const auto& [schedule, dim, right] : combinations(schedules, dims, rights))
    Trial{.type = bf16,
          .queries = 150,
          .keys = 90,
          .heads = 2,
          .kv_heads = 1,
          .dim = dim,
          .right = right,
          .forward = schedule.first,
          .backward = schedule.second,
          .sinks = {2, -1},
          .with_d_lse = true}
        .check(seed += 5);
}

// A query that sees no key has o = 0 and its sink's lse, even if the first key's values are
// infinite and NaN.
TEST(AttentionSinks, HiddenValues) {
  const MetaValues with_ahead{{"ahead", "true"}},
      without{{"ahead", "false"}, {"tensor_copies", "false"}};
  for (const MetaValues& schedule : {with_ahead, without})
    for (const int64_t keys : {0, 40}) {
      const Trial which{.type = bf16, .queries = 150, .keys = keys, .right = 0};
      AttentionOptions options = which.options();
      options.with_sinks = true;
      const Tensor q = which.random(which.queries, 1, 3), k = which.random(keys, 1, 4),
                   sinks = Tensor(f32, {1}).fill(Values{-2.5});
      Tensor v = which.tensor(keys, 1), o = which.tensor(which.queries, 1),
             lse(f32, {1, 1, which.queries});
      Values values = Random(5).normals(v.size());
      if (keys > 0) values[0] = INFINITY, values[1] = NAN;
      v.fill(values);
      Arguments arguments;
      arguments.tensor("q", q).tensor("k", k).tensor("v", v).tensor("o", o).tensor("lse", lse);
      arguments.tensor("sinks", sinks).number("scale", 0.125).integer("window_right", 0);
      const auto& kernel = kernels::attention_forward_kernel;
      backend().run(kernel.build(machine(), options, kernel.chosen(machine(), options, schedule)),
                    1, arguments);
      const Values found = o.values(), sums = lse.values();
      for (int64_t i = 0; i < (which.queries - keys) * which.dim; ++i)
        ASSERT_EQ(found[static_cast<size_t>(i)], 0) << i;
      for (int64_t i = 0; i < which.queries - keys; ++i)
        ASSERT_NEAR(sums[static_cast<size_t>(i)], -2.5, 1e-6) << i;
    }
}

// A sink of -inf gives the same bits as no sink, and its gradient is 0.
TEST(AttentionSinks, MinusInfinityIsNoSink) {
  for (const int64_t keys : {40, 150}) {
    const Trial which{.type = bf16,
                      .queries = 100,
                      .keys = keys,
                      .heads = 2,
                      .kv_heads = 1,
                      .dim = 64,
                      .right = 0};
    const Tensor q = which.random(which.queries, 2, 3), k = which.random(keys, 1, 4),
                 v = which.random(keys, 1, 5), d_o = which.random(which.queries, 2, 6),
                 sinks = Tensor(f32, {2}).fill(Values{-INFINITY, -INFINITY});
    std::vector<Values> results[2];
    for (const bool with_sinks : {false, true}) {
      AttentionOptions options = which.options();
      options.with_sinks = with_sinks;
      Tensor o = which.tensor(which.queries, 2), lse(f32, {1, 2, which.queries}),
             d_q = which.tensor(which.queries, 2), d_k = which.tensor(keys, 1),
             d_v = which.tensor(keys, 1), d_sinks(f32, {2});
      Arguments arguments;
      arguments.tensor("q", q).tensor("k", k).tensor("v", v).tensor("o", o).tensor("lse", lse);
      arguments.tensor("d_o", d_o).tensor("d_q", d_q).tensor("d_k", d_k).tensor("d_v", d_v);
      arguments.number("scale", 0.125).integer("window_right", 0);
      if (with_sinks) arguments.tensor("sinks", sinks).tensor("d_sinks", d_sinks);
      backend().run(kernels::attention_forward(machine(), options), 1, arguments);
      backend().run(kernels::attention_backward(machine(), options), 1, arguments);
      results[with_sinks] = {o.values(), lse.values(), d_q.values(), d_k.values(), d_v.values()};
      if (with_sinks) {
        EXPECT_EQ(d_sinks.values(), (Values{0, 0}));
      }
    }
    EXPECT_EQ(results[0], results[1]) << keys << " keys";
  }
}

// Tests the gradient that flows through lse, without sinks. Queries without keys have an lse of
// -inf, and their gradients of lse are NaN.
TEST(AttentionLseGradient, MatchesFormula) {
  uint64_t seed = 1001;
  const std::vector<int64_t> lengths{30, 90};
  const std::vector<double> caps{0, 3};
  for (const auto& [type, keys, cap] : combinations(kFloats, lengths, caps))
    Trial{.type = type,
          .batch = 2,
          .queries = 50,
          .keys = keys,
          .heads = 4,
          .kv_heads = 2,
          .dim = 40,
          .right = 0,
          .cap = cap,
          .with_d_lse = true}
        .check(seed += 5);
}

TEST(Attention, SeparateKeyAndValueGradients) {
  Trial{.type = bf16,
        .queries = 70,
        .keys = 90,
        .heads = 4,
        .kv_heads = 2,
        .dim = 64,
        .right = 0,
        .backward = {{"apart", "true"}}}
      .check(701);
}

}  // namespace
}  // namespace ligerdsl::test::attention_test
