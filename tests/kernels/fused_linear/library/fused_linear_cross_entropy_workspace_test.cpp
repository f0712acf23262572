// Tests fused_linear_cross_entropy under memory limits: size of the workspace, chunks of rows,
// blocks of the vocabulary.
#include "tests/kernels/fused_linear/library/fused_linear_cross_entropy.h"

namespace ligerdsl::test::fused_linear_cross_entropy_workspace_test {
namespace {

using Head = LinearHead;

TEST_P(FusedLinearCrossEntropy, WorkspaceStaysBelowItsLimit) {
  LIGERDSL_SKIP_LONG_EMULATION();
  Head head(300, 16, 400);
  const size_t whole = head.workspace_bytes(300);
  head.desc.chunk_rows = 1;
  const size_t least = head.workspace_bytes(300);
  head.desc.chunk_rows = 0;
  const size_t lse = 300 * 4;  // extra bytes if the library chooses the chunks
  for (size_t limit : {least + lse + 1024, least + lse + 100000, (least + whole) / 2}) {
    head.desc.max_workspace_bytes = static_cast<int64_t>(limit);
    EXPECT_LE(head.workspace_bytes(300), limit);
    EXPECT_GT(head.workspace_bytes(300), limit - limit / 3) << "room is left unused";
    head.check();
  }
  head.desc.max_workspace_bytes = 1000;
  EXPECT_EQ(head.workspace_bytes(300), SIZE_MAX);
  EXPECT_NE(std::string(ligerdsl_last_error()).find("`max_workspace_bytes`: expected at least"),
            std::string::npos)
      << ligerdsl_last_error();
  EXPECT_EQ(head.execute(), LIGERDSL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(ligerdsl_last_error()).find("max_workspace_bytes"), std::string::npos)
      << ligerdsl_last_error();
}

// Without stored logits, a loss needs workspace for two values per row and tile of the matmul, and
// a few values more.
TEST_P(FusedLinearCrossEntropy, LossesAloneKeepNoLogits) {
  const int64_t n = 300, v = 2000;
  for (const CrossEntropyCase& c : std::vector<CrossEntropyCase>{
           {},
           {.smoothing = exact(0.1)},
           {.smoothing = exact(0.1), .softcap = 3, .weight = class_weights(v)}}) {
    for (const DType type : {f32, bf16}) {
      for (const bool with_entropy : {false, true}) {
        Head head(n, 16, v, type, c, {false, false, false});
        head.desc.with_lse = 1;
        head.desc.with_entropy = with_entropy;
        const size_t logits = static_cast<size_t>(n) * v * 2, bytes = head.workspace_bytes(n);
        if (GetParam() == Products::kernels)
          EXPECT_LT(bytes, logits / 4);
        else
          EXPECT_GE(bytes, logits);
        head.check();
      }
    }
  }
}

// Rows of x and of the weight are unaligned. On a GPU libligerdsl's matmuls read copies of the
// whole weight or, under a limit, of its blocks. Copies have zeros in ignored rows.
TEST_P(FusedLinearCrossEntropy, UnalignedRows) {
  const int64_t n = 70, h = 51, v = 400, copy_stride = 64;
  for (const DType d_weight : {f32, bf16}) {
    for (const bool with_d_x : {true, false}) {
      Head clean(n, h, v, bf16, {.smoothing = exact(0.1)}, {.x = with_d_x}),
          other(n, h, v, bf16, {.smoothing = exact(0.1)}, {.x = with_d_x});
      for (Head* head : {&clean, &other}) head->set_d_weight_type(d_weight);
      const size_t whole = clean.workspace_bytes(n);
      if (on_gpu() && GetParam() == Products::kernels) {
        EXPECT_GE(whole, static_cast<size_t>((n + v) * copy_stride * 2));
      }
      clean.check();
      other.fill_ignored_rows(NAN);
      other.run();
      EXPECT_TRUE(other.d_weight.same_bits(clean.d_weight));
      clean.desc.max_workspace_bytes = static_cast<int64_t>(whole - whole / 8);
      if (clean.workspace_bytes(n) != SIZE_MAX) clean.check();
    }
  }
}

// If a limit leaves no room for a converted weight, the weight is converted in blocks. Covers
// chunks of rows and vocabulary-blocked calls. A CPU converts a 16-bit weight to f32, and a GPU
// converts an f32 weight to 16 bits.
TEST_P(FusedLinearCrossEntropy, CopiesOfTheWeightInBlocks) {
  const int64_t n = 90, h = 64, v = 1405;
  const auto copy = static_cast<size_t>(v * h) * (on_gpu() ? 2 : 4);
  for (DType type : on_gpu() ? std::vector{bf16} : std::vector{f16, bf16}) {
    for (DType d_weight : {f32, type}) {
      for (bool with_d_x : {true, false}) {
        Head head(n, h, v, type, {.smoothing = exact(0.1)}, {.x = with_d_x});
        if (on_gpu()) head.keep_weight_in_f32();
        head.set_d_weight_type(d_weight);
        head.desc.chunk_rows = 1;
        const size_t least = head.workspace_bytes(n) - copy;
        for (int64_t chunk : {0, 7}) {
          head.desc.chunk_rows = chunk;
          for (size_t more : {size_t{100'000}, size_t{200'000}}) {
            const size_t sums = chunk > 0 && d_weight != f32 ? static_cast<size_t>(v * h) * 4 : 0;
            head.desc.max_workspace_bytes = static_cast<int64_t>(least + more);
            if (sums > 0 && head.workspace_bytes(n) == SIZE_MAX) continue;
            EXPECT_LE(head.workspace_bytes(n), least + more);
            head.check();
          }
        }
      }
    }
  }
  Head first(n, h, v, bf16), second(n, h, v, bf16);
  for (Head* head : {&first, &second}) {
    if (on_gpu()) head->keep_weight_in_f32();
    head->desc.max_workspace_bytes = static_cast<int64_t>(head->workspace_bytes(n) - copy);
    head->run();
  }
  EXPECT_TRUE(first.d_x.same_bits(second.d_x));
  EXPECT_TRUE(first.d_weight.same_bits(second.d_weight));
}

// Limits leave room for few rows, so d_weight is vocabulary-blocked, and its blocks are also
// divided by rows.
TEST_P(FusedLinearCrossEntropy, SmallWorkspacesGoByVocabulary) {
  LIGERDSL_SKIP_LONG_EMULATION();
  const int64_t v = 405;
  const std::vector<CrossEntropyCase> cases = {{},
                                               {.smoothing = exact(0.1)},
                                               {.softcap = 3},
                                               {.lse_square = exact(1e-3)},
                                               {.weight = class_weights(v)},
                                               {.temperature = 1.5, .d_entropy = Values(90, 0.25)},
                                               {.ignore_index = 2,
                                                .smoothing = exact(0.2),
                                                .lse_square = exact(1e-3),
                                                .softcap = 4,
                                                .weight = class_weights(v)}};
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    for (CrossEntropyCase c : cases) {
      c.reduction = reduction;
      for (DType type : {f32, bf16}) {
        Head head(90, 24, v, type, c);
        if (type == bf16) head.set_d_weight_type(bf16);
        head.desc.chunk_rows = 1;
        const auto least = static_cast<int64_t>(head.workspace_bytes(90));
        head.desc.chunk_rows = 0;
        for (int64_t more : {int64_t{6000}, int64_t{40000}}) {
          head.desc.max_workspace_bytes = least + more;
          head.check();
        }
      }
    }
  }
}

TEST_P(FusedLinearCrossEntropy, ByVocabularyWithUpstreamAndAccumulation) {
  for (Reduce reduction : {Reduce::mean, Reduce::none}) {
    Head head(70, 12, 300, f32, {.smoothing = exact(0.1), .reduction = reduction});
    Values g{3.0};
    if (reduction == Reduce::none) {
      g = Random(31).normals(70);
      for (double& value : g) value = exact(value);
    }
    head.upstream(g);
    head.desc.accumulate = 1;
    head.d_weight_before = Random(32).normals(300 * 12);
    head.d_bias_before = Random(33).normals(300);
    for (double& value : head.d_weight_before) value = exact(value);
    for (double& value : head.d_bias_before) value = exact(value);
    head.d_weight.fill(head.d_weight_before);
    head.d_bias.fill(head.d_bias_before);
    head.desc.chunk_rows = 1;
    head.desc.max_workspace_bytes = static_cast<int64_t>(head.workspace_bytes(70)) + 20000;
    head.desc.chunk_rows = 0;
    head.check();
  }
}

TEST_P(FusedLinearCrossEntropy, ByVocabularyWithTokenScaling) {
  Head by_rows(70, 12, 300, f32, {.smoothing = exact(0.1), .softcap = 5});
  by_rows.desc.use_token_scaling = 1;
  by_rows.desc.chunk_rows = 1;
  const auto least = static_cast<int64_t>(by_rows.workspace_bytes(70));
  Head by_vocabulary(70, 12, 300, f32, {.smoothing = exact(0.1), .softcap = 5});
  by_vocabulary.desc.use_token_scaling = 1;
  by_vocabulary.desc.max_workspace_bytes = least + 20000;
  by_rows.run();
  by_vocabulary.run();
  EXPECT_TRUE(close_normwise(by_vocabulary.d_weight.values(), by_rows.d_weight.values(), 1e-5));
  EXPECT_TRUE(close_normwise(by_vocabulary.d_x.values(), by_rows.d_x.values(), 1e-5));
}

}  // namespace
}  // namespace ligerdsl::test::fused_linear_cross_entropy_workspace_test
