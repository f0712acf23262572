// Tests how BlockLanes distributes elements over lanes, and OnlineSum. The interpreter runs them.

#include <cmath>

#include "evaluate.h"

namespace ligerdsl {
namespace {

using test::evaluate;
using Floats = std::vector<float>;

OnlineSums none(KernelBuilder& k, const BlockLanes& lanes) {
  return {k.full(lanes.carried(), -INFINITY, f32), k.zeros(lanes.carried(), f32)};
}

// Returns log(sum of e^(scale x)).
double lse(const Floats& in, double scale = 1) {
  double most = -INFINITY, sum = 0;
  for (float x : in) most = std::max(most, scale * x);
  for (float x : in) sum += std::exp(scale * x - most);
  return most + std::log(sum);
}

TEST(BlockLanes, LanesGetVectorsAndCtasGetSegments) {
  const Target gpu = target_named("sm_90a"), cpu = target_named("x86-64-v3");
  EXPECT_EQ(block_lanes(gpu, bf16, 4096, 4), (BlockLanes{.fold = 4, .lanes = 128, .run = 8}));
  EXPECT_EQ(block_lanes(gpu, f32, 4096, 4, 1, false), (BlockLanes{.fold = 32, .lanes = 128}));
  EXPECT_EQ(block_lanes(gpu, bf16, 4096, 2, 2),
            (BlockLanes{.fold = 4, .lanes = 64, .run = 8, .ctas = 2}));
  EXPECT_EQ(block_lanes(gpu, bf16, 512, 4), (BlockLanes{.lanes = 64, .run = 8}))
      << "a block with fewer vectors than threads";
  EXPECT_EQ(block_lanes(gpu, bf16, 4, 1, 8), (BlockLanes{.lanes = 4}))
      << "a block smaller than a vector and than a cluster";
  EXPECT_EQ(block_lanes(cpu, bf16, 4096, 4, 2), (BlockLanes{.fold = 64, .lanes = 64}));
  EXPECT_EQ(block_lanes(cpu, f32, 96, 4), (BlockLanes{.fold = 3, .lanes = 32}));
  for (const int64_t block : {4, 96, 512, 768, 4096, 5 * 4096})
    for (const int ctas : {1, 2, 4})
      for (const bool aligned : {false, true}) {
        EXPECT_EQ(block_lanes(gpu, bf16, block, 4, ctas, aligned).size(), block);
        EXPECT_EQ(block_lanes(cpu, bf16, block, 4, ctas, aligned).size(), block);
      }
}

// Lane l of CTA c holds the elements c * 8 + (f * 2 + l) * 2 + r, where f and r are 0 or 1.
TEST(BlockLanes, DistributesElementsToLanes) {
  const BlockLanes lanes{.fold = 2, .lanes = 2, .run = 2, .ctas = 2};
  EXPECT_EQ(lanes.shape(), (Shape{2, 2, 2, 2}));
  EXPECT_EQ(lanes.carried(), (Shape{2, 2}));
  Floats in(16);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  const auto of = [&](auto f) {
    return evaluate(in, [&](KernelBuilder& k, Tile x) { return f(k, lanes.distribute(x)); });
  };
  EXPECT_EQ(of([&](KernelBuilder&, Tile t) { return lanes.sum(t); }),
            (Floats{0 + 1 + 4 + 5, 2 + 3 + 6 + 7, 42, 50}));
  EXPECT_EQ(evaluate(in, [&](KernelBuilder&, Tile x) { return lanes.sum(lanes.deal(x)); }),
            (Floats{10, 18, 42, 50}))
      << "deal() is the old name of distribute()";
  EXPECT_EQ(of([&](KernelBuilder&, Tile t) { return lanes.reduce_max(t); }),
            (Floats{5, 7, 13, 15}));
  const auto less_own =
      of([&](KernelBuilder&, Tile t) { return t - lanes.expand(lanes.reduce_max(t)); });
  EXPECT_EQ(less_own, (Floats{-5, -4, -5, -4, -1, 0, -1, 0, -5, -4, -5, -4, -1, 0, -1, 0}));
}

// If a lane has several equal maxima, the result must be the lowest of their positions. Tests every
// kind of BlockLanes.
TEST(BlockLanes, MaxWithIndexReturnsTheLowestPosition) {
  const Floats in{3, 9, 9, 0, 9, 9, -1, 7, 2, 2, 8, 8, 5, 2, 8, 1};
  for (const BlockLanes& lanes :
       {BlockLanes{.fold = 2, .lanes = 2, .run = 2, .ctas = 2},
        BlockLanes{.fold = 4, .lanes = 2, .run = 2}, BlockLanes{.fold = 8, .lanes = 2},
        BlockLanes{.fold = 4, .lanes = 2, .ctas = 2}, BlockLanes{.lanes = 16}}) {
    SCOPED_TRACE(lanes.fold);
    const auto positions = evaluate(in, [&](KernelBuilder&, Tile x) {
      return std::get<1>(lanes.max_with_index(lanes.distribute(x)));
    });
    const auto values = evaluate(in, [&](KernelBuilder&, Tile x) {
      return std::get<0>(lanes.max_with_index(lanes.distribute(x)));
    });
    std::vector<int> best(lanes.lanes * lanes.ctas, -1);
    const int64_t segment = lanes.fold * lanes.lanes * lanes.run;
    for (int i = 0; i < 16; ++i) {
      int& place = best[i / segment * lanes.lanes + i % segment / lanes.run % lanes.lanes];
      if (place < 0 || in[i] > in[place]) place = i;
    }
    for (size_t lane = 0; lane < best.size(); ++lane) {
      EXPECT_EQ(positions[lane], best[lane]) << lane;
      EXPECT_EQ(values[lane], in[best[lane]]) << lane;
    }
  }
}

TEST(OnlineSum, CombinedPartsMatchTheWhole) {
  const Floats in{-3.0f, -0.5f, 0.0f, 0.25f, 1.0f, 2.5f, 8.0f, -40.0f};
  const auto three_parts = [](KernelBuilder& k, Tile x) {
    OnlineSum empty{k.constant(-INFINITY, f32), k.constant(0, f32)};
    OnlineSum left = accumulate(empty, x);
    OnlineSum right = accumulate(accumulate(empty, x - 3.0f), x + 2.0f);
    return log_sum_exp(combine(combine(left, empty), right));
  };
  EXPECT_FLOAT_EQ(evaluate(in, three_parts)[0],
                  static_cast<float>(lse(in) + std::log(1 + std::exp(-3.0) + std::exp(2.0))));
  const auto nothing = evaluate(in, [](KernelBuilder& k, Tile) {
    OnlineSum empty{k.constant(-INFINITY, f32), k.constant(0, f32)};
    return combine(empty, empty).s;
  });
  EXPECT_EQ(nothing, Floats{0});
}

// Tests positive and negative scales, as constants and as values known only on the device. Masked
// elements must not count.
TEST(OnlineSum, AppliesScalesAndMasks) {
  const Floats in{4, -2, 1000, 0.5f, -1000, 3, 1, 2};
  const auto masked = [&](double scale, bool on_device, const BlockLanes& lanes) {
    return evaluate(in, [&](KernelBuilder& k, Tile x) {
      const Tile counts = abs(x) < 100.0f;
      const Scalar factor = sum(x * 0.0f) + scale * M_LOG2E;
      OnlineOptions options{.scale_log2 = scale * M_LOG2E, .counts = counts};
      if (on_device) options.scale_log2 = factor;
      const OnlineSum whole{k.constant(-INFINITY, f32), k.constant(0, f32)};
      if (lanes.size() == 1) return log_sum_exp(accumulate(whole, x, options));
      return log_sum_exp(combine(accumulate(none(k, lanes), lanes, x, options)));
    })[0];
  };
  const Floats counted{4, -2, 0.5f, 3, 1, 2};
  const BlockLanes whole, distributed{.fold = 2, .lanes = 2, .ctas = 2},
      runs{.fold = 2, .lanes = 2, .run = 2};
  for (const BlockLanes& lanes : {whole, distributed, runs})
    for (const bool on_device : {false, true})
      for (const double scale : {1.0, 0.125, -2.0})
        EXPECT_NEAR(masked(scale, on_device, lanes), lse(counted, scale), 1e-5)
            << scale << " on device " << on_device << " folds of " << lanes.fold;
}

// Two lanes accumulate two blocks. In the first block, all elements of one lane are -inf.
TEST(OnlineSums, CombinedLanesMatchTheWhole) {
  const Floats in{-INFINITY, 2, -INFINITY, 1, 0.5f, 90, 3, -4};
  const BlockLanes lanes{.fold = 2, .lanes = 2};
  const auto total = evaluate(in, [&](KernelBuilder& k, Tile x) {
    const Tile blocks = x.reshape({2, 4});
    const auto block = [&](int i) {
      return gather(blocks, k.full({1, 4}, i, i32), 0).reshape({4});
    };
    return log_sum_exp(
        combine(accumulate(accumulate(none(k, lanes), lanes, block(0)), lanes, block(1))));
  });
  EXPECT_NEAR(total[0], 90, 1e-5);
  const auto nothing =
      evaluate(in, [&](KernelBuilder& k, Tile) { return combine(none(k, lanes)).s; });
  EXPECT_EQ(nothing[0], 0);
}

// The caller computes the terms of the sum. Here, terms at odd indices count twice.
TEST(OnlineSums, AcceptsTermsOfTheCaller) {
  const BlockLanes lanes{.fold = 2, .lanes = 2, .run = 2};
  const Floats in{0, 1, 2, 3, 4, 5, 6, 7};
  const auto total = evaluate(in, [&](KernelBuilder& k, Tile x) {
    const Tile t = lanes.distribute(x), twice = lanes.distribute(k.arange(8) % 2 == 1);
    const auto terms = [&](const Tile& base) {
      const Tile e = exp2(t - base);
      return where(twice, e + e, e);
    };
    const OnlineSum sum =
        combine(accumulate_terms(none(k, lanes), lanes, lanes.reduce_max(t), terms));
    return sum.s * exp2(sum.m);
  });
  EXPECT_EQ(total[0], (1 + 4 + 16 + 64) + 2 * (2 + 8 + 32 + 128));
}

}  // namespace
}  // namespace ligerdsl
