// Compares attention over sequences of different lengths with float64 attention of each sequence.
#include <cmath>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_reference.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::attention_sequences_test {
namespace {

using kernels::AttentionOptions;

struct Length {
  int64_t queries, keys;
};

std::vector<Length> alike(const std::vector<int64_t>& lengths) {
  std::vector<Length> all;
  for (const int64_t length : lengths) all.push_back({length, length});
  return all;
}

struct Trial {
  std::vector<Length> lengths;
  DType type = bf16;
  int64_t heads = 2, kv_heads = 1, dim = 64;
  int64_t left = -1, right = -1;
  double cap = 0;
  DType index_type = i32;
  int64_t bound_stride = 1;
  bool heads_first = false;  // memory order [heads, tokens, dim]
  int64_t gap = 0;           // elements after each row
  double size = 1;           // magnitude of the scores
  MetaValues forward = {}, backward = {};
  int64_t max_length = 0;          // max_queries and max_keys of the call; 0 for the longest length
  std::vector<double> sinks = {};  // one per head, or none
  bool with_d_lse = false;

  std::vector<int64_t> bounds(int64_t Length::*count) const {
    std::vector<int64_t> all{0};
    for (const Length& length : lengths) all.push_back(all.back() + length.*count);
    return all;
  }
  int64_t queries() const { return bounds(&Length::queries).back(); }
  int64_t keys() const { return bounds(&Length::keys).back(); }
  int64_t rows() const { return std::max(queries(), keys()); }
  int64_t most(int64_t Length::*count) const {
    if (max_length) return max_length;
    int64_t most = 1;
    for (const Length& length : lengths) most = std::max(most, length.*count);
    return most;
  }
  AttentionOptions options() const {
    return {.type = type,
            .dim = dim,
            .heads = heads,
            .kv_heads = kv_heads,
            .queries = most(&Length::queries),
            .keys = most(&Length::keys),
            .left = left >= 0,
            .right = right >= 0,
            .softcap = cap > 0,
            .with_lse = true,
            .with_sinks = !sinks.empty(),
            .with_d_lse = with_d_lse,
            .sequences = static_cast<int64_t>(lengths.size()),
            .index_type = index_type};
  }
  double scale() const { return size / std::sqrt(static_cast<double>(dim)); }
  reference::AttentionSequences which() const {
    return {.of_all = {.heads = heads,
                       .kv_heads = kv_heads,
                       .dim = dim,
                       .scale = static_cast<float>(scale()),
                       .cap = cap,
                       .left = left,
                       .right = right},
            .queries = bounds(&Length::queries),
            .keys = bounds(&Length::keys)};
  }
  Tensor tensor(int64_t tokens, int64_t n_heads) const {
    const int64_t row = dim + gap;
    return heads_first ? Tensor(type, {tokens, n_heads, dim}, {row, tokens * row, 1})
                       : Tensor(type, {tokens, n_heads, dim}, {n_heads * row, row, 1});
  }

  struct Tensors {
    Tensor q, k, v, o, lse, d_o, d_q, d_k, d_v, cu_q, cu_k, error, sinks, d_sinks, d_lse;
  };
  Tensors tensors(uint64_t seed) const {
    const auto random = [&](int64_t tokens, int64_t n_heads) {
      Tensor t = tensor(tokens, n_heads);
      return t.fill(Random(seed++).normals(t.size()));
    };
    const auto bounds_of = [&](int64_t Length::*count) {
      return Tensor(index_type, {static_cast<int64_t>(lengths.size()) + 1}, {bound_stride})
          .fill(bounds(count));
    };
    return {.q = random(queries(), heads),
            .k = random(keys(), kv_heads),
            .v = random(keys(), kv_heads),
            .o = tensor(queries(), heads),
            .lse = Tensor(f32, {heads, queries()}),
            .d_o = random(queries(), heads),
            .d_q = tensor(queries(), heads),
            .d_k = tensor(keys(), kv_heads),
            .d_v = tensor(keys(), kv_heads),
            .cu_q = bounds_of(&Length::queries),
            .cu_k = bounds_of(&Length::keys),
            .error = Tensor(i64, {1}).fill(std::vector<int64_t>{0}),
            .sinks = Tensor(f32, {heads}).fill(sinks.empty() ? Values(heads, 0.0) : sinks),
            .d_sinks = Tensor(f32, {heads}),
            .d_lse = Tensor(f32, {heads, queries()})};
  }
  Arguments arguments(const Tensors& t) const {
    Arguments arguments;
    arguments.tensor("q", t.q).tensor("k", t.k).tensor("v", t.v).tensor("o", t.o).tensor("lse",
                                                                                         t.lse);
    arguments.tensor("d_o", t.d_o).tensor("d_q", t.d_q).tensor("d_k", t.d_k).tensor("d_v", t.d_v);
    arguments.tensor("cu_seqlens_q", t.cu_q)
        .tensor("cu_seqlens_k", t.cu_k)
        .tensor("error", t.error);
    if (!sinks.empty()) arguments.tensor("sinks", t.sinks).tensor("d_sinks", t.d_sinks);
    if (with_d_lse) arguments.tensor("d_lse", t.d_lse);
    return arguments.number("scale", scale())
        .number("cap", cap)
        .number("inverse_cap", cap > 0 ? 1 / cap : 0)
        .integer("window_left", left)
        .integer("window_right", right)
        .integer("max_queries", most(&Length::queries))
        .integer("max_keys", most(&Length::keys));
  }
  void run_forward(const Tensors& t) const {
    const auto& kernel = kernels::attention_forward_kernel;
    backend().run(kernel.build(machine(), options(), kernel.chosen(machine(), options(), forward)),
                  rows(), arguments(t));
  }
  void run_backward(const Tensors& t) const {
    const auto& kernel = kernels::attention_backward_kernel;
    backend().run(kernel.build(machine(), options(), kernel.chosen(machine(), options(), backward)),
                  rows(), arguments(t));
  }
  std::string text() const {
    std::string text = kernels::meta_text(options()) + " left " + std::to_string(left) + " right " +
                       std::to_string(right) + (heads_first ? " heads first" : "") + " gap " +
                       std::to_string(gap);
    for (const auto& [queries, keys] : lengths)
      text += " " + std::to_string(queries) + ":" + std::to_string(keys);
    return text;
  }
  void check(uint64_t seed) const {
    SCOPED_TRACE(text() + " seed " + std::to_string(seed));
    Tensors t = tensors(seed);
    run_forward(t);
    const Values given = sinks.empty() ? Values() : t.sinks.values();
    const auto wanted =
        reference::attention_reference(which(), t.q.values(), t.k.values(), t.v.values(), given);
    EXPECT_TRUE(close_normwise(t.o.values(), wanted.o, gate()));
    EXPECT_TRUE(close(t.lse.values(), wanted.lse, {1e-5, 3e-6}));
    EXPECT_TRUE(t.o.untouched_outside() && t.lse.untouched_outside());

    // The backward gets the reference's rounded results, so that the forward's errors do not count.
    t.o.fill(wanted.o);
    t.lse.fill(wanted.lse);
    Values of_lse = Random(seed + 8).normals(t.lse.size());
    for (size_t i = 0; i < of_lse.size(); ++i)
      if (!std::isfinite(wanted.lse[i])) of_lse[i] = NAN;
    t.d_lse.fill(of_lse);
    run_backward(t);
    const auto gradients = reference::attention_gradient_reference(
        which(), t.q.values(), t.k.values(), t.v.values(), t.o.values(), t.d_o.values(),
        t.lse.values(), with_d_lse ? t.d_lse.values() : Values(), given);
    EXPECT_TRUE(close_normwise(t.d_q.values(), gradients.dq, gate())) << "d_q";
    EXPECT_TRUE(close_normwise(t.d_k.values(), gradients.dk, gate())) << "d_k";
    EXPECT_TRUE(close_normwise(t.d_v.values(), gradients.dv, gate())) << "d_v";
    EXPECT_TRUE(t.d_q.untouched_outside() && t.d_k.untouched_outside() &&
                t.d_v.untouched_outside());
    for (size_t h = 0; h < given.size(); ++h)
      EXPECT_NEAR(t.d_sinks.values()[h], gradients.d_sinks[h],
                  1e-5 * gradients.sink_terms[h] + 1e-30)
          << "d_sinks of head " << h;
    EXPECT_EQ(t.error.get_integer(0), 0);
  }
  // Weights and their gradients are rounded to the dtype before matmuls. With f32, the error of the
  // exponents grows with the scores.
  double gate() const {
    return type == f32 ? 1e-5 * std::max(1.0, size / 10) : type == f16 ? 1.5e-3 : 1e-2;
  }
};

// Lengths: none, one, about a block, several blocks.
const std::vector<Length> kUsual = alike({0, 1, 63, 64, 65, 200});

TEST(AttentionSequences, TypesAndHeads) {
  uint64_t seed = 11;
  for (const DType type : kFloats) {
    Trial{.lengths = alike({21, 0, 40, 1}), .type = type, .kv_heads = 2, .dim = 32, .right = 0}
        .check(seed += 9);
    Trial{.lengths = {{21, 70}, {5, 3}, {9, 0}, {0, 7}, {30, 33}},
          .type = type,
          .heads = 4,
          .kv_heads = 2,
          .dim = 16}
        .check(seed += 9);
    Trial{.lengths = {{5, 3}, {40, 2}},
          .type = type,
          .heads = 3,
          .dim = 24,
          .right = 0,
          .index_type = i64}
        .check(seed += 9);
  }
}

// Lengths are around the sizes of the default blocks. Covers all keys, causal masks, and two-sided
// windows.
TEST(AttentionSequences, Lengths) {
  struct Window {
    int64_t left, right;
  };
  uint64_t seed = 201;
  for (const auto& [left, right] : {Window{-1, -1}, {-1, 0}, {17, 0}, {70, 3}, {30, -1}})
    Trial{.lengths = kUsual, .left = left, .right = right}.check(seed += 9);
  Trial{.lengths = kUsual, .dim = 128, .right = 0}.check(seed += 9);
}

TEST(AttentionSequences, HeadDimensions) {
  uint64_t seed = 301;
  for (const int64_t dim : {1, 40, 96, 128, 192, 256})
    Trial{.lengths = {{24, 40}, {70, 65}}, .heads = 1, .dim = dim, .right = 0}.check(seed += 9);
}

TEST(AttentionSequences, OneSequenceAndMany) {
  uint64_t seed = 401;
  Trial{.lengths = {{70, 90}}, .right = 0}.check(seed += 9);
  std::vector<Length> many;
  for (int64_t i = 0; i < 60; ++i) many.push_back({i * i % 7 % 4, i * i % 11 % 5});
  Trial{.lengths = many, .type = f16, .dim = 16, .right = 1}.check(seed += 9);
}

// Covers sequences without keys or without queries, and calls that have no other sequences.
TEST(AttentionSequences, Empty) {
  uint64_t seed = 501;
  Trial{.lengths = {{0, 0}, {0, 70}, {70, 0}, {0, 0}, {3, 3}, {0, 0}}, .right = 0}.check(seed += 9);
  Trial{.lengths = {{5, 0}, {66, 0}}}.check(seed += 9);
  Trial{.lengths = {{0, 5}, {0, 66}}}.check(seed += 9);
}

// The number of tokens bounds the grids, even if the maximum length of a call is 2^31 - 1.
TEST(AttentionSequences, WorkIsBoundedByTokens) {
  constexpr int64_t kLongest = (int64_t{1} << 31) - 1;
  const Trial exact{.lengths = {{33, 20}, {0, 13}, {7, 90}}, .right = 0};
  Trial loose = exact;
  loose.max_length = kLongest;
  const int64_t tokens = exact.rows();
  for (const auto& operation : {kernels::attention_forward(machine(), loose.options()),
                                kernels::attention_backward(machine(), loose.options())})
    for (const kernels::Step& step : operation.steps)
      ASSERT_LE(step.launch.grid_at(tokens)[0], 3 * loose.heads * ((tokens + 15) / 16))
          << step.program.name;
  loose.check(551);
  Trial empty{.lengths = {{0, 0}, {0, 0}}, .max_length = kLongest};
  empty.check(561);
}

TEST(AttentionSequences, Strides) {
  uint64_t seed = 601;
  for (const bool heads_first : {false, true})
    for (const int64_t gap : {0, 8, 3})
      Trial{.lengths = {{34, 50}, {7, 2}, {66, 66}},
            .heads = 4,
            .kv_heads = 2,
            .dim = 32,
            .right = 0,
            .bound_stride = 1 + gap,
            .heads_first = heads_first,
            .gap = gap}
          .check(seed += 9);
}

TEST(AttentionSequences, SoftcapAndLargeScores) {
  uint64_t seed = 701;
  Trial{.lengths = alike({40, 66}), .type = f16, .dim = 32, .right = 0, .cap = 3, .size = 4}.check(
      seed += 9);
  Trial{.lengths = alike({40, 66}), .type = f32, .dim = 32, .right = 0, .size = 100}.check(seed +=
                                                                                           9);
}

TEST(AttentionSequences, Schedules) {
  uint64_t seed = 801;
  std::vector<Trial> all{{.forward = {{"ahead", "true"}}, .backward = {{"apart", "true"}}}};
  if (machine().is_gpu())
    for (const char* reload : {"false", "true"})
      all.push_back({.forward = {{"queries", "64"},
                                 {"keys", "32"},
                                 {"num_warps", "4"},
                                 {"reload", reload},
                                 {"stages", "3"}},
                     .backward = {{"k_queries", "32"},
                                  {"k_keys", "64"},
                                  {"k_warps", "4"},
                                  {"k_reload", reload},
                                  {"q_queries", "64"},
                                  {"q_keys", "32"},
                                  {"q_warps", "4"},
                                  {"q_reload", reload}}});
  for (Trial& trial : all) {
    trial.lengths = {{70, 100}, {0, 3}, {40, 40}}, trial.right = 0;
    trial.check(seed += 9);
  }
}

// Cases: queries without keys, keys without queries, no queries at all, no sink, large sinks.
TEST(AttentionSequences, SinksAndGradientsOfLse) {
  uint64_t seed = 821;
  const std::vector<std::vector<double>> all_sinks{{1, -20}, {-INFINITY, 100}, {}};
  const std::vector<int64_t> rights{-1, 0};
  for (const auto& [type, sinks, right] : combinations(kFloats, all_sinks, rights))
    Trial{.lengths = {{70, 100}, {0, 3}, {40, 20}, {5, 0}},
          .type = type,
          .dim = 24,
          .right = right,
          .sinks = sinks,
          .with_d_lse = true}
        .check(seed += 9);
  Trial{.lengths = {{5, 0}, {66, 0}}, .sinks = {1, 2}, .with_d_lse = true}.check(seed += 9);
  Trial{.lengths = {{0, 5}, {0, 66}}, .sinks = {1, 2}, .with_d_lse = true}.check(seed += 9);
}

const MetaValues kCopiedForward{{"ahead", "true"}, {"reload", "true"}, {"tensor_copies", "true"}},
    kCopiedBackward{{"k_reload", "true"},
                    {"k_tensor_copies", "true"},
                    {"q_reload", "true"},
                    {"q_tensor_copies", "true"}};

TEST(AttentionSequences, TmaCopies) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no TMA copies";
  uint64_t seed = 851;
  const Trial trial{.lengths = kUsual, .forward = kCopiedForward, .backward = kCopiedBackward};
  struct Window {
    int64_t left, right;
  };
  for (const auto& [left, right] : {Window{-1, -1}, {-1, 0}, {17, 0}, {70, 3}}) {
    Trial other = trial;
    other.left = left, other.right = right;
    other.check(seed += 9);
  }
  Trial wide = trial;
  wide.dim = 128, wide.right = 0, wide.heads_first = true, wide.gap = 8;
  wide.forward["keys"] = wide.forward["queries"] = "128", wide.forward["num_warps"] = "8";
  wide.check(seed += 9);
  wide.sinks = {-1, 3}, wide.with_d_lse = true;
  wide.check(seed += 9);
  Trial empty = trial;
  empty.lengths = {{0, 0}, {0, 70}, {70, 0}, {0, 0}, {3, 3}, {0, 0}};
  empty.check(seed += 9);
  Trial unaligned = trial;  // strides that TMA descriptors cannot describe
  unaligned.gap = 3;
  unaligned.check(seed += 9);
}

// The bits of a sequence's results do not depend on adjacent sequences, which may hold any values.
void sequences_are_isolated(const MetaValues& forward, const MetaValues& backward) {
  const Trial trial{.lengths = {{30, 20}, {50, 70}, {9, 33}},
                    .right = 0,
                    .forward = forward,
                    .backward = backward};
  const Trial alone{.lengths = {{50, 70}}, .right = 0, .forward = forward, .backward = backward};
  Trial::Tensors t = trial.tensors(41), one = alone.tensors(51);
  const auto rows_of = [&](const Values& all, int64_t first, int64_t count, int64_t heads) {
    return trial.which().rows(all, first, count, heads);
  };
  const auto share = [&](Tensor* all, Tensor* own, int64_t first, int64_t count, int64_t heads) {
    Values values = all->values();
    own->fill(rows_of(values, first, count, heads));
    for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i)
      if (i < first * heads * trial.dim || i >= (first + count) * heads * trial.dim)
        values[static_cast<size_t>(i)] = i % 2 ? INFINITY : NAN;
    all->fill(values);
  };
  share(&t.q, &one.q, 30, 50, 2), share(&t.d_o, &one.d_o, 30, 50, 2);
  share(&t.k, &one.k, 20, 70, 1), share(&t.v, &one.v, 20, 70, 1);
  trial.run_forward(t), alone.run_forward(one);
  trial.run_backward(t), alone.run_backward(one);
  EXPECT_EQ(rows_of(t.o.values(), 30, 50, 2), one.o.values());
  EXPECT_EQ(trial.which().numbers(t.lse.values(), 30, 50), one.lse.values());
  EXPECT_EQ(rows_of(t.d_q.values(), 30, 50, 2), one.d_q.values());
  EXPECT_EQ(rows_of(t.d_k.values(), 20, 70, 1), one.d_k.values());
  EXPECT_EQ(rows_of(t.d_v.values(), 20, 70, 1), one.d_v.values());
}

TEST(AttentionSequences, SequencesAreIsolated) {
  sequences_are_isolated({}, {});
  if (machine().is_gpu()) sequences_are_isolated(kCopiedForward, kCopiedBackward);
}

// Invalid bounds cause no read outside the arguments and no write outside the results. The
// interpreter, the emulator and sanitizers check this. The first wrong sequence is reported.
TEST(AttentionSequences, InvalidBounds) {
  struct Wrong {
    std::vector<int64_t> queries, keys;
    int64_t sequence;
  };
  const std::vector<int64_t> right{0, 10, 20, 40};
  const int64_t far = int64_t{1} << 40;
  const std::vector<Wrong> all = {
      {{0, 10, 5, 40}, right, 1},
      {right, {0, 10, 5, 40}, 1},
      {{-1, 10, 20, 40}, right, 0},
      {right, {0, 10, 20, 41}, 2},
      {right, {3, 10, 20, 40}, 0},
      {{0, 10, 20, 39}, right, 2},
      {right, {0, 0, 21, 40}, 1},
      {{0, far, -far, 40}, right, 0},
      {{INT64_MIN, INT64_MAX, 0, 40}, {INT64_MIN, INT64_MAX, INT64_MIN, 0}, 0},
      {right, {40, 30, 20, 10}, 0}};
  std::vector<Trial> trials(
      all.size(),
      {.lengths = alike({10, 10, 20}), .dim = 16, .right = 0, .index_type = i64, .gap = 8});
  Trial copied = trials[0];
  copied.dim = 64, copied.forward = kCopiedForward, copied.backward = kCopiedBackward;
  if (machine().is_gpu()) trials.insert(trials.end(), all.size(), copied);
  for (size_t number = 0; number < trials.size(); ++number) {
    const Trial& trial = trials[number];
    const Wrong& wrong = all[number % all.size()];
    Trial::Tensors t = trial.tensors(77);
    t.cu_q.fill(wrong.queries), t.cu_k.fill(wrong.keys);
    trial.run_forward(t);
    EXPECT_EQ(kernels::kErrorBase - t.error.get_integer(0), wrong.sequence)
        << wrong.queries[1] << " " << wrong.keys[1];
    t.lse.fill(Values(80, 0.0));
    t.error.fill(std::vector<int64_t>{0});
    trial.run_backward(t);
    EXPECT_EQ(kernels::kErrorBase - t.error.get_integer(0), wrong.sequence)
        << wrong.queries[1] << " " << wrong.keys[1];
    EXPECT_TRUE(t.o.untouched_outside() && t.lse.untouched_outside() && t.d_q.untouched_outside() &&
                t.d_k.untouched_outside() && t.d_v.untouched_outside());
  }
}

TEST(AttentionSequences, SameBitsAtEveryCall) {
  const Trial trial{.lengths = kUsual, .right = 0, .sinks = {0.5, -2}};
  const Trial::Tensors first = trial.tensors(91), second = trial.tensors(91);
  for (const Trial::Tensors* t : {&first, &second}) trial.run_forward(*t), trial.run_backward(*t);
  EXPECT_EQ(first.d_q.values(), second.d_q.values());
  EXPECT_EQ(first.d_k.values(), second.d_k.values());
  EXPECT_EQ(first.d_v.values(), second.d_v.values());
  EXPECT_EQ(first.d_sinks.values(), second.d_sinks.values());
}

}  // namespace
}  // namespace ligerdsl::test::attention_sequences_test
