// Tests the float64 references: compares each gradient with central differences of its forward, in
// float64.
#include <functional>

#include "kernels/attention/attention_reference.h"
#include "kernels/cross_entropy/cross_entropy_reference.h"
#include "kernels/cross_entropy/vocab_parallel_cross_entropy_reference.h"
#include "kernels/divergence/divergence_reference.h"
#include "kernels/elementwise/activation_reference.h"
#include "kernels/elementwise/dropout_reference.h"
#include "kernels/elementwise/gated_activation_reference.h"
#include "kernels/fused_linear/logit_divergence_reference.h"
#include "kernels/norm/layer_norm_reference.h"
#include "kernels/norm/rms_norm_reference.h"
#include "kernels/rope/rope_reference.h"
#include "tests/kernels/shapes.h"
#include "tests/support/reference_call.h"

namespace ligerdsl::test::reference_test {
namespace {

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Checks that `gradient` is the gradient of f at x.
void check_gradient(const std::function<double(const Values&)>& f, Values x,
                    const Values& gradient) {
  constexpr double h = 1e-5;
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + h;
    const double above = f(x);
    x[i] = at - h;
    const double below = f(x);
    x[i] = at;
    EXPECT_NEAR((above - below) / (2 * h), gradient[i], 1e-7 * (1 + std::fabs(gradient[i])))
        << "element " << i;
  }
}

TEST(Reference, RmsNorm) {
  const int64_t n = 3, h = 7;
  const Values x = Random(1).normals(n * h), w = Random(2).normals(h),
               dy = Random(3).normals(n * h), ds = Random(4).normals(n * h);
  const auto g = rms_norm_gradient_reference(dy, x, w, ds, n, h, 1e-3, 1.0);
  check_gradient(
      [&](const Values& v) {
        return dot(rms_norm_reference(v, w, n, h, 1e-3, 1.0).y, dy) + dot(v, ds);
      },
      x, g.dx);
  check_gradient(
      [&](const Values& v) { return dot(rms_norm_reference(x, v, n, h, 1e-3, 1.0).y, dy); }, w,
      g.dw);
}

TEST(Reference, LayerNorm) {
  const int64_t n = 3, h = 7;
  const Values x = Random(1).normals(n * h), w = Random(2).normals(h), b = Random(3).normals(h),
               dy = Random(4).normals(n * h);
  const auto g = layer_norm_gradient_reference(dy, x, w, {}, n, h, 1e-3);
  check_gradient(
      [&](const Values& v) { return dot(layer_norm_reference(v, w, b, n, h, 1e-3).y, dy); }, x,
      g.dx);
  check_gradient(
      [&](const Values& v) { return dot(layer_norm_reference(x, v, b, n, h, 1e-3).y, dy); }, w,
      g.dw);
  check_gradient(
      [&](const Values& v) { return dot(layer_norm_reference(x, w, v, n, h, 1e-3).y, dy); }, b,
      g.db);
}

TEST(Reference, PolyNorm) {
  const int64_t n = 3, h = 7;
  const Values x = Random(1).normals(n * h), w = Random(2).normals(3), b = Random(3).normals(1),
               dy = Random(4).normals(n * h);
  const std::map<std::string, double> numbers = {{"N", n}, {"H", h}, {"eps", 1e-3}};
  const auto forward = [&](const Values& x, const Values& w, const Values& b) {
    return expected_of("poly_norm_forward", numbers, {{"x", x}, {"weight", w}, {"bias", b}});
  };
  const auto y = [&](const Values& x, const Values& w, const Values& b) {
    return dot(forward(x, w, b).at("y"), dy);
  };
  const auto g =
      expected_of("poly_norm_backward", numbers,
                  {{"d_y", dy}, {"x", x}, {"weight", w}, {"rstd", forward(x, w, b).at("rstd")}},
                  {"d_weight", "d_bias"});
  check_gradient([&](const Values& v) { return y(v, w, b); }, x, g.at("d_x"));
  check_gradient([&](const Values& v) { return y(x, v, b); }, w, g.at("d_weight"));
  check_gradient([&](const Values& v) { return y(x, w, v); }, b, g.at("d_bias"));
}

TEST(Reference, ModulatedRmsNorm) {
  const int64_t n = 6, h = 5;
  const Values x = Random(1).normals(n * h), w = Random(2).normals(h), s = Random(3).normals(2 * h),
               t = Random(4).normals(2 * h), dy = Random(5).normals(n * h);
  const std::map<std::string, double> numbers = {
      {"N", n}, {"H", h}, {"eps", 1e-3}, {"offset", 0.5}};
  const auto forward = [&](const Values& x, const Values& w, const Values& s, const Values& t) {
    return expected_of("modulated_rms_norm_forward", numbers,
                       {{"x", x}, {"weight", w}, {"scale", s}, {"shift", t}});
  };
  const auto y = [&](const Values& x, const Values& w, const Values& s, const Values& t) {
    return dot(forward(x, w, s, t).at("y"), dy);
  };
  const auto g = expected_of("modulated_rms_norm_backward", numbers,
                             {{"d_y", dy},
                              {"x", x},
                              {"weight", w},
                              {"scale", s},
                              {"rstd", forward(x, w, s, t).at("rstd")}},
                             {"d_weight", "d_scale", "d_shift"});
  check_gradient([&](const Values& v) { return y(v, w, s, t); }, x, g.at("d_x"));
  check_gradient([&](const Values& v) { return y(x, v, s, t); }, w, g.at("d_weight"));
  check_gradient([&](const Values& v) { return y(x, w, v, t); }, s, g.at("d_scale"));
  check_gradient([&](const Values& v) { return y(x, w, s, v); }, t, g.at("d_shift"));
}

TEST(Reference, GroupNorm) {
  const std::map<std::string, double> numbers = {
      {"N", 2}, {"C", 6}, {"K", 3}, {"S", 4}, {"eps", 1e-3}};
  const Values x = Random(1).normals(48), w = Random(2).normals(6), b = Random(3).normals(6),
               dy = Random(4).normals(48);
  const auto forward = [&](const Values& x, const Values& w, const Values& b) {
    return expected_of("group_norm_forward", numbers, {{"x", x}, {"weight", w}, {"bias", b}});
  };
  const auto y = [&](const Values& x, const Values& w, const Values& b) {
    return dot(forward(x, w, b).at("y"), dy);
  };
  const auto made = forward(x, w, b);
  const auto g = expected_of(
      "group_norm_backward", numbers,
      {{"d_y", dy}, {"x", x}, {"weight", w}, {"mean", made.at("mean")}, {"rstd", made.at("rstd")}},
      {"d_weight", "d_bias"});
  check_gradient([&](const Values& v) { return y(v, w, b); }, x, g.at("d_x"));
  check_gradient([&](const Values& v) { return y(x, v, b); }, w, g.at("d_weight"));
  check_gradient([&](const Values& v) { return y(x, w, v); }, b, g.at("d_bias"));
}

TEST(Reference, Activations) {
  const Values x = Random(1).normals(9, 2.0), d_y = Random(2).normals(9);
  for (ActivationKind kind :
       {ActivationKind::gelu_tanh, ActivationKind::gelu_erf, ActivationKind::silu,
        ActivationKind::relu, ActivationKind::relu_squared}) {
    check_gradient([&](const Values& v) { return dot(activation_reference(kind, v), d_y); }, x,
                   activation_gradient_reference(kind, d_y, x));
  }
  for (double u : {-3.0, -0.5, 1.0, 4.0})  // textbook form
    EXPECT_NEAR(activation_reference(ActivationKind::gelu_erf, u),
                0.5 * u * (1 + std::erf(u / std::sqrt(2.0))), 1e-15);
}

TEST(Reference, Dyt) {
  const Values x = Random(1).normals(12), w = Random(2).normals(4), b = Random(3).normals(4),
               dy = Random(4).normals(12);
  const Values a{0.7};
  const auto y = [&](const Values& x, const Values& a, const Values& w, const Values& b) {
    const auto forward =
        expected_of("dyt_forward", {}, {{"x", x}, {"alpha", a}, {"weight", w}, {"bias", b}});
    return dot(forward.at("y"), dy);
  };
  const auto g =
      expected_of("dyt_backward", {}, {{"d_y", dy}, {"x", x}, {"alpha", a}, {"weight", w}},
                  {"d_alpha", "d_weight", "d_bias"});
  check_gradient([&](const Values& v) { return y(v, a, w, b); }, x, g.at("d_x"));
  check_gradient([&](const Values& v) { return y(x, v, w, b); }, a, g.at("d_alpha"));
  check_gradient([&](const Values& v) { return y(x, a, v, b); }, w, g.at("d_weight"));
  check_gradient([&](const Values& v) { return y(x, a, w, v); }, b, g.at("d_bias"));
}

// Values are from kat_vectors of Random123.
TEST(Reference, Philox) {
  using Four = std::array<uint32_t, 4>;
  EXPECT_EQ(philox_reference({0, 0, 0, 0}, {0, 0}),
            (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      philox_reference({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Reference, Dropout) {
  const Values x = Random(1).normals(9), d_y = Random(2).normals(9);
  const DropoutCase c{.p = 0.4, .seed = 3, .offset = 5};
  check_gradient([&](const Values& v) { return dot(dropout_reference(v, {}, c), d_y); }, x,
                 dropout_reference(d_y, {}, c));
}

TEST(Reference, Swiglu) {
  const Values gate = Random(1).normals(9, 2.0), up = Random(2).normals(9),
               d_out = Random(3).normals(9);
  const auto g = swiglu_gradient_reference(d_out, gate, up, 0.7, 1.3);
  check_gradient([&](const Values& v) { return dot(swiglu_reference(v, up, 0.7, 1.3), d_out); },
                 gate, g.d_gate);
  check_gradient([&](const Values& v) { return dot(swiglu_reference(gate, v, 0.7, 1.3), d_out); },
                 up, g.d_up);
}

TEST(Reference, Geglu) {
  const Values gate = Random(1).normals(9, 2.0), up = Random(2).normals(9),
               d_out = Random(3).normals(9);
  const auto g = geglu_gradient_reference(d_out, gate, up);
  check_gradient([&](const Values& v) { return dot(geglu_reference(v, up), d_out); }, gate,
                 g.d_gate);
  check_gradient([&](const Values& v) { return dot(geglu_reference(gate, v), d_out); }, up, g.d_up);
  for (double a : {-3.0, -0.5, 1.0, 4.0}) {  // textbook form
    const double z = std::sqrt(2 / 3.14159265358979323846) * (a + 0.044715 * a * a * a);
    EXPECT_NEAR(geglu_reference({a}, {1.0})[0], 0.5 * a * (1 + std::tanh(z)), 1e-15);
  }
}

TEST(Reference, Rope) {
  for (bool interleaved : {false, true}) {
    for (int64_t planes : {1, 3}) {
      RopeCase r{.batch = 2, .seq = 3, .heads = 2, .d = 7, .rotary = 6, .interleaved = interleaved};
      if (planes == 3) r.time = r.height = r.width = 1;
      const int64_t size = r.batch * r.seq * r.heads * r.d;
      const Values x = Random(1).normals(size), dy = Random(2).normals(size);
      Values cos(planes * r.seq * r.angles()), sin(cos.size());
      for (size_t i = 0; i < cos.size(); ++i)
        cos[i] = std::cos(0.3 * i), sin[i] = std::sin(0.3 * i);
      RopeCase back = r;
      back.sign = -1;
      check_gradient([&](const Values& v) { return dot(rope_reference(v, cos, sin, r), dy); }, x,
                     rope_reference(dy, cos, sin, back));
    }
  }
}

// Values computed by hand: (3, 4) rotated by 90 degrees is (-4, 3), in the columns that the layout
// pairs.
TEST(Reference, RopePairs) {
  const Values x{3, 30, 4, 40, 5}, cos{0, 1}, sin{1, 0};
  EXPECT_EQ(rope_reference(x, cos, sin, {.d = 5}), (Values{-4, 30, 3, 40, 5}));
  EXPECT_EQ(rope_reference(x, cos, sin, {.d = 5, .interleaved = true}), (Values{-30, 3, 4, 40, 5}));
  EXPECT_EQ(rope_reference(x, {0}, {1}, {.d = 5, .rotary = 2}), (Values{-30, 3, 4, 40, 5}));
  // Angle 0 is from the first plane, angle 1 from the second.
  const Values planes_cos{0, 9, 9, 1, 9, 9}, planes_sin{1, 9, 9, 0, 9, 9};
  EXPECT_EQ(
      rope_reference({3, 30, 4, 40}, planes_cos, planes_sin, {.d = 4, .time = 1, .height = 1}),
      (Values{-4, 30, 3, 40}));
}

TEST(Reference, Softmax) {
  const int64_t n = 6, h = 5;
  const Values x = Random(1).normals(n * h), dy = Random(2).normals(n * h);
  for (int64_t queries : {0, 3, 6}) {
    const std::map<std::string, double> numbers = {
        {"N", n}, {"H", h}, {"scale", 0.6}, {"causal", queries > 0}, {"n_queries", queries}};
    const auto y = [&](const Values& v) {
      return expected_of("softmax_forward", numbers, {{"x", v}}).at("y");
    };
    const auto g = expected_of("softmax_backward", numbers, {{"d_y", dy}, {"y", y(x)}});
    check_gradient([&](const Values& v) { return dot(y(v), dy); }, x, g.at("d_x"));
  }
}

// Cases: grouped heads, both edges of the band, queries without keys.
TEST(Reference, Attention) {
  AttentionCase c{
      .batch = 2, .queries = 5, .keys = 4, .heads = 4, .kv_heads = 2, .dim = 3, .scale = 0.7};
  for (const auto& [left, right, cap] :
       {std::tuple<int64_t, int64_t, double>{-1, 0, 0}, {1, 1, 0}, {-1, -1, 1.5}}) {
    c.left = left, c.right = right, c.cap = cap;
    const int64_t size = c.batch * c.queries * c.heads * c.dim,
                  size_kv = c.batch * c.keys * c.kv_heads * c.dim;
    const Values q = Random(1).normals(size), k = Random(2).normals(size_kv),
                 v = Random(3).normals(size_kv), dy = Random(4).normals(size);
    const AttentionResult r = attention_reference(c, q, k, v);
    const AttentionGradients g = attention_gradient_reference(c, q, k, v, r.o, dy, r.lse);
    check_gradient([&](const Values& x) { return dot(attention_reference(c, x, k, v).o, dy); }, q,
                   g.dq);
    check_gradient([&](const Values& x) { return dot(attention_reference(c, q, x, v).o, dy); }, k,
                   g.dk);
    check_gradient([&](const Values& x) { return dot(attention_reference(c, q, k, x).o, dy); }, v,
                   g.dv);
  }
}

// The loss reads o and lse. Every query has a finite lse, because each head has a sink.
TEST(Reference, AttentionWithSinksAndGradientOfLse) {
  AttentionCase c{
      .batch = 2, .queries = 5, .keys = 4, .heads = 4, .kv_heads = 2, .dim = 3, .scale = 0.7};
  for (const auto& [right, cap] : {std::pair<int64_t, double>{0, 0}, {-1, 1.5}}) {
    c.right = right, c.cap = cap;
    const int64_t size = c.batch * c.queries * c.heads * c.dim,
                  size_kv = c.batch * c.keys * c.kv_heads * c.dim;
    const Values q = Random(1).normals(size), k = Random(2).normals(size_kv),
                 v = Random(3).normals(size_kv), dy = Random(4).normals(size),
                 d_lse = Random(5).normals(c.batch * c.heads * c.queries),
                 sinks = Random(6).normals(c.heads);
    const auto loss = [&](const Values& q, const Values& k, const Values& v, const Values& sinks) {
      const AttentionResult r = attention_reference(c, q, k, v, sinks);
      return dot(r.o, dy) + dot(r.lse, d_lse);
    };
    const AttentionResult r = attention_reference(c, q, k, v, sinks);
    const AttentionGradients g =
        attention_gradient_reference(c, q, k, v, r.o, dy, r.lse, d_lse, sinks);
    check_gradient([&](const Values& x) { return loss(x, k, v, sinks); }, q, g.dq);
    check_gradient([&](const Values& x) { return loss(q, x, v, sinks); }, k, g.dk);
    check_gradient([&](const Values& x) { return loss(q, k, x, sinks); }, v, g.dv);
    check_gradient([&](const Values& x) { return loss(q, k, v, x); }, sinks, g.d_sinks);
  }
}

// Values computed by hand for two keys. With two queries, the first sees one key; with four
// queries, the first two see none.
TEST(Reference, AttentionOfFewKeys) {
  AttentionCase c{.batch = 1,
                  .queries = 2,
                  .keys = 2,
                  .heads = 1,
                  .kv_heads = 1,
                  .dim = 1,
                  .scale = 1,
                  .right = 0};
  const AttentionResult two = attention_reference(c, {0, 0}, {5, 7}, {1, 3});
  EXPECT_EQ(two.o, (Values{1, 2}));
  EXPECT_EQ(two.lse, (Values{0, std::log(2.0)}));
  c.queries = 4;
  const AttentionResult four = attention_reference(c, {0, 0, 0, 0}, {5, 7}, {1, 3});
  EXPECT_EQ(four.o, (Values{0, 0, 1, 2}));
  EXPECT_EQ(four.lse, (Values{-INFINITY, -INFINITY, 0, std::log(2.0)}));
}

// Checks the definition (no other point of the simplex is nearer), and the gradient by differences.
TEST(Reference, Sparsemax) {
  const auto sparsemax = [](const Values& x, int64_t n, int64_t h) {
    return expected_of("sparsemax_forward", {{"N", n}, {"H", h}}, {{"x", x}}).at("y");
  };
  EXPECT_EQ(sparsemax({3, 1, 3, 2.5, 5, 3}, 3, 2), (Values{1, 0, 0.75, 0.25, 1, 0}));
  const int64_t n = 4, h = 6;
  const Values x = Random(1).normals(n * h, 0.5), dy = Random(2).normals(n * h);
  const Values y = sparsemax(x, n, h);
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < h; ++j) sum += y[i * h + j];
    EXPECT_NEAR(sum, 1, 1e-12);
    // x - y is constant in the support and no larger outside of it.
    double tau = -INFINITY;
    for (int64_t j = 0; j < h; ++j) tau = std::max(tau, x[i * h + j] - y[i * h + j]);
    for (int64_t j = 0; j < h; ++j) {
      if (y[i * h + j] > 0) {
        EXPECT_NEAR(x[i * h + j] - y[i * h + j], tau, 1e-12);
      }
    }
  }
  const auto g = expected_of("sparsemax_backward", {{"N", n}, {"H", h}}, {{"y", y}, {"d_y", dy}});
  check_gradient([&](const Values& v) { return dot(sparsemax(v, n, h), dy); }, x, g.at("d_x"));
}

TEST(Reference, CrossEntropy) {
  const int64_t n = 4, v = 6;
  const Values x = Random(1).normals(n * v, 2.0), g = Random(2).normals(n);
  const std::vector<int64_t> labels{2, 5, -100, 0};
  Values weight = Random(3).normals(v);
  for (double& w : weight) w = std::fabs(w) + 0.1;
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    for (const Values& w : {Values{}, weight}) {
      for (double cap : {0.0, 3.0}) {
        CrossEntropyCase c{.n = n,
                           .classes = v,
                           .smoothing = 0.1,
                           .lse_square = 0.01,
                           .softcap = cap,
                           .weight = w,
                           .reduction = reduction,
                           .upstream = reduction == Reduce::none ? g : Values{1.7}};
        check_gradient(
            [&](const Values& z) {
              return dot(cross_entropy_reference(z, labels, c).loss, c.upstream);
            },
            x, cross_entropy_reference(x, labels, c).d_logits);
      }
    }
  }
}

// Without smoothing, or with smoothing over the vocabulary, each shard's loss is the loss of
// the whole vocabulary.
TEST(Reference, VocabParallelCrossEntropy) {
  const int64_t n = 4, v = 6, own = 4;
  const Values x = Random(1).normals(n * v, 2.0), g = Random(2).normals(n);
  const std::vector<int64_t> labels{2, 5, -100, 0};
  const auto columns = [&](const Values& all, int64_t first, int64_t count) {
    Values out;
    for (int64_t i = 0; i < n; ++i)
      out.insert(out.end(), &all[i * v + first], &all[i * v + first] + count);
    return out;
  };
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    for (double smoothing : {0.0, 0.3}) {
      for (bool shard_smoothing : {false, true}) {
        for (bool smooth_others : {false, true}) {
          VocabParallelCase c{.n = n,
                              .classes = own,
                              .total_classes = v,
                              .smoothing = smoothing,
                              .shard_smoothing = shard_smoothing,
                              .smooth_others = smooth_others,
                              .reduction = reduction,
                              .upstream = reduction == Reduce::none ? g : Values{1.7}};
          VocabParallelCase other = c;
          other.first_class = own;
          other.classes = v - own;
          const Values of_others =
              vocab_parallel_partials_reference(columns(x, own, v - own), labels, other);
          const auto result = [&](const Values& z) {
            Values all = vocab_parallel_partials_reference(z, labels, c);
            all.insert(all.end(), of_others.begin(), of_others.end());
            return vocab_parallel_reference(all, z, labels, c);
          };
          const Values mine = columns(x, 0, own);
          check_gradient([&](const Values& z) { return dot(result(z).loss, c.upstream); }, mine,
                         result(mine).d_logits);
          if (shard_smoothing) continue;
          const CrossEntropyCase whole{.n = n,
                                       .classes = v,
                                       .smoothing = c.share(),
                                       .reduction = reduction,
                                       .upstream = c.upstream};
          const auto right = cross_entropy_reference(x, labels, whole);
          EXPECT_TRUE(close_loss(result(mine).loss, right.loss, 1e-12));
          EXPECT_TRUE(
              close(result(mine).d_logits, columns(right.d_logits, 0, own), {1e-12, 1e-12}));
        }
      }
    }
  }
}

TEST(Reference, Divergences) {
  const int64_t n = 4, v = 6;
  const Values x = Random(1).normals(n * v), g = Random(2).normals(n * v),
               some = Random(3).normals(n * v);
  Values positive = some;
  for (double& p : positive) p = std::fabs(p);
  for (DivergenceKind kind : {DivergenceKind::kl, DivergenceKind::kl_log_target,
                              DivergenceKind::jsd, DivergenceKind::tvd}) {
    for (auto reduction : {DivergenceReduce::none, DivergenceReduce::mean, DivergenceReduce::sum,
                           DivergenceReduce::batchmean}) {
      for (double beta : {0.0, 0.3, 1.0}) {
        const Values& y = kind == DivergenceKind::kl ? positive : some;
        const DivergenceCase c{.kind = kind,
                               .n = n,
                               .cols = v,
                               .reduction = reduction,
                               .beta = beta,
                               .labels = {2, -100, 0, 1},
                               .upstream = reduction == DivergenceReduce::none ? g : Values{1.7}};
        check_gradient(
            [&](const Values& z) { return dot(divergence_reference(z, y, c).loss, c.upstream); }, x,
            divergence_reference(x, y, c).d_input);
      }
    }
  }
}

TEST(Reference, DivergenceOfLogitsGradient) {
  const int64_t n = 3, v = 5;
  const Values x = Random(1).normals(n * v), y = Random(2).normals(n * v);
  for (double beta : {0.0, 0.3, 1.0}) {
    for (double temperature : {1.0, 2.5}) {
      const DivergenceCase c{.kind = DivergenceKind::jsd,
                             .n = n,
                             .cols = v,
                             .beta = beta,
                             .labels = {2, -100, 0},
                             .upstream = {1.7}};
      check_gradient(
          [&](const Values& z) {
            return 1.7 * logit_divergence_reference(z, y, c, temperature).loss;
          },
          x, logit_divergence_reference(x, y, c, temperature).d_logits);
    }
  }
}

// From zero moments, step 1 moves every element by lr against the gradient's sign.
TEST(Reference, AdamwFirstStep) {
  const Values g = Random(1).normals(8);
  const Values zeros(8, 0.0);
  const auto next =
      expected_of("adamw_step", {{"lr", 0.01}, {"beta1", 0.9}, {"beta2", 0.999}, {"step", 1}},
                  {{"param", Values(8, 1.0)}, {"m", zeros}, {"v", zeros}, {"grad", g}});
  for (size_t i = 0; i < g.size(); ++i)
    EXPECT_NEAR(next.at("param")[i], 1.0 - (g[i] > 0 ? 0.01 : -0.01), 1e-12);
}

// Every 16-bit pattern except NaN is unchanged after conversion to f32 and back.
TEST(Half, RoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    ASSERT_TRUE(std::isnan(from_f16(half)) || to_f16(from_f16(half)) == half) << half;
    ASSERT_TRUE(std::isnan(from_bf16(half)) || to_bf16(from_bf16(half)) == half) << half;
  }
  EXPECT_TRUE(std::isnan(from_f16(to_f16(NAN))) && std::isnan(from_bf16(to_bf16(NAN))));
}

TEST(Half, RoundsToNearestEven) {
  Random random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto half = static_cast<uint16_t>(
        random.below(0x7bff));  // finite and not negative, and its successor is finite
    const float low = from_f16(half), high = from_f16(half + 1), middle = (low + high) / 2;
    ASSERT_EQ(to_f16(middle), half % 2 == 0 ? half : half + 1);
    ASSERT_EQ(to_f16(std::nextafter(middle, 0.0f)), half);
    ASSERT_EQ(to_f16(std::nextafter(middle, high)), half + 1);
  }
  EXPECT_EQ(to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(to_f16(65520.0f), 0x7c00);
}

}  // namespace
}  // namespace ligerdsl::test::reference_test
