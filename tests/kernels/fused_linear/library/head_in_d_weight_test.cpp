// Tests memory limits under which d_weight's memory holds exponentials
// (lib/abi/fused_linear/chunks.h).
#include "tests/kernels/fused_linear/library/linear_head.h"

namespace ligerdsl::test::head_in_d_weight_test {
namespace {

using Head = LinearHead;
constexpr Gradients kWithoutBias{.x = true, .weight = true, .bias = false};

class HeadInDWeight : public WithProducts {};
INSTANTIATE_TEST_SUITE_P(Products, HeadInDWeight, testing::Values(Products::kernels),
                         products_name);

// Returns a memory limit with space for `classes` f32 logits of a block, `cols` f32 values and 64
// bytes for each row.
int64_t room(int64_t rows, int64_t cols, int64_t classes) {
  return rows * classes * 4 + rows * cols * 4 + rows * 64;
}

Head limited(int64_t n, int64_t h, int64_t v, DType type, CrossEntropyCase c, int64_t bytes,
             Gradients wanted = kWithoutBias) {
  Head head(n, h, v, type, std::move(c), wanted);
  head.desc.max_workspace_bytes = bytes;
  return head;
}

// One chunk has all rows, or there are several chunks. With several, all but the last are
// recomputed.
TEST_P(HeadInDWeight, Options) {
  LIGERDSL_SKIP_LONG_EMULATION();
  const int64_t v = 1100;
  const std::vector<CrossEntropyCase> cases = {{},
                                               {.smoothing = exact(0.1)},
                                               {.softcap = 3},
                                               {.lse_square = exact(1e-3)},
                                               {.weight = class_weights(v)},
                                               {.temperature = 1.5},
                                               {.ignore_index = 2,
                                                .smoothing = exact(0.2),
                                                .lse_square = exact(1e-3),
                                                .weight = class_weights(v)}};
  const std::vector<Reduce> reductions{Reduce::none, Reduce::mean, Reduce::sum};
  const std::vector<int64_t> rows{40, 150};
  for (const auto& [reduction, options, n] : combinations(reductions, cases, rows)) {
    CrossEntropyCase c = options;
    c.reduction = reduction;
    limited(n, 64, v, f32, c, room(n, 64, 400)).check();
    Head rounded = limited(n, 64, v, bf16, c, room(n, 64, 400));
    rounded.set_d_weight_type(bf16);
    rounded.check();
  }
}

TEST_P(HeadInDWeight, Shapes) {
  LIGERDSL_SKIP_LONG_EMULATION();
  const int64_t shapes[][3] = {
      {64, 64, 513}, {65, 64, 2048}, {8, 8, 700}, {200, 32, 1537}, {33, 7, 600}};
  for (const auto& [n, h, v] : shapes) {
    for (DType type : kFloats) {
      for (bool with_d_x : {true, false}) {
        Head head = limited(n, h, v, type, {}, room(n, h, 400) + 4000,
                            {.x = with_d_x, .weight = true, .bias = false});
        EXPECT_LT(head.workspace_bytes(n), static_cast<size_t>(n * v * 4)) << "logits do not fit";
        head.check();
      }
    }
  }
}

TEST_P(HeadInDWeight, WithoutBias) {
  Head head = limited(40, 64, 1100, f32, {}, room(40, 64, 400));
  head.desc.bias_dtype = 0;
  head.check();
}

TEST_P(HeadInDWeight, UpstreamGradient) {
  for (Reduce reduction : {Reduce::mean, Reduce::none}) {
    Head head = limited(150, 64, 1100, f32, {.smoothing = exact(0.1), .reduction = reduction},
                        room(150, 64, 400));
    Values g{3.0};
    if (reduction == Reduce::none) {
      g = Random(31).normals(150);
      for (double& value : g) value = exact(value);
    }
    head.upstream(g);
    head.check();
  }
}

// The limit has room for the exponentials of few rows. The other rows' gradients of logits are in
// d_weight's memory, between the exponentials and the finished blocks. The last few blocks have no
// room for these gradients.
TEST_P(HeadInDWeight, RecomputedRowsInDWeight) {
  const DType type = on_gpu() ? bf16 : f32;  // matmuls on a CPU are f32
  for (const double smoothing : {0.0, exact(0.1)}) {
    for (const int64_t kept : {16, 40}) {
      if (on_gpu() && (smoothing == 0 || kept == 16)) continue;  // an emulator is slow
      const int64_t n = 500, h = 64, v = 4100, size = size_of(type);
      const CrossEntropyCase c{.ignore_index = 2, .smoothing = smoothing};
      const int64_t bytes = 128 * 256 * size + kept * (256 + h) * size + 36'000;
      limited(n, h, v, type, c, bytes).check();
      if (!on_gpu()) continue;
      Head rounded = limited(n, h, v, type, c, bytes);
      rounded.set_d_weight_type(type);
      rounded.check();
    }
  }
}

// d_weight cannot hold the exponentials of all rows. The gradients of the other rows are added in
// large chunks.
TEST_P(HeadInDWeight, LeadingRows) {
  LIGERDSL_SKIP_LONG_EMULATION();
  for (const DType type : {bf16, f32}) {
    for (const double smoothing : {0.0, exact(0.1)}) {
      const int64_t n = 1700, h = 8, v = 600;
      Head head = limited(n, h, v, type, {.smoothing = smoothing}, n * v * size_of(type) * 3 / 4);
      EXPECT_LT(head.workspace_bytes(n), static_cast<size_t>(n * v * size_of(type)))
          << "logits do not fit";
      head.check();
    }
  }
}

// A d_weight with padding between its rows holds no exponentials.
TEST_P(HeadInDWeight, PaddedDWeight) {
  Head head(40, 64, 1100, f32, {}, kWithoutBias, 8);
  head.desc.max_workspace_bytes = room(40, 64, 400);
  head.check();
}

// Logits are far from the label's logit, so exponentials are recomputed, also in blocks.
TEST_P(HeadInDWeight, LargeLogits) {
  Head head(40, 64, 1100, f32, {}, kWithoutBias);
  Values x = head.x.values();
  for (double& value : x) value *= 64;
  head.x.fill(x);
  head.desc.max_workspace_bytes = room(40, 64, 400);
  head.run();
  const CrossEntropyResult expected = cross_entropy_reference(head.logits(), head.labels, head.c);
  EXPECT_TRUE(close_loss(head.loss.values(), expected.loss, 1e-4));
  const auto [d_x, d_weight] =
      product_gradients(expected.d_logits, head.x, head.weight, 40, 64, 1100);
  EXPECT_TRUE(close_normwise(head.d_x.values(), d_x, 1e-3));
  EXPECT_TRUE(close_normwise(head.d_weight.values(), d_weight, 1e-3));
}

// Infinities in ignored rows do not change the results.
TEST_P(HeadInDWeight, IgnoredRowsMayHoldAnything) {
  Head head(40, 64, 1100, f32, {}, kWithoutBias);
  Head same(40, 64, 1100, f32, {}, kWithoutBias);
  for (Head* each : {&head, &same}) each->desc.max_workspace_bytes = room(40, 64, 400);
  for (int64_t i = 4; i < 40; i += 5)
    for (int64_t j = 0; j < 64; ++j)
      head.x.set(i * 64 + j, std::numeric_limits<double>::infinity());
  head.run();
  same.run();
  EXPECT_EQ(head.d_weight.values(), same.d_weight.values());
}

// Some tiles have only ignored rows. Cases: one chunk, recomputed rows, chunks that are added.
TEST_P(HeadInDWeight, SegmentsOfIgnoredRows) {
  const std::vector<std::vector<std::pair<int64_t, int64_t>>> all_segments = {
      {{0, 128}}, {{100, 270}}, {{250, 453}}, {{0, 384}}, {{0, 453}}};
  const std::vector<DType> types{f32, bf16};
  const std::vector<int64_t> widths{32, 512};  // d_weight holds exponentials of few or all rows
  for (const auto& [segments, type, h] : combinations(all_segments, types, widths)) {
    if (on_gpu() && (type == f32 || h == 512)) continue;
    Head clean = limited(453, h, 700, type, {.smoothing = exact(0.1)}, room(453, h, 200)),
         other = limited(453, h, 700, type, {.smoothing = exact(0.1)}, room(453, h, 200));
    for (Head* head : {&clean, &other}) head->ignore(segments);
    clean.check();
    // Ignored rows that are recomputed must hold finite values.
    other.fill_ignored_rows(h == 512 ? std::numeric_limits<double>::quiet_NaN() : 3.0);
    other.run();
    EXPECT_TRUE(other.d_weight.same_bits(clean.d_weight));
    EXPECT_EQ(other.d_x.values(), clean.d_x.values());
  }
  if (on_gpu()) return;
  Head leading = limited(1700, 8, 600, f32, {}, 1700 * 600 * 4 * 3 / 4);
  leading.ignore({{0, 200}, {500, 1000}, {1500, 1700}});
  leading.check();
}

TEST_P(HeadInDWeight, TwoRunsAreBitIdentical) {
  Head first = limited(150, 64, 1100, bf16, {}, room(150, 64, 400)),
       second = limited(150, 64, 1100, bf16, {}, room(150, 64, 400));
  first.run();
  second.run();
  EXPECT_TRUE(first.d_weight.same_bits(second.d_weight));
  EXPECT_TRUE(first.d_x.same_bits(second.d_x));
}

TEST_P(HeadInDWeight, WorkspaceStaysBelowItsLimit) {
  for (int64_t n : {40, 64, 65, 150, 1000}) {
    const int64_t bytes = room(n, 64, 400);
    EXPECT_LE(limited(n, 64, 1100, f32, {}, bytes).workspace_bytes(n), static_cast<size_t>(bytes))
        << n;
  }
}

}  // namespace
}  // namespace ligerdsl::test::head_in_d_weight_test
